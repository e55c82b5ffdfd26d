"""Operands of compute instructions: legal ones, and as wild as that allows."""

import random
from collections.abc import Callable, Sequence

from tokenpath.hw.arch.access import accesses, clash, fault
from tokenpath.hw.arch.isa import Op
from tokenpath.hw.arch.params import Arch

from . import layout

Operands = dict[str, int]
Place = tuple[int, int]
"""First word and number of words."""

TRIES = 24
VECTOR_OPS = (
    *(Op.SUM, Op.MAX, Op.RMS, Op.ROPE, Op.SILU, Op.DIV, Op.MERGE, Op.ARGMAX, Op.ARGPAIR),
    *(Op.QUANT, Op.QUANT),
)


class Draw:
    """Draws operands for one tile; ``places`` are the words that compute may read.

    ``target`` gives where an operation writes so many words, -1 if there is no room. ``work`` are
    the words that may be overwritten at any time.
    """

    def __init__(
        self, arch: Arch, rng: random.Random, places: Sequence[Place],
        target: Callable[[int], int], work: range,
    ) -> None:  # fmt: skip
        self.arch, self.rng, self.places, self.target = arch, rng, places, target
        self.work = work

    def vector(self) -> tuple[Op, Operands]:
        """An operation on words; SYNC if none of those drawn was legal."""
        for _ in range(TRIES):
            op = self.rng.choice(VECTOR_OPS)
            i = self._drawn(op)
            if i is not None and self._legal(op, i):
                return op, i
        return Op.SYNC, {}

    def on_stream(self, op: Op, n: int, m: int) -> Operands | None:
        """Operands of an operation on up to ``n`` rows; None if there are none."""
        for _ in range(TRIES):
            i = self._of_rows(op, n, m)
            if i is not None and self._legal(op, i):
                return i
        return None

    def _legal(self, op: Op, i: Operands) -> bool:
        """What Program.check asks of an instruction, but for its places."""
        values = {"wait_n": 0, "q": 0, "x": 0, "y": 0} | i
        return not fault(self.arch, op, values) and not clash(accesses(self.arch, op, values))

    # --- places ---

    def words(self, count: int) -> int:
        """Where ``count`` words may be read."""
        fitting = [place for place in self.places if place[1] >= count]
        first, size = self.rng.choice(fitting) if fitting else (layout.WORK, count)
        return first + self.rng.randint(0, size - count)

    def length(self) -> int:
        """Words of an operation: often none, one, just a pass or a block."""
        lanes, block = self.arch.vlanes, self.arch.numeric.block
        ends = (0, 1, lanes, block, lanes + 1, 2 * self.arch.lanes)
        return self.rng.choice((*ends, *(self.rng.randint(1, 30) for _ in range(6))))

    def _into(self, count: int, *places: int) -> int:
        """Where to write: a place of its own, or one of those that are read."""
        here = [p for p in places if p >= self.work.start and p + count <= self.work.stop]
        return self.rng.choice(here) if here and self.rng.random() < 0.4 else self.target(count)

    # --- operations ---

    def _drawn(self, op: Op) -> Operands | None:
        rng, n = self.rng, self.length()
        m = rng.choice((0, 1, 1, 2, 3))
        match op:
            case Op.SUM | Op.MAX:
                i = self._slots(n)
            case Op.RMS | Op.ROPE | Op.DIV:
                i = self._scaled(op, n // 2 * 2 if op == Op.ROPE else n, m)
            case Op.SILU:
                src, aux = self.words(n), self.words(n)
                i = {"dst": self._into(n, src, aux), "src": src, "aux": aux, "n": n}
                i["x"] = rng.randint(6, 22)
            case Op.MERGE:
                i = self._merge(rng.randint(0, 9))
            case Op.QUANT:
                i = self.quant(0)
            case _:
                pairs = n * 2 if op == Op.ARGPAIR else n
                src = self.words(max(pairs, 2))
                i = {"dst": self._into(2, src), "src": src, "n": n}
                if op == Op.ARGMAX:
                    i["aux"] = rng.choice((0, 1, 1 << 20))
        return i if i["dst"] >= 0 else None

    def _slots(self, n: int) -> Operands:
        rng = self.rng
        m, q, stride = rng.randint(0, 4), rng.randint(0, 1), n + rng.choice((0, 0, 1, 3))
        src, bux = self.words(m * stride + n), self.words(n)
        dst = self._into(n, src, bux, src + stride)
        return {"dst": dst, "src": src, "aux": stride, "bux": bux, "n": n, "m": m, "q": q}

    def _scaled(self, op: Op, n: int, m: int) -> Operands:
        rng = self.rng
        n = min(n, 32)
        src = self.words(n * m)
        i = {"dst": self._into(n * m, src), "src": src, "n": n, "m": m}
        if op == Op.RMS:
            i |= {"aux": layout.RMS + 3 * rng.randint(0, 3), "q": rng.randint(0, 1)}
            i["bux"] = layout.GAINS + rng.randint(0, 32 - n)
            i |= {"x": rng.randint(8, 20), "y": rng.choice((16, 16, 12, 8, 40))}
        elif op == Op.ROPE:
            i["aux"] = layout.TABLE + rng.randint(0, 32 - n)
        else:
            below = layout.BELOW + rng.randint(0, 8 - m)
            i["aux"] = below if rng.random() < 0.8 else self.words(m)
            i |= {"q": rng.choice((16, 8, 40)), "x": rng.randint(8, 16), "y": rng.randint(8, 16)}
        return i

    def _merge(self, n: int) -> Operands:
        rng = self.rng
        q, m = rng.randint(0, self.arch.queries), rng.randint(1, 4)
        record = q * (n + 2)
        stride = record + rng.choice((0, 0, 2))
        src = self.words(m * stride)
        dst = self._into(record, src, src + stride)
        return {"dst": dst, "src": src, "aux": stride, "n": n, "m": m, "q": q}

    def quant(self, append: int) -> Operands:
        """A QUANT to operand memory, or to the append buffer."""
        arch, rng, n = self.arch, self.rng, self.length()
        most = arch.append_beats if append else arch.operand_beats
        n = min(n, most * arch.lanes)
        m = rng.randint(0, min(arch.queries, most // max(1, arch.row_beats(n))))
        beats = arch.row_beats(n) * (m if append else 1)
        i = {"dst": rng.randint(0, most - beats), "src": self.words(n * m), "n": n, "m": m}
        return i | {"x": rng.choice((rng.randint(4, 20), rng.randint(-64, 64))), "y": append}

    def _of_rows(self, op: Op, n: int, m: int) -> Operands | None:
        arch, rng = self.arch, self.rng
        beats, q = arch.row_beats(m), rng.randint(0, arch.queries)
        written = {Op.DOT: n, Op.SCORE: q, Op.AXPY: q * m, Op.LOAD: n * m}[op]
        i = {"dst": self.target(written), "m": m, "n": n}
        if op in (Op.DOT, Op.SCORE):
            if beats > arch.operand_beats:
                return None
            i["src"] = rng.randint(0, arch.operand_beats - beats)
        if op in (Op.SCORE, Op.AXPY):
            if n > arch.score_rows:
                return None
            i |= {"q": q, "bux": rng.choice((0, rng.randint(0, arch.score_rows - n)))}
        if op == Op.AXPY:
            if beats > arch.accumulator_beats:
                return None
            known = layout.MAXIMA + rng.randint(0, 8 - min(q, 8))
            i |= {"src": rng.choice((known, self.words(q))), "aux": self.target(q)}
            if min(i["src"], i["aux"]) < 0:
                return None
        if op != Op.LOAD:
            least = {Op.SCORE: -(-m // arch.numeric.block), Op.AXPY: n}.get(op, 1)
            low = max(0, least - 1).bit_length()
            i["y"] = rng.choice((low, rng.randint(low, 30), rng.randint(low, max(low, 10))))
        if op != Op.SCORE:
            i["x"] = rng.choice((rng.randint(0, 16), rng.randint(-128, 127)))
        return i if i["dst"] >= 0 else None
