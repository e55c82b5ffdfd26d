"""What an instruction touches: the places that each operation reads and writes, as data.

One table answers both checks: the static one asks whether every place exists, the full one
whether two instructions may be at the same place at the same time.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from tokenpath.hw.arch.isa import OPERAND_FIELDS, OPERANDS, STREAM_OPS, Op, PutOp
from tokenpath.hw.arch.numeric import HEADROOMS
from tokenpath.hw.arch.params import Arch


class Memory(IntEnum):
    """Memories of a tile. OPERAND, SCORES and ACCUMULATORS are those of one query of QUERIES."""

    VECTOR = 0
    STORE = 1
    APPEND = 2
    OPERAND = 3
    SCORES = 4
    ACCUMULATORS = 5
    QUERIES = 6


UNIT = {
    Memory.VECTOR: "words",
    Memory.STORE: "store beats",
    Memory.APPEND: "append-buffer beats",
    Memory.OPERAND: "operand beats",
    Memory.SCORES: "score rows",
    Memory.ACCUMULATORS: "accumulator beats",
    Memory.QUERIES: "queries",
}
"""What the addresses of a memory count."""


class Overlap(IntEnum):
    """Where words that an instruction reads may lie, as seen from those that it writes."""

    APART = 0  # read late: nowhere among them
    IN_PLACE = 1  # read in step with the writes: apart from them, or a run that begins with them
    ANY = 2  # read before the first write


class Access(NamedTuple):
    """``times`` runs of ``size`` units from ``first`` on, ``stride`` units apart."""

    memory: Memory
    writes: bool
    first: int
    size: int
    stride: int = 0
    times: int = 1
    overlap: Overlap = Overlap.ANY

    @property
    def low(self) -> int:
        """Lowest address."""
        return self.first + min(0, self.stride * (self.times - 1))

    @property
    def end(self) -> int:
        """One more than the highest address."""
        return self.first + max(0, self.stride * (self.times - 1)) + self.size

    def each(self) -> Iterator[tuple[int, int]]:
        """(first, end) of each run."""
        for turn in range(self.times):
            yield self.first + turn * self.stride, self.first + turn * self.stride + self.size

    def runs(self) -> Iterator[tuple[int, int]]:
        """(first, end) of each run, those without a gap joined."""
        if self.stride == self.size:
            yield self.first, self.first + self.size * self.times
        else:
            yield from self.each()


def span(first: int, end: int) -> str:
    """Addresses first..end - 1 as messages write them."""
    return f"{first}..{end - 1}" if end - first != 1 else str(first)


Values = Mapping[str, int]
"""Operands of one instruction by name, registers added; ``q``, ``x`` and ``y`` too."""


def accesses(arch: Arch, op: Op, i: Values) -> list[Access]:
    """Everything that an instruction touches on its own tile, empty runs left out.

    A PUT's words are named by its descriptors, which aren't looked up here; a STREAM's beats are
    touched by the STREAM, not by the operation that consumes them.
    """
    n, m, q = i.get("n", 0), i.get("m", 0), i.get("q", 0)
    found = _streams(arch, op, i, n, m, q) if op in STREAM_OPS else _vectors(arch, op, i, n, m, q)
    return [access for access in found if access.size > 0 and access.times > 0]


def _reads(overlap: Overlap, first: int, count: int, stride: int = 0, times: int = 1) -> Access:
    return Access(Memory.VECTOR, False, first, count, stride, times, overlap)


def _writes(first: int, count: int) -> Access:
    return Access(Memory.VECTOR, True, first, count)


def _streams(arch: Arch, op: Op, i: Values, n: int, m: int, q: int) -> list[Access]:
    beats, some = arch.row_beats(m), min(n, 1)
    match op:
        case Op.DOT:
            return [Access(Memory.OPERAND, False, i["src"], beats * some), _writes(i["dst"], n)]
        case Op.SCORE:
            return [
                Access(Memory.QUERIES, False, 0, q),
                Access(Memory.OPERAND, False, i["src"], beats * some),
                Access(Memory.SCORES, True, i["bux"], n),
                _writes(i["dst"], q),
            ]
        case Op.AXPY:
            return [
                Access(Memory.QUERIES, False, 0, q),
                Access(Memory.ACCUMULATORS, True, 0, beats),
                Access(Memory.SCORES, False, i["bux"], n),
                _reads(Overlap.APART, i["src"], q),
                _writes(i["dst"], q * m),
                _writes(i["aux"], q),
            ]
    return [_writes(i["dst"], n * m)]  # LOAD


def _vectors(arch: Arch, op: Op, i: Values, n: int, m: int, q: int) -> list[Access]:
    in_place = partial(_reads, Overlap.IN_PLACE, i.get("src", 0))
    match op:
        case Op.STREAM:
            return [Access(Memory.STORE, False, i["src"], n * arch.row_beats(m))]
        case Op.APPEND:
            return [
                Access(Memory.APPEND, False, i["src"], n),
                Access(Memory.STORE, True, i["dst"], n),
            ]
        case Op.QUANT:
            return [_reads(Overlap.ANY, i["src"], n * m), *_blocks(arch, i, n, m)]
        case Op.SUM | Op.MAX:
            return [
                _reads(Overlap.IN_PLACE, i["src"], n, i["aux"], m),
                _reads(Overlap.IN_PLACE, i["bux"], n * q),
                _writes(i["dst"], n),
            ]
        case Op.RMS:
            some = min(m, 1)
            gains = _reads(Overlap.APART, i["bux"], n * q * some)
            constants = _reads(Overlap.APART, i["aux"], 3 * some)
            return [in_place(n * m), gains, constants, _writes(i["dst"], n * m)]
        case Op.ROPE:
            table = _reads(Overlap.APART, i["aux"], n)
            return [in_place(n * m), table, _writes(i["dst"], n * m)]
        case Op.SILU:
            up = _reads(Overlap.IN_PLACE, i["aux"], n)
            return [in_place(n), up, _writes(i["dst"], n)]
        case Op.DIV:
            below = _reads(Overlap.APART, i["aux"], m)
            return [in_place(n * m), below, _writes(i["dst"], n * m)]
        case Op.MERGE:
            record = q * (n + 2)
            records = _reads(Overlap.IN_PLACE, i["src"], record, i["aux"], m)
            return [records, _writes(i["dst"], record)]
        case Op.ARGMAX:
            return [_reads(Overlap.ANY, i["src"], n), _writes(i["dst"], 2)]
        case Op.ARGPAIR:
            return [_reads(Overlap.ANY, i["src"], 2 * n), _writes(i["dst"], 2 * min(n, 1))]
    return []  # SYNC and PUT


def _blocks(arch: Arch, i: Values, n: int, m: int) -> list[Access]:
    """Where a QUANT writes: the same beats of m queries, or m vectors back to back."""
    beats = arch.row_beats(n)
    if i["y"]:
        return [Access(Memory.APPEND, True, i["dst"], beats * m)]
    return [
        Access(Memory.QUERIES, True, 0, m),
        Access(Memory.OPERAND, True, i["dst"], beats * min(m, 1)),
    ]


SILU_FRACTION = range(6, 23)
"""Fraction bits that a SILU can have: its table begins at 6, its multiplier ends at 22."""

MOST_SQUARES = 1 << 14
"""Words of a vector whose squares fit RMSNorm's sum."""


