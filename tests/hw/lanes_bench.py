"""A small machine's Lanes with memories in Python, beside the golden vector unit."""

import random
from collections import deque
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from amaranth.sim import Simulator

from tokenpath.hw.arch import timing
from tokenpath.hw.arch.isa import Op
from tokenpath.hw.arch.numeric import ZERO_EXPONENT
from tokenpath.hw.arch.params import PRESETS, Arch, Format, Numeric
from tokenpath.hw.clock import period
from tokenpath.hw.lanes import Lanes
from tokenpath.sim.vector import VectorUnit

WORDS = 512


def machine(
    *,
    lanes: int = 8,
    queries: int = 2,
    vlanes: int = 4,
    act_bits: int = 8,
    mantissa_bits: int = 3,
    kv_mantissa_bits: int | None = None,
) -> Arch:
    kv = mantissa_bits if kv_mantissa_bits is None else kv_mantissa_bits
    numeric = Numeric(
        block=4,
        weight=Format(mantissa_bits=mantissa_bits),
        kv=Format(mantissa_bits=kv),
        act=Format(bits=act_bits, mantissa_bits=mantissa_bits),
    )
    return replace(
        PRESETS["tiny"],
        numeric=numeric,
        lanes=lanes,
        queries=queries,
        vlanes=vlanes,
        operand_beats=6,
        score_rows=24,
        accumulator_beats=3,
    )


def lanes_of(arch: Arch, scale_bits: int | None = None) -> Lanes:
    numeric = arch.numeric
    k = [f.mantissa_bits for f in (numeric.weight, numeric.kv, numeric.act)]
    return Lanes(
        lanes=arch.lanes,
        block=numeric.block,
        queries=arch.queries,
        vlanes=arch.vlanes,
        element_bits=8,
        act_bits=numeric.act.bits,
        scale_bits=scale_bits or 8 + max(k),
        weight_mantissa_bits=k[0],
        kv_mantissa_bits=k[1],
        act_mantissa_bits=k[2],
        score_frac=numeric.score_frac,
        operand_beats=arch.operand_beats,
        score_rows=arch.score_rows,
        accumulator_beats=arch.accumulator_beats,
        address_bits=(WORDS - 1).bit_length(),
    )


class Draw:
    """Operands shaped like real ones, corners included."""

    def __init__(self, arch: Arch, seed: int) -> None:
        self.arch, self.random, self.maxima = arch, random.Random(seed), 300

    def elements(self, count: int, bits: int) -> np.ndarray:
        r, top = self.random, (1 << (bits - 1)) - 1
        kind = r.random()
        low = top if kind < 0.2 else 1
        return np.array(
            [
                r.choice([-top, top, 0])
                if r.random() < 0.2
                else r.choice([-1, 1]) * r.randint(low, top)
                for _ in range(count)
            ],
            np.int64,
        )

    def scales(self, count: int, k: int, centre: int) -> np.ndarray:
        r = self.random
        exponents = [
            ZERO_EXPONENT if r.random() < 0.05 else centre + r.randint(-4, 4) for _ in range(count)
        ]
        return np.array([(e << k) | r.randrange(1 << k) for e in exponents], np.int64)

    def beat(self, k: int, centre: int) -> tuple[np.ndarray, np.ndarray]:
        arch = self.arch
        return self.elements(arch.lanes, 8), self.scales(arch.blocks_per_beat, k, centre)

    def instruction(self, op: Op) -> dict[str, int]:
        arch, r = self.arch, self.random
        most = arch.accumulator_beats if op == Op.AXPY else arch.operand_beats
        n = r.choice([0, 1, 1, 2, 3, 7])
        m = r.choice([1, arch.lanes, arch.lanes - 1, r.randint(1, most * arch.lanes)])
        if op == Op.LOAD:
            n, m = min(n, 3), min(m, 3 * arch.lanes)
        beats = arch.row_beats(m)
        q = r.choice([arch.queries, r.randint(0, arch.queries)])
        i = {"n": n, "m": m, "q": 0, "x": 0, "y": 0, "dst": 0, "src": 0, "aux": 0, "bux": 0}
        i["dst"] = r.randint(0, 60)
        i["bux"] = r.randint(0, 5)
        if op in (Op.DOT, Op.SCORE):
            i["src"] = r.randint(0, arch.operand_beats - beats)
            i["y"] = r.choice([0, 4, 8, 16, 20])
        if op == Op.DOT:
            i["x"] = r.choice([16, 12, 20, 8, 8])
            if r.random() < 0.2:  # sums that a word doesn't hold
                i |= {"x": 30, "y": 0}
        else:
            i["q"] = q
        if op == Op.AXPY:
            i |= {"src": r.choice([self.maxima, r.randint(300, 310)]), "aux": r.randint(320, 330)}
            i["dst"] = r.randint(100, 120)
            i["y"] = r.choice([3, 8, 14, 16, 22])
            i["x"] = r.choice([max(0, arch.numeric.value_frac(i["y"])), 16])
        if op == Op.SCORE:
            i["dst"] = self.maxima = r.randint(420, 460)
        if op == Op.LOAD:
            i |= {"q": 0, "x": r.choice([16, 8, 20])}
        return i


