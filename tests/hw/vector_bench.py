"""A vector unit with its memory, and the golden one on the same words.

``draw[op](rng, bench)`` gives an instruction shaped like real ones with the words that it reads.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import connect
from bench import simulate

from tokenpath.hw.arch import timing
from tokenpath.hw.arch.isa import Op
from tokenpath.hw.arch.numeric import NO_ROWS, WORD_MAX, WORD_MIN
from tokenpath.hw.vector_memory import VectorMemory
from tokenpath.hw.vector_unit import VectorUnit
from tokenpath.sim.vector import VectorUnit as Golden

WORDS, BEATS, QUERIES = 512, 12, 3
NAMES = ("dst", "src", "aux", "bux", "n", "m", "q", "x", "y")
Format = tuple[int, int]


@dataclass
class Case:
    """An instruction, and the words that are put into memory first."""

    op: Op
    operands: dict[str, int]
    words: dict[int, list[int]] = field(default_factory=dict)


class Unit(Elaboratable):
    """The unit, or one of its parts alone, and its memory, connected."""

    def __init__(
        self, vlanes: int, lanes: int, block: int, formats: tuple[Format, Format], part: Any
    ) -> None:
        self.memory = VectorMemory(words=WORDS, width=vlanes, reads=2)
        size = {"vlanes": vlanes, "address_bits": self.memory.address_bits}
        if part:
            self.unit = part(**size)
            self.reads = [self.unit.words, getattr(self.unit, "maxima", None)]
            return
        self.unit = VectorUnit(
            **size, lanes=lanes, block=block, queries=QUERIES, beats=BEATS, formats=formats
        )
        self.reads = [self.unit.first, self.unit.second]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory, m.submodules.unit = self.memory, self.unit
        for port, read in zip(self.memory.reads, self.reads, strict=True):
            if read is not None:
                connect(m, read, port)
        connect(m, self.unit.write, self.memory.write)
        return m


class Bench:
    """Runs cases on both units, one behind the other, and compares all that they do."""

    def __init__(
        self, *, vlanes: int = 2, lanes: int = 8, block: int = 4,
        formats: tuple[Format, Format] = ((8, 3), (8, 3)), part: Any = None,
    ) -> None:  # fmt: skip
        self.vlanes, self.lanes, self.block, self.formats = vlanes, lanes, block, formats
        self.dut = Unit(vlanes, lanes, block, formats, part)
        act, kv = (SimpleNamespace(bits=b, mantissa_bits=k) for b, k in formats)
        arch = SimpleNamespace(
            lanes=lanes, operand_beats=BEATS, blocks_per_beat=lanes // block,
            row_beats=lambda n: -(-n // lanes),
            numeric=SimpleNamespace(block=block, act=act, kv=kv),
        )  # fmt: skip
        blocks = lanes // block
        self.tile = SimpleNamespace(
            vector=np.zeros(WORDS, np.int64),
            operand=np.zeros((QUERIES * BEATS, lanes), np.int64),
            operand_scales=np.zeros((QUERIES * BEATS, blocks), np.int64),
            append=np.zeros((BEATS, lanes), np.int64),
            append_scales=np.zeros((BEATS, blocks), np.int64),
        )
        self.golden = Golden(arch, self.tile)  # type: ignore[arg-type]
        self.mine = {
            name: getattr(self.tile, name).copy()
            for name in ("operand", "operand_scales", "append", "append_scales")
        }
        self.counts, self.rng = Counter[str](), random.Random(7)

    def run(self, cases: Iterable[Case], gaps: Callable[[], int] = lambda: 0) -> Counter[str]:
        """Run the cases back to back, or with ``gaps()`` idle cycles between them."""

        async def testbench(ctx: Any) -> None:
            for case in cases:
                await self._case(ctx, case)
                for _ in range(gaps()):  # what is offered without a start doesn't matter
                    ctx.set(self.dut.unit.op, self.rng.randrange(32))
                    ctx.set(self.dut.unit.operands, {k: self.rng.randint(0, 99) for k in NAMES})
                    self._watch(ctx, idle=True)
                    await ctx.tick()
            for name, mine in self.mine.items():
                assert np.array_equal(mine, getattr(self.tile, name)), name

        simulate(self.dut, testbench)
        return self.counts

    async def _case(self, ctx: Any, case: Case) -> None:
        unit, memory = self.dut.unit, self.dut.memory
        operands = dict.fromkeys(NAMES, 0) | case.operands
        for at, words in case.words.items():
            self.tile.vector[at : at + len(words)] = words
            for index, word in enumerate(words):
                ctx.set(memory.row(at + index), word)
        before = self.golden.saturations, self.golden.overflows
        if case.op != Op.ROPE or operands["m"]:  # numpy can't shape no vectors of pairs
            self.golden.execute(case.op, operands)
        wanted = timing.vector_cycles(
            case.op, *(operands[k] for k in "nmq"), self.vlanes, self.block
        )
        ctx.set(unit.op, case.op)
        ctx.set(unit.operands, operands)
        assert self._get(ctx, "instant") == (wanted == 0), case
        if wanted == 0:
            return
        ctx.set(unit.start, 1)
        taken, railed, wrapped = 0, 0, 0
        while not taken or not ctx.get(unit.done):
            assert not ctx.get(unit.done), f"{case} is done at once"
            self._watch(ctx, idle=not taken)
            await ctx.tick()
            ctx.set(unit.start, 0)
            taken += 1
            assert taken <= wanted, f"{case} takes more than {wanted} cycles"
            railed += self._get(ctx, "railed")
            wrapped += self._get(ctx, "wrapped")
        self._watch(ctx)
        assert taken == wanted, f"{case} takes {taken} cycles, not {wanted}"
        await ctx.tick()
        got = np.array([ctx.get(memory.row(at)) for at in range(WORDS)])
        wrong = np.flatnonzero(got != self.tile.vector)
        assert not len(wrong), f"{case}: words {wrong}: {got[wrong]}, not {self.tile.vector[wrong]}"
        after = self.golden.saturations, self.golden.overflows
        assert (railed, wrapped) == (after[0] - before[0], after[1] - before[1]), case
        self._count(case, operands, railed, wrapped)

    def _get(self, ctx: Any, name: str) -> int:
        """An output of the unit; a part that lacks it gives 0."""
        port = getattr(self.dut.unit, name, None)
        return 0 if port is None else int(ctx.get(port))

    def _count(self, case: Case, i: dict[str, int], railed: int, wrapped: int) -> None:
        name = case.op.name
        corners = {
            name: True,
            f"{name} rails": railed,
            f"{name} wraps": wrapped,
            f"{name} of nothing": i["n"] == 0,
            f"{name} in place": i["dst"] in (i["src"], i["bux"] if i["q"] else -1),
            f"{name} with a rest": i["n"] % self.vlanes,
        }
        self.counts.update(key for key, reached in corners.items() if reached)

    def _watch(self, ctx: Any, *, idle: bool = False) -> None:
        """Take what is written to operand memory and append buffer in this cycle."""
        port = getattr(self.dut.unit, "blocks", None)
        enabled = 0 if port is None else ctx.get(port.blocks)
        if not enabled:
            return
        assert not idle, "blocks are written outside of an operation"
        name = "append" if ctx.get(port.to_append) else "operand"
        beat = ctx.get(port.beat) + ctx.get(port.query) * BEATS
        for index in range(self.lanes // self.block):
            if enabled >> index & 1:
                span = range(index * self.block, (index + 1) * self.block)
                elements = [ctx.get(port.data.elements[i]) for i in span]
                self.mine[name][beat, span.start : span.stop] = elements
                self.mine[f"{name}_scales"][beat, index] = ctx.get(port.data.scales[index])


class Places:
    """Disjoint places in vector memory, in a random order of sizes and gaps."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.next = rng, rng.randint(0, 60)

    def __call__(self, words: int) -> int:
        at = self.next
        self.next += words + self.rng.randint(0, 5)
        assert self.next <= WORDS
        return at


