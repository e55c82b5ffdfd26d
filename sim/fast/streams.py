"""Values of the compute operations that consume a stream: DOT, SCORE, AXPY and LOAD.

Their loops go over the blocks of all rows at once, as many as fit the first-level cache, so that short rows are as fast as
long ones.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch import numeric
from tokenpath.sim.compiled import jit, kernel

from .memories import (
    ACT_BITS,
    ACT_MANTISSA,
    AUX,
    BLOCK,
    BLOCKS,
    BUX,
    DST,
    KV_MANTISSA,
    LANES,
    OPERAND_BEATS,
    SATURATIONS,
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
    check,
    span,
)
from .simd import WIDTH, add_scaled, product_sum

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I16 = NDArray[np.int16]
I8 = NDArray[np.int8]

BATCH = 256
"""Blocks whose product sums are scaled in one loop."""

NO_ROWS = numeric.NO_ROWS


@kernel
def stream_scales(values: Values, tile: int, beat: int, beats: int) -> I16:
    """The scales (beats * blocks,) of beats of a tile's store; they must be there."""
    check(beat, beats, values.elements.shape[1])
    return values.scales[tile, beat : beat + beats].reshape(-1)


# --- DOT and SCORE ---


@kernel
def product_sums(elements: I8, first: int, operand: I16, at: int, block: int, blocks: int, sums: I32) -> None:
    """Product sums of successive blocks of elements with ``blocks`` blocks of an operand, over and over.

    ``first`` and ``at`` are flat places. A sum of 64 products of 8 and 16 bits fits 32 bits.
    """
    inside = 0
    for index in range(sums.size):
        total = np.int32(0)
        left, right = first + index * block, at + inside * block
        if block % WIDTH == 0:
            for part in range(0, block, WIDTH):
                total += product_sum(elements, left + part, operand, right + part)
        else:
            for i in range(block):
                total += np.int32(elements[left + i]) * np.int32(operand[right + i])
        sums[index] = total
        inside += 1
        if inside == blocks:
            inside = 0


@kernel
def scale_terms(sums: I32, scales: I16, mantissas: I64, downs: I64, k: int, limit: int, terms: I64) -> int:
    """numeric.dot_term and clamp_term of each block, without a branch; returns how many were clamped.

    A left shift clamps whatever would leave the limit, so neither the 32-bit clamp nor the wrap of the shift is seen.
    """
    clamped = 0
    one, mask = 1 << k, (1 << k) - 1
    for b in range(sums.size):
        code = np.int64(scales[b])
        value = sums[b] * ((one + (code & mask)) * mantissas[b])
        shift = downs[b] - (code >> k)
        right, left = min(max(shift, 1), 62), min(max(-shift, 0), 30)
        term = ((value >> (right - 1)) + 1) >> 1 if shift > 0 else value
        edge = limit >> left
        over, under = term > edge, term < -edge
        term <<= left
        term = limit if over else term
        term = -limit if under else term
        terms[b] = term
        clamped += over | under
    return clamped