def fault(arch: Arch, op: Op, i: Values) -> str:
    """What is wrong with the operands of an instruction in themselves; "" if nothing is.

    What the executors could disagree about is refused: sums that nobody counts when they wrap,
    rows of no elements, words that are read where they have just been written.
    """
    for name in ("n", "m"):
        if i.get(name, 0) < 0:
            return f"{name} is {i[name]}; give 0 or more"
    if i["wait_n"] < 0:
        return f"waits for {i['wait_n']} posts; give 0 or more"
    n, m, q = i.get("n", 0), i.get("m", 0), i.get("q", 0)
    if op == Op.STREAM or op in STREAM_OPS:
        return _stream_fault(arch, op, i, n, m)
    match op:
        case Op.PUT if i["x"] not in tuple(PutOp):
            return f"x is {i['x']}; give a PutOp, 0..{max(PutOp)}"
        case Op.PUT if i["y"] < 0:
            return f"y is {i['y']}; give a semaphore"
        case Op.QUANT:
            return _quant_fault(arch, i)
        case Op.SUM | Op.MAX | Op.RMS if q > 1:
            return f"q is {q}; give 0 or 1"
        case Op.SUM | Op.MAX if m + q == 0 and n > 0:
            return "has no slots; give m or q"
        case Op.RMS if n > MOST_SQUARES:
            return f"n is {n}; the squares of at most {MOST_SQUARES} words fit their sum"
        case Op.MERGE if m == 0:
            return "has no records; give m"
        case Op.ROPE if n % 2:
            return f"n is {n}; give pairs of words"
        case Op.SILU if i["x"] not in SILU_FRACTION:
            return f"x is {i['x']}; give {_ends(SILU_FRACTION)} fraction bits"
    return ""


