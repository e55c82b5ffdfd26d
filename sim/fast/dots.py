"""Values of DOT and SCORE: rows of the store times resident vectors."""

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch import numeric
from tokenpath.hw.arch.isa import Op
from tokenpath.sim.compiled import jit, kernel, part

from .intrinsics import WIDTH, peek, poke, product_sum
from .memories import (
    ACT_MANTISSA,
    BATCH,
    BLOCK,
    BLOCKS,
    BUX,
    DST,
    KV_MANTISSA,
    LANES,
    OP,
    OPERAND_BEATS,
    OPERAND_ROWS,
    OVERFLOWS,
    SCORE_FRAC,
    SCORE_QUERIES,
    SCORE_ROWS,
    SRC,
    STORE_BEATS,
    VECTOR_WORDS,
    WEIGHT_MANTISSA,
    M,
    N,
    Q,
    Values,
    X,
    Y,
    place,
)

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I16 = NDArray[np.int16]
I8 = NDArray[np.int8]

NO_ROWS = numeric.NO_ROWS
SCORE = int(Op.SCORE)


@part
def repeat_factors(
    codes: I16, first: int, blocks: int, k: int, down: int, work: I64, at: int, size: int
) -> None:
    """Mantissas, behind them right shifts, of an operand's blocks, repeated to ``size`` each."""
    for copy in range(at, at + size, max(1, blocks)):
        for b in range(blocks):
            code = peek(codes, first + b)
            poke(work, copy + b, jit.scale_mantissa(code, k))
            poke(work, copy + size + b, k + down - jit.scale_exponent(code, k))


@part
def product_sums(
    elements: I8,
    left: int,
    operand: I16,
    first: int,
    block: int,
    blocks: int,
    work: I64,
    at: int,
    size: int,
) -> None:
    """Product sums of ``size`` blocks of elements with an operand's ``blocks``, over and over.

    A sum of 64 products of 8 and 16 bits fits 32 bits.
    """
    right, last = first, first + blocks * block
    for index in range(at, at + size):
        total = 0
        if block % WIDTH == 0:
            for i in range(0, block, WIDTH):
                total += product_sum(elements, left + i, operand, right + i)
        else:
            for i in range(block):
                total += peek(elements, left + i) * peek(operand, right + i)
        poke(work, index, total)
        left += block
        right += block
        if right == last:
            right = first


@part
def scale_sums(
    work: I64,
    sums: int,
    factors: int,
    downs: int,
    size: int,
    scales: I16,
    first: int,
    k: int,
    limit: int,
) -> int:
    """numeric.dot_term and clamp_term of product sums, in place; how many were clamped.

    Without a branch, for vector instructions. A left shift clamps whatever would leave the limit,
    so neither shift_round's clamp to 32 bits nor the wrap of the shift is seen.
    """
    clamped = 0
    one, mask = 1 << k, (1 << k) - 1
    for b in range(size):
        code = peek(scales, first + b)
        value = peek(work, sums + b) * ((one + (code & mask)) * peek(work, factors + b))
        shift = peek(work, downs + b) - (code >> k)
        right, left = min(max(shift, 1), 62), min(max(-shift, 0), 30)
        term = ((value >> (right - 1)) + 1) >> 1 if shift > 0 else value
        edge = limit >> left
        over, under = term > edge, term < -edge
        term <<= left
        term = limit if over else term
        term = -limit if under else term
        poke(work, sums + b, term)
        clamped += over | under
    return clamped


@part
def add_blocks(work: I64, terms: int, blocks: int, sums: int, rows: int) -> None:
    """Sum of the blocks of each row."""
    for row in range(rows):
        total = 0
        for b in range(terms + row * blocks, terms + (row + 1) * blocks):
            total += peek(work, b)
        poke(work, sums + row, total)


@kernel
def dot_rows(
    values: Values, tile: int, operand_beat: int, stream_src: int, k: int, frac: int
) -> int:
    """Product of each row with one resident vector into ``work``; how many summands were clamped.

    A number is a sum over blocks, each rounded and clamped once. The blocks of many rows go through
    each loop at once, so that short rows are as fast as long ones.
    """
    params, work, ops, rows = values.params, values.work, values.ops, values.ops[N]
    beats = -(-ops[M] // params[LANES])
    block, blocks = params[BLOCK], beats * params[BLOCKS]
    first = place(tile, stream_src, rows * beats, params[STORE_BEATS])
    operand = place(tile, operand_beat, beats, params[OPERAND_ROWS])
    batch = max(1, min(rows, BATCH // max(1, blocks)))
    size, clamped = batch * blocks, 0
    factors, downs, sums = rows, rows + size, rows + 2 * size
    codes, k_act = operand * params[BLOCKS], params[ACT_MANTISSA]
    repeat_factors(values.operand_scales, codes, blocks, k_act, k - frac, work, factors, size)
    vector, limit = operand * params[LANES], jit.term_limit(ops[Y])
    for row in range(0, rows, batch):
        count, scales = min(batch, rows - row), first * params[BLOCKS] + row * blocks
        part, at = count * blocks, scales * block
        product_sums(values.elements, at, values.operand, vector, block, blocks, work, sums, part)
        clamped += scale_sums(work, sums, factors, downs, part, values.scales, scales, k, limit)
        add_blocks(work, sums, blocks, row, count)
    return clamped


@part
def dot(values: Values, tile: int, stream_src: int) -> int:
    """DOT: one number a row into vector memory. SCORE: scores of q queries into score memory.

    The maxima of the rounded-up scores go into vector memory. Counts the sums that wrap; returns
    how many summands were clamped.
    """
    params, work, ops, rows = values.params, values.work, values.ops, values.ops[N]
    words = params[VECTOR_WORDS]
    queries, k, frac = ops[Q], params[KV_MANTISSA], params[SCORE_FRAC]
    scored = ops[OP] == SCORE
    if not scored:
        queries, k, frac = 1, params[WEIGHT_MANTISSA], ops[X]
    target = place(tile, ops[DST], queries if scored else rows, words)
    clamped = overflowed = 0
    for query in range(queries):
        beat = ops[SRC] + query * params[OPERAND_BEATS]
        clamped += dot_rows(values, tile, beat, stream_src, k, frac)
        if scored:
            row_of_tile = place(tile, query, 1, params[SCORE_QUERIES])
            scores = place(row_of_tile, ops[BUX], rows, params[SCORE_ROWS])
            maximum = NO_ROWS
            for row in range(rows):
                poke(values.scores, scores + row, peek(work, row))
                ceiling = jit.ceil_score(peek(values.scores, scores + row), frac)
                maximum = max(maximum, ceiling) if row else ceiling
            poke(values.vector, target + query, maximum)
        else:
            for row in range(rows):
                poke(values.vector, target + row, peek(work, row))
                overflowed += peek(values.vector, target + row) != peek(work, row)
    values.counters[2 * tile + OVERFLOWS] += overflowed
    return clamped