def sized(rng: random.Random, count: int, bits: int = 31, corners: float = 0.1) -> list[int]:
    """Words of all magnitudes up to ``bits``; some are the largest and smallest words."""
    words = []
    for _ in range(count):
        if rng.random() < corners:
            words.append(rng.choice((WORD_MAX, WORD_MIN, 0)))
        else:
            words.append(rng.getrandbits(rng.randint(0, bits)) * rng.choice((1, -1)))
    return words


def _length(rng: random.Random, bench: Bench) -> int:
    return rng.choice((0, 1, bench.vlanes, rng.randint(1, 4 * bench.vlanes + 1)))


def _slots(op: Op, rng: random.Random, bench: Bench) -> Case:
    n, m, q, place = _length(rng, bench), rng.randint(0, 4), rng.randint(0, 1), Places(rng)
    q = 1 if m == 0 else q
    stride = n + rng.randint(0, 3)
    src, bux, fresh = place(m * stride), place(n), place(n)
    bits = rng.choice((8, 31))
    corners = 0.3 if bits == 31 else 0.05
    words = {src: sized(rng, m * stride, bits, corners), bux: sized(rng, n, bits, corners)}
    dst = rng.choice((fresh, bux if q else fresh, src if m else fresh))
    return Case(op, {"dst": dst, "src": src, "aux": stride, "bux": bux, "n": n, "m": m, "q": q},
                words)  # fmt: skip


