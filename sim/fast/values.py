"""Values of the fast simulator: what each instruction and each packet does to the memories of the tiles.

Bit for bit the golden model (sim/golden.py, sim/vector.py), counters included. The timing kernels call :func:`compute`,
:func:`append` and :func:`deliver` in the order of events; nothing here knows about time.
"""

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.isa import Op, PutOp
from tokenpath.sim.compiled import kernel

from .memories import DST, OP, OVERFLOWS, SRC, N, Values, check, make_values, span
from .streams import axpy, dot, load, score
from .words import add_slots, argmax, argpair, div, largest_slots, merge, quant, rms, rope, silu

__all__ = ["Values", "append", "compute", "deliver", "make_values"]

I64 = NDArray[np.int64]

DOT, SCORE, AXPY, LOAD = int(Op.DOT), int(Op.SCORE), int(Op.AXPY), int(Op.LOAD)
QUANT, SUM, MAX, RMS, ROPE = int(Op.QUANT), int(Op.SUM), int(Op.MAX), int(Op.RMS), int(Op.ROPE)
SILU, DIV, MERGE, ARGMAX, ARGPAIR = int(Op.SILU), int(Op.DIV), int(Op.MERGE), int(Op.ARGMAX), int(Op.ARGPAIR)
PUT_ADD, PUT_MAX = int(PutOp.ADD), int(PutOp.MAX)


@kernel
def compute(values: Values, tile: int, ops: I64, stream_src: int) -> None:
    """Execute one compute instruction of a tile.

    ``ops`` (10,): op, dst, src, aux, bux, n, m, q, x, y, registers added. ``stream_src``: store beat at which the STREAM
    begins that a DOT, SCORE, AXPY or LOAD consumes. Raises IndexError when an operand leaves its memory.
    """
    op = ops[OP]
    if op == DOT:
        dot(values, tile, ops, stream_src)
    elif op == SCORE:
        score(values, tile, ops, stream_src)
    elif op == AXPY:
        axpy(values, tile, ops, stream_src)
    elif op == LOAD:
        load(values, tile, ops, stream_src)
    elif op == QUANT:
        quant(values, tile, ops)
    else:
        compute_words(values.vector[tile], ops, values.counters[tile])


@kernel
def compute_words(vector: NDArray[np.int32], ops: I64, counters: I64) -> None:
    """The operations that touch nothing but a tile's vector memory; SYNC does nothing."""
    op = ops[OP]
    if op == SUM:
        add_slots(vector, ops, counters)
    elif op == MAX:
        largest_slots(vector, ops)
    elif op == RMS:
        rms(vector, ops, counters)
    elif op == ROPE:
        rope(vector, ops, counters)
    elif op == SILU:
        silu(vector, ops, counters)
    elif op == DIV:
        div(vector, ops, counters)
    elif op == MERGE:
        merge(vector, ops)
    elif op == ARGMAX:
        argmax(vector, ops)
    elif op == ARGPAIR:
        argpair(vector, ops)


@kernel
def append(values: Values, tile: int, dst: int, src: int, n: int) -> None:
    """Copy ``n`` beats from the append buffer into the store. Raises IndexError when a beat leaves its memory."""
    check(dst, n, values.elements.shape[1])
    check(src, n, values.append.shape[1])
    for beat in range(n):
        for lane in range(values.elements.shape[2]):
            values.elements[tile, dst + beat, lane] = values.append[tile, src + beat, lane]
        for block in range(values.scales.shape[2]):
            values.scales[tile, dst + beat, block] = values.append_scales[tile, src + beat, block]


@kernel
def deliver(values: Values, payload: I64, at: int, words: int, dst_tile: int, dst: int, op: int) -> None:
    """Combine ``words`` words of a packet, from ``payload[at]`` on, with those at ``dst`` of the receiver, by PutOp.

    ADD counts the words that wrap. Raises IndexError when a word leaves its memory.
    """
    check(at, words, payload.size)
    data, target = payload[at : at + words], span(values.vector[dst_tile], dst, words)
    if op == PUT_ADD:
        wrapped = 0
        for i in range(words):
            total = np.int64(target[i]) + data[i]
            target[i] = total
            wrapped += target[i] != total
        values.counters[dst_tile, OVERFLOWS] += wrapped
    elif op == PUT_MAX:
        for i in range(words):
            target[i] = max(target[i], data[i])
    else:
        for i in range(words):
            target[i] = data[i]
