"""Values of the other operations that consume a stream: AXPY and LOAD."""

import numpy as np
from numpy.typing import NDArray

from tokenpath.sim.compiled import jit, part

from .intrinsics import WIDTH, add_scaled, peek, poke
from .memories import (
    ACCUMULATORS,
    ACT_BITS,
    AUX,
    BLOCK,
    BLOCKS,
    BUX,
    DST,
    KV_MANTISSA,
    LANES,
    SCORE_FRAC,
    SCORE_QUERIES,
    SCORE_ROWS,
    SRC,
    STORE_BEATS,
    SUM_FRAC,
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
I8 = NDArray[np.int8]


@part
def weigh(
    scores: I32, first: int, maximum: int, frac: int, bits: int, work: I64, rows: int
) -> None:
    """p = 2**(score - maximum) = mantissa / 2**shift of each row: mantissas, then shifts."""
    for row in range(rows):
        score = peek(scores, first + row) - (maximum << frac)
        poke(work, row, jit.weight_mantissa(score, frac, bits))
        poke(work, rows + row, bits - 1 - (score >> frac))


@part
def add_rare(
    sums: I32, at: int, elements: I8, first: int, block: int, factor: int, down: int, limit: int
) -> int:
    """Add a block that needs a left shift or may need the clamp; how many were clamped."""
    clamped = 0
    for i in range(block):
        term = jit.shift_round(factor * peek(elements, first + i), down)
        kept = jit.clamp_term(term, limit)
        clamped += kept != term
        poke(sums, at + i, peek(sums, at + i) + kept)
    return clamped


@part
def add_rows(
    values: Values, first: int, work: I64, rows: int, blocks: int, frac: int, limit: int
) -> int:
    """Add p times each row from flat beat ``first`` on to the accumulators; how many were clamped.

    A product of 16 bits of p, 8 of the scale and 8 of the element fits 32 bits. Whether a block
    may need the clamp follows from the largest element there is, -128.
    """
    params, elements, sums, clamped = values.params, values.elements, values.accumulators, 0
    block, k = params[BLOCK], params[KV_MANTISSA]
    at, scale = first * params[LANES], first * params[BLOCKS]
    for row in range(rows):
        mantissa, shift = peek(work, row), peek(work, rows + row) + k - frac
        for b in range(blocks):
            code = peek(values.scales, scale)
            factor = mantissa * jit.scale_mantissa(code, k)
            down = shift - jit.scale_exponent(code, k)
            largest = ((factor << 7 >> min(max(down - 1, 0), 31)) + 1) >> 1
            if down < 1 or largest > limit:
                clamped += add_rare(sums, b * block, elements, at, block, factor, down, limit)
            elif down < 32 and block % WIDTH == 0:
                for i in range(0, block, WIDTH):
                    add_scaled(sums, b * block + i, elements, at + i, factor, down - 1)
            elif down < 32:
                for i in range(block):
                    term = (((factor * peek(elements, at + i)) >> (down - 1)) + 1) >> 1
                    poke(sums, b * block + i, peek(sums, b * block + i) + term)
            at += block
            scale += 1
    return clamped


@part
def axpy(values: Values, tile: int, stream_src: int) -> int:
    """Sums of p and of p times each row of V, for q queries; how many summands were clamped."""
    params, vector, work, ops = values.params, values.vector, values.work, values.ops
    words = params[VECTOR_WORDS]
    rows, m, clamped, limit = ops[N], ops[M], 0, jit.term_limit(ops[Y])
    beats = -(-m // params[LANES])
    first = place(tile, stream_src, rows * beats, params[STORE_BEATS])
    place(0, 0, beats * params[LANES], params[ACCUMULATORS])
    for query in range(ops[Q]):
        maximum = peek(vector, place(tile, ops[SRC] + query, 1, words))
        row_of_tile = place(tile, query, 1, params[SCORE_QUERIES])
        scores = place(row_of_tile, ops[BUX], rows, params[SCORE_ROWS])
        weigh(values.scores, scores, maximum, params[SCORE_FRAC], params[ACT_BITS], work, rows)
        total, sum_frac = 0, params[SUM_FRAC + ops[Y]]
        for row in range(rows):
            term = jit.shift_round(peek(work, row), peek(work, rows + row) - sum_frac)
            kept = jit.clamp_term(term, limit)
            clamped += kept != term
            total += kept
        for i in range(beats * params[LANES]):
            poke(values.accumulators, i, 0)
        clamped += add_rows(values, first, work, rows, beats * params[BLOCKS], ops[X], limit)
        target = place(tile, ops[DST] + query * m, m, words)
        for i in range(m):
            poke(vector, target + i, peek(values.accumulators, i))
        poke(vector, place(tile, ops[AUX] + query, 1, words), total)
    return clamped


@part
def load_block(
    vector: I32, target: int, elements: I8, first: int, n: int, factor: int, down: int
) -> None:
    """numeric.dequantise of ``n`` elements of a block; shifted right, none needs the clamp."""
    if 0 < down < 32:
        for i in range(n):
            word = ((factor * peek(elements, first + i) >> (down - 1)) + 1) >> 1
            poke(vector, target + i, word)
        return
    for i in range(n):
        word = jit.saturate(jit.shift_round(factor * peek(elements, first + i), down))
        poke(vector, target + i, word)


@part
def load(values: Values, tile: int, stream_src: int) -> None:
    """Rows of the store as words."""
    params, ops, m = values.params, values.ops, values.ops[M]
    block, k, row_beats = params[BLOCK], params[WEIGHT_MANTISSA], -(-m // params[LANES])
    beat = place(tile, stream_src, ops[N] * row_beats, params[STORE_BEATS])
    target = place(tile, ops[DST], ops[N] * m, params[VECTOR_WORDS])
    for _ in range(ops[N]):
        at, scale = beat * params[LANES], beat * params[BLOCKS]
        for first in range(0, m, block):
            code, n = peek(values.scales, scale), min(block, m - first)
            factor = jit.scale_mantissa(code, k)
            down = k - jit.scale_exponent(code, k) - ops[X]
            load_block(values.vector, target, values.elements, at, n, factor, down)
            target += n
            at += block
            scale += 1
        beat += row_beats