def draw_sum(rng: random.Random, bench: Bench) -> Case:
    return _slots(Op.SUM, rng, bench)


def draw_max(rng: random.Random, bench: Bench) -> Case:
    return _slots(Op.MAX, rng, bench)


def draw_rms(rng: random.Random, bench: Bench) -> Case:
    n, m, q, place = _length(rng, bench), rng.randint(0, 3), rng.randint(0, 1), Places(rng)
    src, aux, bux, fresh = place(n * m), place(3), place(n), place(n * m)
    frac = rng.randint(8, 20)
    exponent = int(math.log2(n) / 2) if n else 0
    root = round(math.sqrt(n) / 2**exponent * 2**16)
    eps = rng.choice((0, round(n * 1e-5 * 2.0 ** (2 * frac - 12)), -5))
    words = {
        src: sized(rng, n * m, rng.choice((3, 20, 31)), 0.03),
        aux: [eps, root, exponent],
        bux: sized(rng, n, rng.choice((17, 31)), 0.05),
    }
    y = rng.choice((16, 16, 12, 8, 40, 60))
    return Case(Op.RMS, {"dst": rng.choice((fresh, src)), "src": src, "aux": aux, "bux": bux,
                "n": n, "m": m, "q": q, "x": frac, "y": y}, words)  # fmt: skip


