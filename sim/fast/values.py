"""Values of the fast simulator: what each instruction and packet does to the tiles' memories.

Bit for bit the golden model (sim/golden.py, sim/vector.py), counters included. Whoever knows about
time calls :func:`compute`, :func:`append` and :func:`deliver` in the order of events.
"""

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.isa import Op, PutOp
from tokenpath.sim.compiled import kernel

from .dots import dot
from .intrinsics import peek, poke
from .memories import OP, OVERFLOWS, SATURATIONS, Values, make_values, place
from .streams import axpy, load
from .words import argmax, combine_slots, div, merge, quant, rms, rope, silu

__all__ = ["Values", "append", "compute", "deliver", "make_values"]

I64 = NDArray[np.int64]

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


@kernel
def compute(values: Values, tile: int, ops: I64, stream_src: int) -> None:
    """Execute one compute instruction of a tile; SYNC does nothing.

    ``ops`` (10,): op, dst, src, aux, bux, n, m, q, x, y, registers added. ``stream_src``: store
    beat at which the STREAM begins that a DOT, SCORE, AXPY or LOAD consumes. Raises IndexError when
    an operand leaves its memory; the instruction may have done a part of its work by then.
    """
    op, vector, work, saturations = ops[OP], values.vector, values.work, 0
    if op == DOT or op == SCORE:  # noqa: SIM109 (numba would compile tuples' `in`)
        saturations = dot(values, tile, ops, stream_src)
    elif op == AXPY:
        saturations = axpy(values, tile, ops, stream_src)
    elif op == LOAD:
        load(values, tile, ops, stream_src)
    elif op == QUANT:
        quant(values, tile, ops)
    elif op == SUM or op == MAX:  # noqa: SIM109
        values.counters[tile, OVERFLOWS] += combine_slots(vector, tile, ops, work)
    elif op == RMS:
        saturations = rms(vector, tile, ops, work)
    elif op == ROPE:
        saturations = rope(vector, tile, ops, work)
    elif op == SILU:
        saturations = silu(vector, tile, ops, work)
    elif op == DIV:
        saturations = div(vector, tile, ops, work)
    elif op == MERGE:
        merge(vector, tile, ops, work)
    elif op == ARGMAX or op == ARGPAIR:  # noqa: SIM109
        argmax(vector, tile, ops)
    values.counters[tile, SATURATIONS] += saturations


@kernel
def append(values: Values, tile: int, dst: int, src: int, n: int) -> None:
    """Copy ``n`` beats from the append buffer into the store.

    Raises IndexError when a beat leaves its memory.
    """
    lanes, blocks = values.elements.shape[2], values.scales.shape[2]
    to, source = (
        place(tile, dst, n, values.elements.shape[1]),
        place(tile, src, n, values.append.shape[1]),
    )
    for i in range(n * lanes):
        poke(values.elements, to * lanes + i, peek(values.append, source * lanes + i))
    for i in range(n * blocks):
        poke(values.scales, to * blocks + i, peek(values.append_scales, source * blocks + i))


@kernel
def deliver(
    values: Values,
    payload: NDArray[np.int32],
    at: int,
    words: int,
    dst_tile: int,
    dst: int,
    op: int,
) -> None:
    """Combine a packet's words, from ``payload[at]`` on, with those at ``dst`` of the receiver.

    ``op`` is a PutOp; ``payload`` any flat array of integers. ADD counts the words that wrap.
    Raises IndexError when a word leaves its memory.
    """
    vector = values.vector
    source, target = place(0, at, words, payload.size), place(dst_tile, dst, words, vector.shape[1])
    if op == PUT_ADD:
        wrapped = 0
        for i in range(words):
            total = peek(vector, target + i) + peek(payload, source + i)
            poke(vector, target + i, total)
            wrapped += peek(vector, target + i) != total
        values.counters[dst_tile, OVERFLOWS] += wrapped
    elif op == PUT_MAX:
        for i in range(words):
            word = max(peek(vector, target + i), peek(payload, source + i))
            poke(vector, target + i, word)
    else:
        for i in range(words):
            poke(vector, target + i, peek(payload, source + i))
