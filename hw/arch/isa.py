"""Instruction set: three engines, one instruction layout, the operands of each operation as
data.

Each tile runs three instruction queues, one an engine. An instruction waits until its ``wait``
semaphore holds ``wait_n``, takes them away, executes, then adds one to its ``post`` semaphore
(0: none of either). Every operand is ``register + immediate``; register 0 reads as 0. Addresses
of vector memory are in words: scratch first, the inbox (which only the network writes) behind
it. Addresses of the store and of operand memory are in beats.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from .errors import InputError


class Engine(IntEnum):
    """The three layers of a tile."""

    MEMORY = 0
    COMPUTE = 1
    NETWORK = 2


class Op(IntEnum):
    """Operations.

    The docstring of :data:`OPERANDS` has their operands.
    """

    SYNC = 0
    STREAM = 1
    APPEND = 2
    PUT = 3
    DOT = 4
    SCORE = 5
    AXPY = 6
    LOAD = 7
    QUANT = 8
    SUM = 9
    MAX = 10
    RMS = 11
    ROPE = 12
    SILU = 13
    DIV = 14
    MERGE = 15
    ARGMAX = 16
    ARGPAIR = 17


class PutOp(IntEnum):
    """What the receiving interface does with the words of a put."""

    STORE = 0
    ADD = 1
    MAX = 2


ENGINE_OPS: dict[Engine, frozenset[Op]] = {
    Engine.MEMORY: frozenset({Op.SYNC, Op.STREAM, Op.APPEND}),
    Engine.NETWORK: frozenset({Op.SYNC, Op.PUT}),
    Engine.COMPUTE: frozenset(Op) - {Op.STREAM, Op.APPEND, Op.PUT},
}
"""Which engine runs which operation."""

STREAM_OPS = frozenset({Op.DOT, Op.SCORE, Op.AXPY, Op.LOAD})
"""Compute operations that consume the beats of one STREAM of the same tile, in order."""

ADDRESS_BITS, LENGTH_BITS, REGISTER_BITS, SEMAPHORE_BITS = 32, 24, 8, 7
REGISTERS = 1 << REGISTER_BITS
SEMAPHORES = 1 << SEMAPHORE_BITS


@dataclass(frozen=True)
class Field:
    """One field of an instruction word."""

    name: str
    bits: int
    signed: bool = False


def _operand(name: str, bits: int) -> tuple[Field, Field]:
    return Field(name, bits, signed=True), Field(f"{name}_reg", REGISTER_BITS)


LAYOUT: tuple[Field, ...] = (
    Field("op", 5),
    Field("wait", SEMAPHORE_BITS),
    *_operand("wait_n", LENGTH_BITS),
    Field("post", SEMAPHORE_BITS),
    *_operand("dst", ADDRESS_BITS),
    *_operand("src", ADDRESS_BITS),
    *_operand("aux", ADDRESS_BITS),
    *_operand("bux", ADDRESS_BITS),
    *_operand("n", LENGTH_BITS),
    *_operand("m", LENGTH_BITS),
    Field("q", 8),
    Field("x", 8, signed=True),
    Field("y", 8, signed=True),
)
"""Layout of an instruction, first field in the lowest bits; hardware struct, encoder and
simulator columns read it."""

COLUMN = {field.name: index for index, field in enumerate(LAYOUT)}
"""Column of each field in a simulator's table of instructions."""

INSTRUCTION_BITS = sum(field.bits for field in LAYOUT)

OPERAND_FIELDS = ("wait_n", "dst", "src", "aux", "bux", "n", "m")
"""The fields that are register + immediate."""