def draw_rope(rng: random.Random, bench: Bench) -> Case:
    n, m, place = _length(rng, bench) // 2 * 2, rng.randint(0, 3), Places(rng)
    src, aux, fresh = place(n * m), place(n), place(n * m)
    angles = [rng.random() * 7 for _ in range(n // 2)]
    long = rng.choice((1, 1, 2))
    table = [round(f(a) * long * 2**16) for a in angles for f in (math.cos, math.sin)]
    words = {src: sized(rng, n * m, rng.choice((20, 31))), aux: table}
    return Case(Op.ROPE, {"dst": rng.choice((fresh, src)), "src": src, "aux": aux, "n": n, "m": m},
                words)  # fmt: skip


def draw_silu(rng: random.Random, bench: Bench) -> Case:
    n, place, frac = _length(rng, bench), Places(rng), rng.choice((6, 8, 12, 16, 20, 22))
    src, aux, fresh = place(n), place(n), place(n)
    gates = [rng.randint(-12 << frac, 12 << frac) if frac < 26 else 0 for _ in range(n)]
    words = {
        src: [rng.choice((a, b)) for a, b in zip(gates, sized(rng, n), strict=True)],
        aux: sized(rng, n, rng.choice((frac + 3, 31))),
    }
    return Case(Op.SILU, {"dst": rng.choice((fresh, src, aux)), "src": src, "aux": aux, "n": n,
                "x": frac}, words)  # fmt: skip


def draw_div(rng: random.Random, bench: Bench) -> Case:
    n, m, place = _length(rng, bench), rng.randint(0, 4), Places(rng)
    src, aux, fresh = place(n * m), place(m), place(n * m)
    below = [rng.choice((1 << rng.randint(0, 30), rng.randint(1, WORD_MAX), WORD_MAX, 0, -7))
             for _ in range(m)]  # fmt: skip
    words = {src: sized(rng, n * m), aux: below}
    x, y = rng.randint(8, 16), rng.randint(8, 16)
    return Case(Op.DIV, {"dst": rng.choice((fresh, src)), "src": src, "aux": aux, "n": n, "m": m,
                "q": rng.choice((16, 16, 8, 40)), "x": x, "y": y}, words)  # fmt: skip


def draw_merge(rng: random.Random, bench: Bench) -> Case:
    n, m, q, place = _length(rng, bench), rng.randint(1, 4), rng.randint(0, 3), Places(rng)
    record = q * (n + 2)
    stride = record + rng.randint(0, 3)
    src, fresh = place(m * stride), place(record)
    words = {}
    for index in range(m):
        maxima = [
            rng.choice(
                (
                    NO_ROWS,
                    rng.randint(-3, 3),
                    rng.randint(-60, 60),
                    *([WORD_MAX, WORD_MIN] if rng.random() < 0.1 else []),
                )
            )
            for _ in range(q)
        ]
        sums = sized(rng, record - q, rng.choice((20, 31)), 0.05)
        words[src + index * stride] = maxima + sums
    return Case(Op.MERGE, {"dst": rng.choice((fresh, src)), "src": src, "aux": stride, "n": n,
                "m": m, "q": q}, words)  # fmt: skip


def _few(rng: random.Random, count: int) -> list[int]:
    """Words with many ties."""
    some = rng.choice(([WORD_MIN], [WORD_MIN, WORD_MAX], [-3, 0, 7], sized(rng, 30)))
    return [rng.choice(some) for _ in range(count)]


def draw_argmax(rng: random.Random, bench: Bench) -> Case:
    n, place = _length(rng, bench), Places(rng)
    src, fresh = place(max(n, 2)), place(2)
    return Case(Op.ARGMAX, {"dst": rng.choice((fresh, src)), "src": src, "n": n,
                "aux": rng.choice((0, 1000, 1 << 20))}, {src: _few(rng, n)})  # fmt: skip


def draw_argpair(rng: random.Random, bench: Bench) -> Case:
    n, place = _length(rng, bench), Places(rng)
    src, fresh = place(max(2 * n, 2)), place(2)
    words = [w for value in _few(rng, n) for w in (value, rng.randint(-1, 1 << 20))]
    return Case(Op.ARGPAIR, {"dst": rng.choice((fresh, src)), "src": src, "n": n},
                {src: words})  # fmt: skip


def draw_quant(rng: random.Random, bench: Bench) -> Case:
    lanes, place, y = bench.lanes, Places(rng), rng.randint(0, 1)
    n = rng.choice((0, 1, bench.block, lanes, rng.randint(1, 3 * lanes)))
    m = rng.randint(0, QUERIES)
    src, beats = place(n * m), -(-n // lanes)
    words = []
    for _ in range(0, n * m, bench.block):
        bits = rng.choice((0, 1, 3, 8, 20, 31))
        words += sized(rng, bench.block, bits, 0.05 if bits else 0)
    dst = rng.randint(0, BEATS - (beats * m if y else beats))
    return Case(Op.QUANT, {"dst": dst, "src": src, "n": n, "m": m, "x": rng.randint(6, 22), "y": y},
                {src: words[: n * m]})  # fmt: skip


draw: dict[Op, Callable[[random.Random, Bench], Case]] = {
    Op.SUM: draw_sum, Op.MAX: draw_max, Op.RMS: draw_rms, Op.ROPE: draw_rope, Op.SILU: draw_silu,
    Op.DIV: draw_div, Op.MERGE: draw_merge, Op.ARGMAX: draw_argmax, Op.ARGPAIR: draw_argpair,
    Op.QUANT: draw_quant,
}  # fmt: skip
"""An instruction of each operation, drawn."""


def drawn(ops: Iterable[Op], count: int, seed: int, bench: Bench) -> Iterable[Case]:
    """``count`` instructions of ``ops`` in a random order."""
    rng, some = random.Random(seed), tuple(ops)
    return (draw[rng.choice(some)](rng, bench) for _ in range(count))
