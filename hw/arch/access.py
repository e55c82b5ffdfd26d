"""What an instruction touches: the places that each operation reads and writes, as data.

One table answers both checks: the static one asks whether every place exists, the full one
whether two instructions may be at the same place at the same time.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from tokenpath.hw.arch.isa import OPERAND_FIELDS, OPERANDS, STREAM_OPS, Op, PutOp
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


class Access(NamedTuple):
    """``times`` runs of ``size`` units from ``first`` on, ``stride`` units apart."""

    memory: Memory
    writes: bool
    first: int
    size: int
    stride: int = 0
    times: int = 1

    @property
    def low(self) -> int:
        """Lowest address."""
        return self.first + min(0, self.stride * (self.times - 1))

    @property
    def end(self) -> int:
        """One more than the highest address."""
        return self.first + max(0, self.stride * (self.times - 1)) + self.size

    def runs(self) -> Iterator[tuple[int, int]]:
        """(first, end) of each run, those without a gap joined."""
        if self.stride == self.size:
            yield self.first, self.first + self.size * self.times
            return
        for turn in range(self.times):
            yield self.first + turn * self.stride, self.first + turn * self.stride + self.size


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


def _reads(first: int, count: int, stride: int = 0, times: int = 1) -> Access:
    return Access(Memory.VECTOR, False, first, count, stride, times)


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
                _reads(i["src"], q),
                _writes(i["dst"], q * m),
                _writes(i["aux"], q),
            ]
    return [_writes(i["dst"], n * m)]  # LOAD


def _vectors(arch: Arch, op: Op, i: Values, n: int, m: int, q: int) -> list[Access]:
    match op:
        case Op.STREAM:
            return [Access(Memory.STORE, False, i["src"], n * arch.row_beats(m))]
        case Op.APPEND:
            return [
                Access(Memory.APPEND, False, i["src"], n),
                Access(Memory.STORE, True, i["dst"], n),
            ]
        case Op.QUANT:
            return [_reads(i["src"], n * m), *_blocks(arch, i, n, m)]
        case Op.SUM | Op.MAX:
            return [
                _reads(i["src"], n, i["aux"], m),
                _reads(i["bux"], n * q),
                _writes(i["dst"], n),
            ]
        case Op.RMS:
            some = min(m, 1)
            gains, constants = _reads(i["bux"], n * q * some), _reads(i["aux"], 3 * some)
            return [_reads(i["src"], n * m), gains, constants, _writes(i["dst"], n * m)]
        case Op.ROPE:
            return [_reads(i["src"], n * m), _reads(i["aux"], n), _writes(i["dst"], n * m)]
        case Op.SILU:
            return [_reads(i["src"], n), _reads(i["aux"], n), _writes(i["dst"], n)]
        case Op.DIV:
            return [_reads(i["src"], n * m), _reads(i["aux"], m), _writes(i["dst"], n * m)]
        case Op.MERGE:
            record = q * (n + 2)
            return [_reads(i["src"], record, i["aux"], m), _writes(i["dst"], record)]
        case Op.ARGMAX:
            return [_reads(i["src"], n), _writes(i["dst"], 2)]
        case Op.ARGPAIR:
            return [_reads(i["src"], 2 * n), _writes(i["dst"], 2 * min(n, 1))]
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


def fault(op: Op, i: Values) -> str:
    """What is wrong with the operands of an instruction in themselves; "" if nothing is."""
    for name in ("n", "m"):
        if i.get(name, 0) < 0:
            return f"{name} is {i[name]}; give 0 or more"
    if i["wait_n"] < 0:
        return f"waits for {i['wait_n']} posts; give 0 or more"
    n, m, q = i.get("n", 0), i.get("m", 0), i.get("q", 0)
    match op:
        case Op.PUT if i["x"] not in tuple(PutOp):
            return f"x is {i['x']}; give a PutOp, 0..{max(PutOp)}"
        case Op.PUT if i["y"] < 0:
            return f"y is {i['y']}; give a semaphore"
        case Op.QUANT if i["y"] not in (0, 1):
            return f"y is {i['y']}; give 0 (operand memory) or 1 (append buffer)"
        case Op.SUM | Op.MAX | Op.RMS if q > 1:
            return f"q is {q}; give 0 or 1"
        case Op.SUM | Op.MAX if m + q == 0 and n > 0:
            return "has no slots; give m or q"
        case Op.MERGE if m == 0:
            return "has no records; give m"
        case Op.ROPE if n % 2:
            return f"n is {n}; give pairs of words"
    return ""


def operand_names(op: Op) -> tuple[str, ...]:
    """The operands of an operation that are register + immediate, ``wait_n`` among them."""
    return ("wait_n", *(name for name in OPERAND_FIELDS if name in OPERANDS[op]))