@kernel
def dots(values: Values, tile: int, query: int, ops: I64, stream_src: int, k: int, frac: int, sums: I64) -> None:
    """Product of each row with one resident vector into ``sums`` (n,): a sum over blocks, each rounded and clamped once."""
    params, rows = values.params, sums.size
    beats = -(-ops[M] // params[LANES])
    blocks = beats * params[BLOCKS]
    scales = stream_scales(values, tile, stream_src, rows * beats)
    operand_beat = ops[SRC] + query * params[OPERAND_BEATS]
    check(operand_beat, beats, values.operand.shape[1])
    codes = values.operand_scales[tile, operand_beat : operand_beat + beats].reshape(-1)
    if rows * blocks == 0:
        sums[:] = 0
        return

    batch = max(1, min(rows, BATCH // blocks))
    size = batch * blocks
    mantissas, downs, terms = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    k_act = params[ACT_MANTISSA]
    for b in range(size):
        code = np.int64(codes[b % blocks])
        mantissas[b] = jit.scale_mantissa(code, k_act)
        downs[b] = k + k_act - jit.scale_exponent(code, k_act) - frac

    elements, operand, block = values.elements.reshape(-1), values.operand.reshape(-1), params[BLOCK]
    first = (tile * values.elements.shape[1] + stream_src) * params[LANES]
    at = (tile * values.operand.shape[1] + operand_beat) * params[LANES]
    products, limit, clamped = np.empty(size, np.int32), jit.term_limit(ops[Y]), 0
    for row in range(0, rows, batch):
        done, count = row * blocks, min(batch, rows - row)
        part = products[: count * blocks]
        product_sums(elements, first + done * block, operand, at, block, blocks, part)
        clamped += scale_terms(part, scales[done : done + part.size], mantissas, downs, k, limit, terms)
        for r in range(count):
            total = 0
            for b in range(r * blocks, (r + 1) * blocks):
                total += terms[b]
            sums[row + r] = total
    values.counters[tile, SATURATIONS] += clamped


@kernel
def dot(values: Values, tile: int, ops: I64, stream_src: int) -> None:
    """One number a row into vector memory."""
    words = span(values.vector[tile], ops[DST], ops[N])
    sums = np.empty(words.size, np.int64)
    dots(values, tile, 0, ops, stream_src, values.params[WEIGHT_MANTISSA], ops[X], sums)
    for row in range(words.size):
        words[row] = sums[row]


@kernel
def score(values: Values, tile: int, ops: I64, stream_src: int) -> None:
    """Scores of q queries into score memory; the maximum of the rounded-up scores into vector memory."""
    params, sums = values.params, np.empty(ops[N], np.int64)
    check(0, ops[Q], values.scores.shape[1])
    check(ops[BUX], ops[N], values.scores.shape[2])
    maxima = span(values.vector[tile], ops[DST], ops[Q])
    for query in range(ops[Q]):
        dots(values, tile, query, ops, stream_src, params[KV_MANTISSA], params[SCORE_FRAC], sums)
        scores = values.scores[tile, query, ops[BUX] : ops[BUX] + ops[N]]
        maximum = jit.ceil_score(sums[0], params[SCORE_FRAC]) if sums.size else NO_ROWS
        for row in range(sums.size):
            scores[row] = sums[row]
            maximum = max(maximum, jit.ceil_score(sums[row], params[SCORE_FRAC]))
        maxima[query] = maximum


# --- AXPY ---


@kernel
def weigh(scores: I32, maximum: int, frac: int, bits: int, mantissas: I64, shifts: I64) -> None:
    """p = 2**(score - maximum) of each row as ``mantissa / 2**shift``."""
    for row in range(scores.size):
        score = scores[row] - (maximum << frac)
        mantissas[row] = jit.weight_mantissa(score, frac, bits)
        shifts[row] = bits - 1 - (score >> frac)


@kernel
def sum_weights(mantissas: I64, shifts: I64, sum_frac: int, limit: int, counters: I64) -> int:
    """Sum of p with ``sum_frac`` fraction bits."""
    total = 0
    for row in range(mantissas.size):
        term = jit.shift_round(mantissas[row], shifts[row] - sum_frac)
        clamped = jit.clamp_term(term, limit)
        counters[SATURATIONS] += clamped != term
        total += clamped
    return total


@kernel
def add_rare(sums: I32, at: int, elements: I8, first: int, block: int, factor: int, down: int, limit: int) -> int:
    """Add a block that needs 64 bits, a left shift or the clamp; returns how many summands were clamped."""
    clamped = 0
    for i in range(block):
        term = jit.shift_round(factor * elements[first + i], down)
        kept = jit.clamp_term(term, limit)
        clamped += kept != term
        sums[at + i] += kept
    return clamped


@kernel
def add_block(sums: I32, at: int, elements: I8, first: int, block: int, factor: int, down: int, limit: int) -> int:
    """Add ``round(factor * element / 2**down)`` of a block to the sums; returns how many summands were clamped."""
    largest = factor << 7
    if down < 1 or largest >= 1 << 30 or ((largest >> min(down - 1, 31)) + 1) >> 1 > limit:
        return add_rare(sums, at, elements, first, block, factor, down, limit)
    if down > 32:
        return 0
    if block % WIDTH == 0:
        for i in range(0, block, WIDTH):
            add_scaled(sums, at + i, elements, first + i, np.int32(factor), np.int32(down - 1))
    else:
        for i in range(block):
            sums[at + i] += (((factor * elements[first + i]) >> (down - 1)) + 1) >> 1
    return 0


@kernel
def axpy(values: Values, tile: int, ops: I64, stream_src: int) -> None:
    """Sums of p and of p times each row of V, for q queries."""
    params, vector, rows, m = values.params, values.vector[tile], ops[N], ops[M]
    beats = -(-m // params[LANES])
    blocks, block, k = beats * params[BLOCKS], params[BLOCK], params[KV_MANTISSA]
    limit = jit.term_limit(ops[Y])
    scales = stream_scales(values, tile, stream_src, rows * beats)
    elements = values.elements.reshape(-1)
    first = (tile * values.elements.shape[1] + stream_src) * params[LANES]
    check(0, ops[Q], values.scores.shape[1])
    check(ops[BUX], rows, values.scores.shape[2])
    mantissas, shifts = np.empty(rows, np.int64), np.empty(rows, np.int64)
    sums = np.empty(blocks * block, np.int32)

    for query in range(ops[Q]):
        maximum = np.int64(span(vector, ops[SRC] + query, 1)[0])
        scores = values.scores[tile, query, ops[BUX] : ops[BUX] + rows]
        weigh(scores, maximum, params[SCORE_FRAC], params[ACT_BITS], mantissas, shifts)
        total = sum_weights(mantissas, shifts, params[SUM_FRAC + ops[Y]], limit, values.counters[tile])
        sums[:] = 0
        clamped = 0
        for row in range(rows):
            for b in range(blocks):
                index = row * blocks + b
                code = np.int64(scales[index])
                factor = mantissas[row] * jit.scale_mantissa(code, k)
                down = shifts[row] + k - jit.scale_exponent(code, k) - ops[X]
                clamped += add_block(sums, b * block, elements, first + index * block, block, factor, down, limit)
        values.counters[tile, SATURATIONS] += clamped
        span(vector, ops[DST] + query * m, m)[:] = sums[:m]
        span(vector, ops[AUX] + query, 1)[0] = total


# --- LOAD ---


@kernel
def load(values: Values, tile: int, ops: I64, stream_src: int) -> None:
    """Rows of the store as words."""
    params, m = values.params, ops[M]
    beats = -(-m // params[LANES])
    scales = stream_scales(values, tile, stream_src, ops[N] * beats)
    elements = values.elements.reshape(-1)
    words = span(values.vector[tile], ops[DST], ops[N] * m)
    first = (tile * values.elements.shape[1] + stream_src) * params[LANES]
    for row in range(ops[N]):
        at = row * beats * params[LANES]
        for i in range(m):
            code = np.int64(scales[(at + i) // params[BLOCK]])
            element = np.int64(elements[first + at + i])
            words[row * m + i] = jit.dequantise(element, code, params[WEIGHT_MANTISSA], ops[X])
