"""Values of the fast simulator: what each instruction and packet does to the tiles' memories.

Bit for bit the golden model (sim/golden.py, sim/vector.py), counters included. Whoever knows about
time calls :func:`compute`, :func:`append`, :func:`inject` and :func:`deliver` in the order of
events.
"""

from tokenpath.hw.arch.isa import Op, PutOp

from .dots import dot
from .intrinsics import peek, poke
from .jit import inner
from .memories import (
    APPEND_BEATS,
    BLOCKS,
    LANES,
    OP,
    OVERFLOWS,
    PAYLOAD_WORDS,
    SATURATIONS,
    STORE_BEATS,
    VECTOR_WORDS,
    Values,
    make_values,
    place,
    values_at,
)
from .streams import axpy, load
from .words import argmax, combine_slots, div, merge, quant, rms, rope, silu

__all__ = ["Values", "append", "compute", "deliver", "inject", "make_values", "values_at"]

DOT, SCORE, AXPY, LOAD = int(Op.DOT), int(Op.SCORE), int(Op.AXPY), int(Op.LOAD)
QUANT, SUM, MAX, RMS, ROPE = int(Op.QUANT), int(Op.SUM), int(Op.MAX), int(Op.RMS), int(Op.ROPE)
SILU, DIV, MERGE, ARGMAX, ARGPAIR = (
    int(Op.SILU),
    int(Op.DIV),
    int(Op.MERGE),
    int(Op.ARGMAX),
    int(Op.ARGPAIR),
)
PUT_ADD, PUT_MAX = int(PutOp.ADD), int(PutOp.MAX)


@inner
def compute(values: Values, tile: int, stream_src: int) -> None:
    """Execute one compute instruction of a tile; SYNC does nothing.

    ``values.ops``: op, dst, src, aux, bux, n, m, q, x, y, registers added. ``stream_src``: store
    beat at which the STREAM begins that a DOT, SCORE, AXPY or LOAD consumes. Raises IndexError when
    an operand leaves its memory; the instruction may have done a part of its work by then.
    """
    op, saturations = values.ops[OP], 0
    if op == DOT or op == SCORE:  # noqa: SIM109 (numba would compile tuples' `in`)
        saturations = dot(values, tile, stream_src)
    elif op == AXPY:
        saturations = axpy(values, tile, stream_src)
    elif op == LOAD:
        load(values, tile, stream_src)
    elif op == QUANT:
        quant(values, tile)
    elif op == SUM or op == MAX:  # noqa: SIM109
        values.counters[2 * tile + OVERFLOWS] += combine_slots(values, tile)
    elif op == RMS:
        saturations = rms(values, tile)
    elif op == ROPE:
        saturations = rope(values, tile)
    elif op == SILU:
        saturations = silu(values, tile)
    elif op == DIV:
        saturations = div(values, tile)
    elif op == MERGE:
        merge(values, tile)
    elif op == ARGMAX or op == ARGPAIR:  # noqa: SIM109
        argmax(values, tile)
    values.counters[2 * tile + SATURATIONS] += saturations


@inner
def append(values: Values, tile: int, dst: int, src: int, n: int) -> None:
    """Copy ``n`` beats from the append buffer into the store.

    Raises IndexError when a beat leaves its memory.
    """
    params = values.params
    lanes, blocks = params[LANES], params[BLOCKS]
    to, source = (
        place(tile, dst, n, params[STORE_BEATS]),
        place(tile, src, n, params[APPEND_BEATS]),
    )
    for i in range(n * lanes):
        poke(values.elements, to * lanes + i, peek(values.append, source * lanes + i))
    for i in range(n * blocks):
        poke(values.scales, to * blocks + i, peek(values.append_scales, source * blocks + i))


@inner
def inject(values: Values, tile: int, src: int, words: int, at: int) -> None:
    """Words of a packet from vector memory into ``payload``.

    Raises IndexError when a word leaves its memory.
    """
    source = place(tile, src, words, values.params[VECTOR_WORDS])
    target = place(0, at, words, values.params[PAYLOAD_WORDS])
    for i in range(words):
        poke(values.payload, target + i, peek(values.vector, source + i))


@inner
def deliver(values: Values, at: int, words: int, tile: int, dst: int, op: int) -> None:
    """Combine a packet's words, from ``payload[at]`` on, with those at ``dst`` of the receiver.

    ``op`` is a PutOp. ADD counts the words that wrap. Raises IndexError when a word leaves its
    memory.
    """
    vector, payload = values.vector, values.payload
    source = place(0, at, words, values.params[PAYLOAD_WORDS])
    target = place(tile, dst, words, values.params[VECTOR_WORDS])
    if op == PUT_ADD:
        wrapped = 0
        for i in range(words):
            total = peek(vector, target + i) + peek(payload, source + i)
            poke(vector, target + i, total)
            wrapped += peek(vector, target + i) != total
        values.counters[2 * tile + OVERFLOWS] += wrapped
    elif op == PUT_MAX:
        for i in range(words):
            poke(vector, target + i, max(peek(vector, target + i), peek(payload, source + i)))
    else:
        for i in range(words):
            poke(vector, target + i, peek(payload, source + i))
