"""Values of the compute operations on words of vector memory.

Each reads its operands before it writes, in the order of the golden model, so the two agree on
operands that overlap; results gather in ``work`` first.
"""

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch import numeric
from tokenpath.hw.arch.isa import Op
from tokenpath.sim.compiled import jit, kernel, part

from .intrinsics import peek, poke
from .memories import (
    ACT_BITS,
    ACT_MANTISSA,
    APPEND_BEATS,
    AUX,
    BLOCK,
    BLOCKS,
    BUX,
    DST,
    KV_BITS,
    KV_MANTISSA,
    LANES,
    OP,
    OPERAND_BEATS,
    OPERAND_ROWS,
    SRC,
    VECTOR_WORDS,
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

WORD_MAX, WORD_MIN = numeric.WORD_MAX, numeric.WORD_MIN
ROPE_FRAC = numeric.ROPE_FRAC
MAX, ARGPAIR = int(Op.MAX), int(Op.ARGPAIR)


@kernel
def store_saturated(values: Values, tile: int, at: int, n: int) -> int:
    """Write words that an operation saturates; how many are at the rails."""
    vector, work, railed = values.vector, values.work, 0
    target = place(tile, at, n, values.params[VECTOR_WORDS])
    for i in range(n):
        word = peek(work, i)
        poke(vector, target + i, word)
        railed += (word == WORD_MAX) | (word == WORD_MIN)
    return railed


@part
def combine_slots(values: Values, tile: int) -> int:
    """SUM (modulo 2**32) or MAX of slots, and of initial words if q; how many sums wrapped."""
    ops, vector, work, size = values.ops, values.vector, values.work, values.params[VECTOR_WORDS]
    n, largest = ops[N], ops[OP] == MAX
    for i in range(n):
        poke(work, i, WORD_MIN if largest else 0)
    for slot in range(-1 if ops[Q] else 0, ops[M]):
        source = place(tile, ops[BUX] if slot < 0 else ops[SRC] + slot * ops[AUX], n, size)
        for i in range(n):
            old, word = peek(work, i), peek(vector, source + i)
            poke(work, i, max(old, word) if largest else old + word)
    target, wrapped = place(tile, ops[DST], n, size), 0
    for i in range(n):
        poke(vector, target + i, peek(work, i))
        wrapped += peek(vector, target + i) != peek(work, i)
    return wrapped


@kernel
def scale_words(work: I64, n: int, factor: int, shift: int) -> None:
    """Each word times a factor, shifted, rounded and saturated, in place."""
    for i in range(n):
        poke(work, i, jit.saturate(jit.shift_round(peek(work, i) * factor, shift)))


@part
def rms(values: Values, tile: int) -> int:
    """RMSNorm of m vectors; how many words are at the rails.

    The constants are n * eps, sqrt(n) normalised to [1, 2) and its exponent.
    """
    ops, vector, work, size = values.ops, values.vector, values.work, values.params[VECTOR_WORDS]
    n, railed = ops[N], 0
    constants = place(tile, ops[AUX], 3, size)
    epsilon, root, exponent = (
        peek(vector, constants),
        peek(vector, constants + 1),
        peek(vector, constants + 2),
    )
    for index in range(ops[M]):
        source, squares = place(tile, ops[SRC] + index * n, n, size), epsilon
        for i in range(n):
            word = peek(vector, source + i)
            poke(work, i, word)
            squares += jit.square(word)
        scale_words(
            work, n, jit.rms_factor(squares, root), jit.rms_shift(squares, exponent, ops[X], ops[Y])
        )
        if ops[Q]:
            gains = place(tile, ops[BUX], n, size)
            for i in range(n):
                poke(work, i, peek(work, i) * peek(vector, gains + i))
            scale_words(work, n, 1, 16)
        railed += store_saturated(values, tile, ops[DST] + index * n, n)
    return railed


@part
def rope(values: Values, tile: int) -> int:
    """Rotate each adjacent pair of words of m vectors by its cosine and sine."""
    ops, vector, work, size = values.ops, values.vector, values.work, values.params[VECTOR_WORDS]
    n = ops[N]
    words = n * ops[M]
    source, table = place(tile, ops[SRC], words, size), place(tile, ops[AUX], n, size)
    for first in range(0, words, max(n, 1)):
        for i in range(0, n, 2):
            cos, sin = peek(vector, table + i), peek(vector, table + i + 1)
            a, b = peek(vector, source + first + i), peek(vector, source + first + i + 1)
            poke(work, first + i, a * cos - b * sin)
            poke(work, first + i + 1, a * sin + b * cos)
    scale_words(work, words, 1, ROPE_FRAC)
    return store_saturated(values, tile, ops[DST], words)


@part
def silu(values: Values, tile: int) -> int:
    """SiLU(gate) * up."""
    ops, vector, work, size = values.ops, values.vector, values.work, values.params[VECTOR_WORDS]
    n = ops[N]
    gate, up = place(tile, ops[SRC], n, size), place(tile, ops[AUX], n, size)
    for i in range(n):
        poke(work, i, jit.silu_mul(peek(vector, gate + i), peek(vector, up + i), ops[X]))
    return store_saturated(values, tile, ops[DST], n)


@part
def div(values: Values, tile: int) -> int:
    """Each of m vectors over its denominator."""
    ops, vector, work, size = values.ops, values.vector, values.work, values.params[VECTOR_WORDS]
    n, m = ops[N], ops[M]
    above, below = place(tile, ops[SRC], n * m, size), place(tile, ops[AUX], m, size)
    for index in range(m):
        denominator = peek(vector, below + index)
        for i in range(index * n, (index + 1) * n):
            poke(work, i, jit.divide(peek(vector, above + i), denominator, ops[X], ops[Y], ops[Q]))
    return store_saturated(values, tile, ops[DST], n * m)


@part
def quant_block(
    vector: I32,
    source: int,
    n: int,
    elements: I16,
    target: int,
    block: int,
    frac: int,
    bits: int,
    k: int,
) -> int:
    """Elements of one block from its ``n`` words, the others 0; the code of its scale.

    What numeric.block_element divides anew for each element is divided once here.
    """
    most = 0
    for i in range(n):
        most = max(most, abs(peek(vector, source + i)))
    code: int = jit.block_scale(most, frac, bits, k)
    mantissa = jit.scale_mantissa(code, k)
    reciprocal = ((1 << (16 + k)) + (mantissa >> 1)) // mantissa
    shift, limit = 16 + frac + jit.scale_exponent(code, k), (1 << (bits - 1)) - 1
    for i in range(n):
        element = jit.shift_round(peek(vector, source + i) * reciprocal, shift)
        poke(elements, target + i, jit.clamp_term(element, limit))
    for i in range(n, block):
        poke(elements, target + i, 0)
    return code


@part
def quant(values: Values, tile: int) -> None:
    """Words to blocks: in operand memory a query each, or back to back in the append buffer."""
    params, ops, n = values.params, values.ops, values.ops[N]
    size, rows = params[VECTOR_WORDS], params[OPERAND_ROWS]
    block, blocks, beats = params[BLOCK], params[BLOCKS], -(-n // params[LANES])
    elements, scales = values.operand, values.operand_scales
    stride, bits, k = params[OPERAND_BEATS], params[ACT_BITS], params[ACT_MANTISSA]
    if ops[Y]:
        elements, scales, rows = values.append, values.append_scales, params[APPEND_BEATS]
        stride, bits, k = beats, params[KV_BITS], params[KV_MANTISSA]
    for index in range(ops[M]):
        source = place(tile, ops[SRC] + index * n, n, size)
        target = place(tile, ops[DST] + index * stride, beats, rows) * blocks
        for b in range(beats * blocks):
            count = min(max(n - b * block, 0), block)
            code = quant_block(
                values.vector,
                source + b * block,
                count,
                elements,
                (target + b) * block,
                block,
                ops[X],
                bits,
                k,
            )
            poke(scales, target + b, code)


@part
def merge(values: Values, tile: int) -> None:
    """Records (maxima, sums of p, weighted sums) shifted to the larger maximum and added."""
    ops, vector, work, size = values.ops, values.vector, values.work, values.params[VECTOR_WORDS]
    q, n = ops[Q], ops[N]
    words = q * (n + 2)
    source = place(tile, ops[SRC], words, size)
    for i in range(words):
        poke(work, i, peek(vector, source + i))
    for record in range(1, ops[M]):
        source = place(tile, ops[SRC] + record * ops[AUX], words, size)
        for query in range(q):
            maximum = max(peek(work, query), peek(vector, source + query))
            down = min(maximum - peek(work, query), 63)
            other_down = min(maximum - peek(vector, source + query), 63)
            poke(work, query, maximum)
            for i in range(-1, n):  # the sum of p, then the weighted sums
                at = q + query if i < 0 else 2 * q + query * n + i
                poke(work, at, (peek(work, at) >> down) + (peek(vector, source + at) >> other_down))
    target = place(tile, ops[DST], words, size)
    for i in range(words):
        poke(vector, target + i, peek(work, i))


@part
def argmax(values: Values, tile: int) -> None:
    """The first of the largest words and its index: from aux on, or the second word of a pair.

    No words give ARGMAX the smallest word and index -1; no pairs change nothing.
    """
    ops, vector, size = values.ops, values.vector, values.params[VECTOR_WORDS]
    pairs, n = ops[OP] == ARGPAIR, ops[N]
    step = 2 if pairs else 1
    if pairs and n == 0:
        return
    source, target = place(tile, ops[SRC], n * step, size), place(tile, ops[DST], 2, size)
    best, most = -1, WORD_MIN
    for i in range(n):
        word = peek(vector, source + i * step)
        if best < 0 or word > most:
            best, most = i, word
    index = peek(vector, source + 2 * best + 1) if pairs else ops[AUX] + best if n else -1
    poke(vector, target, most)
    poke(vector, target + 1, index)
