"""RTL executor: a program on the array itself, in Amaranth's simulator.

Slow (some tens of cycles a second for a few small tiles), without any tool but Python, and every
signal can be looked at. Logits, cycles and counts are those of :mod:`tokenpath.sim.fast`.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from amaranth.sim import Simulator
from numpy.typing import NDArray

from tokenpath.hw.arch.isa import Engine
from tokenpath.hw.arch.program import Program
from tokenpath.hw.array import Array
from tokenpath.hw.clock import period
from tokenpath.hw.load import images, step_slots
from tokenpath.hw.tile import COUNTS, Space, Tile
from tokenpath.sim.run import Step

MOST_CYCLES = 1 << 22

SETTLE_CYCLES = 8
"""Counts of clamped and wrapped words are complete so much later than the words."""


def counted(counts: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """(tiles,) of each of COUNTS, from (tiles, counts) of a step."""
    return dict(zip(COUNTS, (counts & 0xFFFFFFFF).T.copy(), strict=True))


class Record(NamedTuple):
    """One executed instruction: it issued in ``issued``, its post was visible in ``end``."""

    tile: int
    engine: Engine
    number: int
    issued: int
    end: int


class RtlMachine:
    """A program on an Array in Amaranth's simulator.

    ``records`` has the instructions of the last step, in order of their end, if ``trace``; a
    waveform of all steps goes to ``vcd``, closed by :meth:`close`.
    """

    def __init__(self, program: Program, *, trace: bool = False, vcd: Path | None = None) -> None:
        self.program = program
        self.array, self.trace = Array(arch=program.arch), trace
        self.records: list[Record] = []
        self._counts = np.zeros((program.tiles, len(COUNTS)), np.int64)
        self._order: tuple[int, int] | None = None
        self._results: list[Step] = []
        self._wanted = -1
        self._found: Any = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.simulator = Simulator(self.array)
        self.simulator.add_clock(period(hz=program.arch.clock_hz))
        self.simulator.add_testbench(self._serve, background=True)
        if trace:
            self.simulator.add_testbench(self._watch, background=True)
        self._waves = self.simulator.write_vcd(str(vcd)) if vcd else None
        if self._waves:
            self._waves.__enter__()

    def step(self, token: int, position: int) -> Step:
        """Run one decode step to its end. Raises RuntimeError when it doesn't end."""
        self._results.clear()
        self._order = (token, position)
        while not self._results:
            self.simulator.advance()
        return self._results.pop()

    def load(self, program: Program) -> None:
        """Start over with another program of the same Arch, which saves making the simulator."""
        if program.arch != self.program.arch:
            raise ValueError("a program of another Arch")
        self.program = program
        self._results.clear()
        self._order, self._wanted = None, -1
        self._counts[:] = 0
        self.simulator.reset()

    def words(self, tile: int) -> Any:
        """Vector memory of a tile, between steps: (vector_words,) int32."""
        self._wanted, self._found = tile, None
        while self._found is None:
            self.simulator.advance()
        return self._found

    def close(self) -> None:
        """Finish the waveform file."""
        if self._waves:
            self._waves.__exit__(None, None, None)
            self._waves = None

    # --- testbenches ---

    async def _serve(self, ctx: Any) -> None:
        await self._load(ctx)
        while True:
            if self._wanted >= 0:
                self._found, self._wanted = self._words(ctx, self._wanted), -1
            if self._order is None:
                await ctx.tick()
                continue
            token, position = self._order
            self._order = None
            self._results.append(await self._step(ctx, token, position))

    async def _load(self, ctx: Any) -> None:
        """Write the images straight into the memories, and how much code there is."""
        for index, (tile, image) in enumerate(
            zip(self.array.tiles, images(self.program), strict=True)
        ):
            await self._write(ctx, index, Space.LENGTHS, [len(rows) for rows in image.code])
            for sequencer, rows in zip(tile.sequencers, image.code, strict=True):
                _fill(ctx, sequencer.code, rows)
            _fill(ctx, tile.descriptors, image.descriptors)
            _fill(ctx, tile.store.memory, image.store)
            for address, word in enumerate(image.vector):
                ctx.set(tile.words.row(address), word - ((word & 1 << 31) << 1))

    async def _write(self, ctx: Any, tile: int, space: Space, values: list[int]) -> None:
        array = self.array
        ctx.set(array.host_tile, tile)
        ctx.set(array.host_space, space)
        ctx.set(array.host_write, 1)
        for address, value in enumerate(values):
            ctx.set(array.host_address, address)
            ctx.set(array.host_data, value & 0xFFFFFFFF)
            await ctx.tick()
        ctx.set(array.host_write, 0)

    async def _step(self, ctx: Any, token: int, position: int) -> Step:
        program, array = self.program, self.array
        for tile, slots in enumerate(step_slots(program, position, token)):
            await self._write(ctx, tile, Space.SLOTS, slots[: len(program.rules)])
        self.records.clear()
        ctx.set(array.go, 1)
        await ctx.tick()
        ctx.set(array.go, 0)
        await ctx.tick().until(array.done | (array.cycles[22] & ~array.cycles[31]))
        if not ctx.get(array.done):
            raise RuntimeError(f"the step didn't end in {MOST_CYCLES} cycles")
        cycles = int(ctx.get(array.cycles))
        await ctx.tick().repeat(SETTLE_CYCLES)
        before, self._counts = self._counts, self._read_counts(ctx)
        counts = counted(self._counts - before)
        result = array.tiles[program.result_tile].words.row(program.result_at + 1)
        return Step(
            position=position, token=token, logits=self._logits(ctx),
            best=int(ctx.get(result)), cycles=cycles,
            saturations=int(counts.pop("saturations").sum()),
            overflows=int(counts.pop("overflows").sum()), counters=counts,
        )  # fmt: skip

    def _read_counts(self, ctx: Any) -> Any:
        tiles: list[Tile] = self.array.tiles
        return np.array([[ctx.get(count) for count in tile.counts] for tile in tiles], np.int64)

    def _logits(self, ctx: Any) -> Any:
        program = self.program
        logits = np.zeros(program.vocab, np.int32)
        for tile, first, words in zip(
            self.array.tiles, program.logit_first, program.logit_words, strict=True
        ):
            for word in range(words):
                logits[first + word] = ctx.get(tile.words.row(program.logits_at + word))
        return logits

    def _words(self, ctx: Any, tile: int) -> Any:
        row, words = self.array.tiles[tile].words.row, self.program.arch.vector_words
        return np.array([ctx.get(row(address)) for address in range(words)], np.int32)

    async def _watch(self, ctx: Any) -> None:
        """Note when instructions issue and end."""
        queues = [
            (tile, Engine(engine), sequencer)
            for tile, each in enumerate(self.array.tiles)
            for engine, sequencer in enumerate(each.sequencers)
        ]
        issued, indices = [0] * len(queues), [0] * len(queues)
        events = [s.issue | s.over for *_, s in queues]
        while True:
            await ctx.tick()
            now = ctx.get(self.array.cycles)
            now -= (now >> 31) << 32
            if now < 0:
                indices = [0] * len(queues)
            for at, (tile, engine, sequencer) in enumerate(queues):
                if not ctx.get(events[at]):
                    continue
                if ctx.get(sequencer.issue):
                    issued[at] = now
                if ctx.get(sequencer.over):
                    record = Record(tile, engine, indices[at], issued[at], now + 1)
                    self.records.append(record)
                    indices[at] += 1