class Bench:
    """Runs instructions back to back on Lanes and on the golden unit, and compares."""

    def __init__(self, arch: Arch, seed: int = 0, *, mood: float = 0.0, **options: Any) -> None:
        self.arch, self.draw, self.mood = arch, Draw(arch, seed), mood
        self.random = random.Random(seed + 1)
        self.dut = lanes_of(arch, **options)
        beats, blocks = arch.operand_beats, arch.blocks_per_beat
        self.tile: Any = SimpleNamespace(
            vector=np.array([self.random.randint(-3, 3) for _ in range(WORDS)], np.int64),
            operand=np.zeros((arch.queries * beats, arch.lanes), np.int64),
            operand_scales=np.zeros((arch.queries * beats, blocks), np.int64),
            scores=np.zeros((arch.queries, arch.score_rows), np.int64),
            stream=deque(),
        )
        self.golden = VectorUnit(arch, self.tile)
        self.vector = [int(v) for v in self.tile.vector]
        self.corners: dict[str, int] = {}
        self.now = 0

    def run(self, ops: list[tuple[Op, dict[str, int]]]) -> None:
        async def testbench(ctx: Any) -> None:
            await self._operands(ctx)
            for op, i in ops:
                await self._execute(ctx, op, i)
            for _ in range(2):  # the cycle behind done is over already
                await self._tick(ctx)
            counts = ctx.get(self.dut.saturations), ctx.get(self.dut.overflows)
            assert counts == (self.golden.saturations, self.golden.overflows)

        simulator = Simulator(self.dut)
        simulator.add_clock(period())
        simulator.add_testbench(testbench)
        simulator.run()

    async def _operands(self, ctx: Any) -> None:
        """Fill operand memory block by block, as QUANT does."""
        arch, dut, act = self.arch, self.dut, self.arch.numeric.act
        for at in range(arch.queries * arch.operand_beats):
            elements = self.draw.elements(arch.lanes, act.bits)
            scales = self.draw.scales(arch.blocks_per_beat, act.mantissa_bits, -6)
            self.tile.operand[at], self.tile.operand_scales[at] = elements, scales
            ctx.set(dut.operand_query, at // arch.operand_beats)
            ctx.set(dut.operand_address, at % arch.operand_beats)
            for b in range(arch.blocks_per_beat):
                known = np.zeros(arch.lanes, np.int64)
                lanes = slice(b * arch.numeric.block, (b + 1) * arch.numeric.block)
                known[lanes] = elements[lanes]
                beat = {"elements": known.tolist(), "scales": scales.tolist()}
                ctx.set(dut.operand_beat, beat)
                ctx.set(dut.operand_blocks, 1 << b)
                await self._tick(ctx)
        ctx.set(dut.operand_blocks, 0)

    async def _execute(self, ctx: Any, op: Op, i: dict[str, int]) -> None:
        """One instruction in its own cycles: every handshake and ``done`` where timing.py says."""
        dut, arch = self.dut, self.arch
        beats = i["n"] * arch.row_beats(i["m"])
        fmt = arch.numeric.weight if op in (Op.DOT, Op.LOAD) else arch.numeric.kv
        centre = {Op.DOT: -8, Op.SCORE: self.random.choice([-7, -10]), Op.AXPY: -5, Op.LOAD: -6}[op]
        stream = [self.draw.beat(fmt.mantissa_bits, centre) for _ in range(beats)]
        for name, value in i.items():
            ctx.set(getattr(dut, name), value)
        ctx.set(dut.op, op)
        start = self.now
        free = start + 1 + timing.stream_prologue(op)
        interval = timing.beat_interval(op, arch.lanes, arch.vlanes)
        epilogue = timing.stream_epilogue(op, i["m"], i["q"], arch.vlanes)
        ends = None if beats else start + timing.stream_prologue(op) + epilogue
        left, there = deque(stream), False
        while True:
            there = bool(left) and (there or self.random.random() >= self.mood)
            ctx.set(dut.start, self.now == start)
            ctx.set(dut.beats.valid, there)
            if there:
                ctx.set(
                    dut.beats.payload,
                    {"elements": left[0][0].tolist(), "scales": left[0][1].tolist()},
                )
            ready = bool(left) and self.now >= free
            assert ctx.get(dut.beats.ready) == ready, (op, i, self.now - start)
            if there and ready:
                left.popleft()
                there, free = False, self.now + interval
                ends = None if left else self.now + epilogue
            done = ctx.get(dut.done)
            assert done == (self.now == ends), (op, i, self.now - start, ends)
            await self._tick(ctx)
            if done:
                break
            assert self.now - start < 1000
        self._compare(ctx, op, i, stream)

    async def _tick(self, ctx: Any) -> None:
        """One cycle of the clock and of vector memory."""
        dut = self.dut
        at, count = ctx.get(dut.write.address), ctx.get(dut.write.count)
        words = [ctx.get(dut.write.data[k]) for k in range(count)]
        read = ctx.get(dut.read.address)
        read = [self.vector[(read + k) % WORDS] for k in range(self.arch.vlanes)]
        self.vector[at : at + count] = words
        await ctx.tick()
        self.now += 1
        ctx.set(dut.read.data, read)

    def _compare(self, ctx: Any, op: Op, i: dict[str, int], stream: Any) -> None:
        before = self.golden.saturations, self.golden.overflows
        self.tile.stream.extend(stream)
        self.golden.execute(op, i)
        expected = [int(v) for v in self.tile.vector]
        wrong = [k for k in range(WORDS) if self.vector[k] != expected[k]]
        shown = [(k, self.vector[k], expected[k]) for k in wrong[:4]]
        assert not wrong, (op, i, shown)
        for name, at in (("clamped", 0), ("wrapped", 1)):
            count = (self.golden.saturations, self.golden.overflows)[at] - before[at]
            key = f"{op.name} {name}"
            self.corners[key] = self.corners.get(key, 0) + bool(count)
        if i["n"] and i["m"] % self.arch.lanes:
            self.corners[f"{op.name} partial"] = 1
        if not i["n"]:
            self.corners[f"{op.name} empty"] = 1
