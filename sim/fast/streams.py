"""Values of the compute operations that consume a stream: DOT and SCORE, AXPY, LOAD."""

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch import numeric
from tokenpath.hw.arch.isa import Op
from tokenpath.sim.compiled import jit, kernel, part

from .intrinsics import WIDTH, add_scaled, peek, poke, product_sum
from .memories import (
    ACT_BITS,
    ACT_MANTISSA,
    AUX,
    BATCH,
    BLOCK,
    BLOCKS,
    BUX,
    DST,
    KV_MANTISSA,
    LANES,
    OP,
    OPERAND_BEATS,
    SCORE_FRAC,
    SRC,
    SUM_FRAC,
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


# --- DOT and SCORE ---


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
    values: Values, tile: int, operand_beat: int, ops: I64, stream_src: int, k: int, frac: int
) -> int:
    """Product of each row with one resident vector into ``work``; how many summands were clamped.

    A number is a sum over blocks, each rounded and clamped once. The blocks of many rows go through
    each loop at once, so that short rows are as fast as long ones.
    """
    params, work, rows = values.params, values.work, ops[N]
    beats = -(-ops[M] // params[LANES])
    block, blocks = params[BLOCK], beats * params[BLOCKS]
    first = place(tile, stream_src, rows * beats, values.elements.shape[1])
    operand = place(tile, operand_beat, beats, values.operand.shape[1])
    batch = max(1, min(rows, BATCH // max(1, blocks)))
    size, clamped = batch * blocks, 0
    factors, downs, sums = rows, rows + size, rows + 2 * size
    repeat_factors(
        values.operand_scales,
        operand * params[BLOCKS],
        blocks,
        params[ACT_MANTISSA],
        k - frac,
        work,
        factors,
        size,
    )
    for row in range(0, rows, batch):
        count, at = min(batch, rows - row), first * params[LANES] + row * blocks * block
        part = count * blocks
        product_sums(
            values.elements,
            at,
            values.operand,
            operand * params[LANES],
            block,
            blocks,
            work,
            sums,
            part,
        )
        scales = first * params[BLOCKS] + row * blocks
        limit = jit.term_limit(ops[Y])
        clamped += scale_sums(work, sums, factors, downs, part, values.scales, scales, k, limit)
        add_blocks(work, sums, blocks, row, count)
    return clamped


@part
def dot(values: Values, tile: int, ops: I64, stream_src: int) -> int:
    """DOT: one number a row into vector memory. SCORE: scores of q queries into score memory.

    The maxima of the rounded-up scores go into vector memory. Returns how many summands were
    clamped.
    """
    params, work, rows, words = values.params, values.work, ops[N], values.vector.shape[1]
    queries, k, frac = ops[Q], params[KV_MANTISSA], params[SCORE_FRAC]
    scored = ops[OP] == SCORE
    if not scored:
        queries, k, frac = 1, params[WEIGHT_MANTISSA], ops[X]
    target, clamped = place(tile, ops[DST], queries if scored else rows, words), 0
    for query in range(queries):
        beat = ops[SRC] + query * params[OPERAND_BEATS]
        clamped += dot_rows(values, tile, beat, ops, stream_src, k, frac)
        if scored:
            scores = place(
                place(tile, query, 1, values.scores.shape[1]),
                ops[BUX],
                rows,
                values.scores.shape[2],
            )
            maximum = jit.ceil_score(peek(work, 0), frac) if rows else NO_ROWS
            for row in range(rows):
                poke(values.scores, scores + row, peek(work, row))
                maximum = max(maximum, jit.ceil_score(peek(work, row), frac))
            poke(values.vector, target + query, maximum)
        else:
            for row in range(rows):
                total = peek(work, row)
                poke(values.vector, target + row, total)
                values.counters[tile, 1] += jit.wrap(total) != total
    return clamped


# --- AXPY ---


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
    """Add a block that needs 64 bits, a left shift or the clamp; how many summands were clamped."""
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

    Whether a block may need 64 bits, a left shift or the clamp follows from its largest element.
    """
    params, elements, sums, clamped = values.params, values.elements, values.accumulators, 0
    block, k, at, scale = (
        params[BLOCK],
        params[KV_MANTISSA],
        first * params[LANES],
        first * params[BLOCKS],
    )
    for row in range(rows):
        mantissa, shift = peek(work, row), peek(work, rows + row) + k - frac
        for b in range(blocks):
            code = peek(values.scales, scale)
            factor, down = (
                mantissa * jit.scale_mantissa(code, k),
                shift - jit.scale_exponent(code, k),
            )
            largest = factor << 7
            if down < 1 or largest >= 1 << 30 or ((largest >> min(down - 1, 31)) + 1) >> 1 > limit:
                clamped += add_rare(sums, b * block, elements, at, block, factor, down, limit)
            elif down <= 32 and block % WIDTH == 0:
                for i in range(0, block, WIDTH):
                    add_scaled(sums, b * block + i, elements, at + i, factor, down - 1)
            elif down <= 32:
                for i in range(block):
                    term = (((factor * peek(elements, at + i)) >> (down - 1)) + 1) >> 1
                    poke(sums, b * block + i, peek(sums, b * block + i) + term)
            at += block
            scale += 1
    return clamped


@part
def axpy(values: Values, tile: int, ops: I64, stream_src: int) -> int:
    """Sums of p and of p times each row of V, for q queries; how many summands were clamped."""
    params, vector, work, words = values.params, values.vector, values.work, values.vector.shape[1]
    rows, m, clamped, limit = ops[N], ops[M], 0, jit.term_limit(ops[Y])
    beats = -(-m // params[LANES])
    first = place(tile, stream_src, rows * beats, values.elements.shape[1])
    place(0, 0, beats * params[LANES], values.accumulators.size)
    for query in range(ops[Q]):
        maximum = peek(vector, place(tile, ops[SRC] + query, 1, words))
        scores = place(
            place(tile, query, 1, values.scores.shape[1]), ops[BUX], rows, values.scores.shape[2]
        )
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


# --- LOAD ---


@part
def load(values: Values, tile: int, ops: I64, stream_src: int) -> None:
    """Rows of the store as words."""
    params, m = values.params, ops[M]
    row_beats = -(-m // params[LANES])
    first = place(tile, stream_src, ops[N] * row_beats, values.elements.shape[1])
    target = place(tile, ops[DST], ops[N] * m, values.vector.shape[1])
    for row in range(ops[N]):
        at = (first + row * row_beats) * params[LANES]
        for i in range(m):
            element, code = (
                peek(values.elements, at + i),
                peek(values.scales, (at + i) // params[BLOCK]),
            )
            word = jit.dequantise(element, code, params[WEIGHT_MANTISSA], ops[X])
            poke(values.vector, target + row * m + i, word)