def _fill(ctx: Any, memory: Any, rows: list[int]) -> None:
    for address, row in enumerate(rows):
        ctx.set(memory.data[address], row)


def fast_records(fast: Any) -> Iterator[Record]:
    """The instructions of a FastMachine's last step; needs its ``trace``."""
    from tokenpath.sim.fast import columns as c

    engines, program = fast.engines, fast.program
    rows = engines.records.reshape(-1, c.R_WIDTH)
    for tile in range(program.tiles):
        at = int(engines.record0[tile])
        for engine in Engine:
            for index in range(len(program.instructions(tile, engine))):
                row = rows[at]
                yield Record(tile, engine, index, int(row[c.R_ISSUED]), int(row[c.R_END]))
                at += 1


def first_difference(rtl: RtlMachine, fast: Any) -> str:
    """The earliest instruction that issued or ended in another cycle than in the fast simulator.

    "" if there is none. Both machines must have been made with ``trace`` and run the same step.
    """
    mine = {record[:3]: record for record in rtl.records}
    wrong = []
    for wanted in fast_records(fast):
        have = mine.pop(wanted[:3], None)
        if have is None:
            wrong.append((wanted.end, wanted, "never ended"))
        elif have.issued != wanted.issued:
            at = min(have.issued, wanted.issued)
            wrong.append((at, wanted, f"issued in {have.issued} instead of {wanted.issued}"))
        elif have.end != wanted.end:
            text = f"issued in {have.issued}, ended in {have.end} instead of {wanted.end}"
            wrong.append((min(have.end, wanted.end), wanted, text))
    if not wrong:
        return ""
    _, record, text = min(wrong)
    return f"{rtl.program.where(record.tile, record.engine, record.number)} {text}"