OPERANDS: dict[Op, dict[str, str]] = {
    Op.SYNC: {},
    Op.STREAM: {"src": "store beat", "n": "rows", "m": "elements a row"},
    Op.APPEND: {"dst": "store beat", "src": "append-buffer beat", "n": "beats"},
    Op.PUT: {
        "src": "words base",
        "dst": "words base at the receiver",
        "aux": "first descriptor",
        "m": "descriptors",
        "x": "PutOp",
        "y": "semaphore at the receiver",
    },
    Op.DOT: {
        "dst": "words",
        "src": "operand beat",
        "n": "rows",
        "m": "elements a row",
        "x": "fraction bits of the result",
        "y": "headroom: summands are clamped to 2**(31 - y); a sum that wraps is counted",
    },
    Op.SCORE: {
        "dst": "running maxima, q words",
        "src": "operand beat of query 0",
        "bux": "score row",
        "n": "rows",
        "m": "elements a row",
        "q": "queries",
        "y": "headroom",
    },
    Op.AXPY: {
        "dst": "weighted sums, q * m words",
        "src": "maxima, q words",
        "aux": "sums of p, q words",
        "bux": "score row",
        "n": "rows",
        "m": "elements a row",
        "q": "queries",
        "x": "fraction bits of the sums",
        "y": "headroom: log2 of the longest context",
    },
    Op.LOAD: {"dst": "words", "n": "rows", "m": "elements a row", "x": "fraction bits"},
    Op.QUANT: {
        "dst": "beat",
        "src": "words",
        "n": "words a vector",
        "m": "vectors",
        "x": "fraction bits",
        "y": "0 operand memory (a query each), 1 append buffer (back to back)",
    },
    Op.SUM: {
        "dst": "words",
        "src": "slots",
        "aux": "slot stride",
        "bux": "initial words",
        "n": "words",
        "m": "slots",
        "q": "1: add the initial words",
    },
    Op.MAX: {
        "dst": "words",
        "src": "slots",
        "aux": "slot stride",
        "bux": "initial words",
        "n": "words",
        "m": "slots",
        "q": "1: include the initial words",
    },
    Op.RMS: {
        "dst": "words",
        "src": "words",
        "aux": "constants: n * eps, root, root exponent",
        "bux": "gains",
        "n": "words",
        "m": "vectors",
        "q": "1: multiply with the gains",
        "x": "fraction bits in",
        "y": "fraction bits out",
    },
    Op.ROPE: {
        "dst": "words",
        "src": "words",
        "aux": "cos, sin pairs",
        "n": "words a vector",
        "m": "vectors",
    },
    Op.SILU: {"dst": "words", "src": "gate", "aux": "up", "n": "words", "x": "fraction bits"},
    Op.DIV: {
        "dst": "words",
        "src": "numerators, m * n words",
        "aux": "denominators, m words",
        "n": "words a vector",
        "m": "vectors",
        "q": "fraction bits out",
        "x": "fraction bits of the numerators",
        "y": "fraction bits of the denominators",
    },
    Op.MERGE: {
        "dst": "record: q maxima, q sums of p, q * n weighted sums",
        "src": "records",
        "aux": "record stride",
        "n": "words a vector",
        "m": "records",
        "q": "queries",
    },
    Op.ARGMAX: {
        "dst": "value, index",
        "src": "words",
        "aux": "index of the first word",
        "n": "words",
    },
    Op.ARGPAIR: {"dst": "value, index", "src": "(value, index) pairs", "n": "pairs"},
}
"""Operands of each operation, with their meaning; an operand that is not named is not read."""

Reg = tuple[int, int]
"""Operand as (immediate, register)."""


@dataclass(frozen=True, kw_only=True)
class Instr:
    """One instruction; operands are an immediate or an ``(immediate, register)`` pair.

    Raises InputError for an operand that the operation doesn't have or a value outside its
    field.
    """

    op: Op
    wait: int = 0
    wait_n: int | Reg = 1
    post: int = 0
    dst: int | Reg = 0
    src: int | Reg = 0
    aux: int | Reg = 0
    bux: int | Reg = 0
    n: int | Reg = 0
    m: int | Reg = 0
    q: int = 0
    x: int = 0
    y: int = 0

    def columns(self) -> tuple[int, ...]:
        """The values of :data:`LAYOUT`'s fields, in its order."""
        row: list[int] = []
        for field in LAYOUT:
            name = field.name.removesuffix("_reg")
            value = getattr(self, name)
            pair = value if isinstance(value, tuple) else (value, 0)
            row.append(int(pair[1] if field.name.endswith("_reg") else pair[0]))
        return tuple(row)

    def __post_init__(self) -> None:
        named = OPERANDS[self.op]
        for field, value in zip(LAYOUT, self.columns(), strict=True):
            low = -(1 << (field.bits - 1)) if field.signed else 0
            high = (1 << (field.bits - (1 if field.signed else 0))) - 1
            if not low <= value <= high:
                raise InputError(f"{self.op.name}: {field.name} {value} is outside {low}..{high}")
            name = field.name.removesuffix("_reg")
            if value and name not in named and name not in ("op", "wait", "wait_n", "post"):
                raise InputError(f"{self.op.name} has no operand {name} (given {value})")


def encode(columns: Iterable[int]) -> int:
    """The instruction word of one row of columns."""
    word, at = 0, 0
    for field, value in zip(LAYOUT, columns, strict=True):
        word |= (value & ((1 << field.bits) - 1)) << at
        at += field.bits
    return word


def decode(word: int) -> tuple[int, ...]:
    """The columns of an instruction word; the inverse of :func:`encode`."""
    row = []
    for field in LAYOUT:
        value = word & ((1 << field.bits) - 1)
        word >>= field.bits
        if field.signed and value >> (field.bits - 1):
            value -= 1 << field.bits
        row.append(value)
    return tuple(row)


def disassemble(columns: tuple[int, ...]) -> str:
    """One line of text for an instruction: operation, operands by name, wait and post."""
    get = dict(zip(COLUMN, columns, strict=True))

    def operand(name: str) -> str:
        reg = get.get(f"{name}_reg", 0)
        if not reg:
            return str(get[name])
        return f"r{reg}" + (f"{get[name]:+d}" if get[name] else "")

    op = Op(get["op"])
    parts = [f"{name}={operand(name)}" for name in OPERANDS[op]]
    wait = f"  wait s{get['wait']}>={operand('wait_n')}" if get["wait"] else ""
    post = f"  post s{get['post']}" if get["post"] else ""
    return f"{op.name.lower():8s} {' '.join(parts)}{wait}{post}"