def _ends(some: range) -> str:
    return f"{some[0]}..{some[-1]}"


def _stream_fault(arch: Arch, op: Op, i: Values, n: int, m: int) -> str:
    """Rows of at least one element, and a headroom for all summands (a DOT's wraps are counted)."""
    if n > 0 and m == 0:
        return f"has {n} rows of no elements; give m, or an n of 0"
    if op in (Op.STREAM, Op.LOAD):
        return ""
    if i["y"] not in HEADROOMS:
        return f"y is {i['y']}; give a headroom of {_ends(HEADROOMS)}"
    blocks = -(-m // arch.numeric.block)
    what, summands = ("blocks of a row", blocks) if op == Op.SCORE else ("rows", n)
    if op != Op.DOT and summands > 1 << i["y"]:
        least = (summands - 1).bit_length()
        return f"y is {i['y']}; {summands} {what} need a headroom of {least}"
    return ""


def _quant_fault(arch: Arch, i: Values) -> str:
    """A place to write to, and fraction bits for which each block's exponent fits 8 bits."""
    if i["y"] not in (0, 1):
        return f"y is {i['y']}; give 0 (operand memory) or 1 (append buffer)"
    bits = (arch.numeric.kv if i["y"] else arch.numeric.act).bits
    fractions = range(33 - bits - 127, 1 - bits + 129)
    if i["x"] not in fractions:
        return f"x is {i['x']}; give {_ends(fractions)} fraction bits"
    return ""


def clash(found: Sequence[Access]) -> tuple[Access, Access] | None:
    """Two accesses of one instruction that lie on top of each other in a way that isn't defined.

    A place that is written twice, or read where it may have been written already.
    """
    for at, write in enumerate(found):
        if write.writes and write.memory == Memory.VECTOR:
            others = [one for one in found[:at] if one.memory == Memory.VECTOR]
            for other in others:
                if _disturbs(write, other):
                    return write, other
    return None


def _disturbs(write: Access, other: Access) -> bool:
    if other.low >= write.end or other.end <= write.low:
        return False
    if other.writes:
        return True
    if other.overlap == Overlap.ANY:
        return False
    in_place = other.overlap == Overlap.IN_PLACE
    return any(
        first < write.end and end > write.low and not (in_place and first == write.first)
        for first, end in other.each()
    )


def operand_names(op: Op) -> tuple[str, ...]:
    """The operands of an operation that are register + immediate, ``wait_n`` among them."""
    return ("wait_n", *(name for name in OPERAND_FIELDS if name in OPERANDS[op]))
