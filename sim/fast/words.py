"""Values of the compute operations on words of vector memory.

Each reads all of its operands before it writes, as far as the golden model does, so the two agree on operands that overlap.
"""

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch import numeric
from tokenpath.sim.compiled import jit, kernel

from .memories import (
    ACT_BITS,
    ACT_MANTISSA,
    AUX,
    BLOCK,
    BUX,
    DST,
    KV_BITS,
    KV_MANTISSA,
    LANES,
    OPERAND_BEATS,
    OVERFLOWS,
    SATURATIONS,
    SRC,
    M,
    N,
    Q,
    Values,
    X,
    Y,
    check,
    span,
)

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I16 = NDArray[np.int16]

WORD_MAX, WORD_MIN = numeric.WORD_MAX, numeric.WORD_MIN
ROPE_FRAC = numeric.ROPE_FRAC


@kernel
def store(vector: I32, at: int, words: I64, counters: I64) -> None:
    """Write words that an operation saturates, counting those at the rails."""
    target = span(vector, at, words.size)
    railed = 0
    for i in range(words.size):
        target[i] = words[i]
        railed += (words[i] == WORD_MAX) | (words[i] == WORD_MIN)
    counters[SATURATIONS] += railed


@kernel
def add_slots(vector: I32, ops: I64, counters: I64) -> None:
    """SUM: slots of n words, and the initial words when q is set, modulo 2**32."""
    n = ops[N]
    total = np.zeros(n, np.int64)
    for slot in range(-1 if ops[Q] else 0, ops[M]):
        words = span(vector, ops[BUX] if slot < 0 else ops[SRC] + slot * ops[AUX], n)
        for i in range(n):
            total[i] += words[i]
    target = span(vector, ops[DST], n)
    wrapped = 0
    for i in range(n):
        target[i] = total[i]
        wrapped += target[i] != total[i]
    counters[OVERFLOWS] += wrapped


@kernel
def largest_slots(vector: I32, ops: I64) -> None:
    """MAX: of slots of n words, and the initial words when q is set."""
    n = ops[N]
    most = np.full(n, WORD_MIN, np.int32)
    for slot in range(-1 if ops[Q] else 0, ops[M]):
        words = span(vector, ops[BUX] if slot < 0 else ops[SRC] + slot * ops[AUX], n)
        for i in range(n):
            most[i] = max(most[i], words[i])
    span(vector, ops[DST], n)[:] = most


@kernel
def scale_words(words: I64, factor: int, shift: int) -> None:
    """Each word times a factor, shifted, rounded and saturated, in place."""
    for i in range(words.size):
        words[i] = jit.saturate(jit.shift_round(words[i] * factor, shift))


@kernel
def rms(vector: I32, ops: I64, counters: I64) -> None:
    """RMSNorm of m vectors; constants are n * eps, sqrt(n) normalised to [1, 2) and its exponent."""
    n, constants, out = ops[N], span(vector, ops[AUX], 3), np.empty(ops[N], np.int64)
    epsilon, root, exponent = np.int64(constants[0]), np.int64(constants[1]), np.int64(constants[2])
    for index in range(ops[M]):
        words = span(vector, ops[SRC] + index * n, n)
        squares = epsilon
        for i in range(n):
            out[i] = words[i]
            squares += jit.square(out[i])
        scale_words(out, jit.rms_factor(squares, root), jit.rms_shift(squares, exponent, ops[X], ops[Y]))
        if ops[Q]:
            gains = span(vector, ops[BUX], n)
            for i in range(n):
                out[i] *= gains[i]
            scale_words(out, 1, 16)
        store(vector, ops[DST] + index * n, out, counters)


@kernel
def rope(vector: I32, ops: I64, counters: I64) -> None:
    """Rotate each adjacent pair of words of m vectors by its cosine and sine."""
    n, table = ops[N], span(vector, ops[AUX], ops[N])
    words = span(vector, ops[SRC], n * ops[M])
    out = np.empty(words.size, np.int64)
    for first in range(0, words.size, n):
        for i in range(0, n, 2):
            a, b = np.int64(words[first + i]), np.int64(words[first + i + 1])
            cos, sin = np.int64(table[i]), np.int64(table[i + 1])
            out[first + i] = a * cos - b * sin
            out[first + i + 1] = a * sin + b * cos
    scale_words(out, 1, ROPE_FRAC)
    store(vector, ops[DST], out, counters)


@kernel
def silu(vector: I32, ops: I64, counters: I64) -> None:
    """SiLU(gate) * up."""
    gate, up, out = span(vector, ops[SRC], ops[N]), span(vector, ops[AUX], ops[N]), np.empty(ops[N], np.int64)
    for i in range(out.size):
        out[i] = jit.silu_mul(np.int64(gate[i]), np.int64(up[i]), ops[X])
    store(vector, ops[DST], out, counters)


@kernel
def div(vector: I32, ops: I64, counters: I64) -> None:
    """Each of m vectors over its denominator."""
    n, m = ops[N], ops[M]
    above, below, out = span(vector, ops[SRC], n * m), span(vector, ops[AUX], m), np.empty(n * m, np.int64)
    for index in range(m):
        for i in range(index * n, (index + 1) * n):
            out[i] = jit.divide(np.int64(above[i]), np.int64(below[index]), ops[X], ops[Y], ops[Q])
    store(vector, ops[DST], out, counters)


@kernel
def quant_block(words: I32, elements: I16, frac: int, bits: int, k: int) -> int:
    """Elements of one block of words, the last one possibly short; returns the code of its scale.

    What numeric.block_element divides anew for each element is divided once here.
    """
    most = 0
    for i in range(words.size):
        most = max(most, abs(np.int64(words[i])))
    code = jit.block_scale(most, frac, bits, k)
    mantissa = jit.scale_mantissa(code, k)
    reciprocal = ((1 << (16 + k)) + (mantissa >> 1)) // mantissa
    shift, limit = 16 + frac + jit.scale_exponent(code, k), (1 << (bits - 1)) - 1
    for i in range(words.size):
        elements[i] = jit.clamp_term(jit.shift_round(words[i] * reciprocal, shift), limit)
    elements[words.size :] = 0
    return code


@kernel
def quant(values: Values, tile: int, ops: I64) -> None:
    """Words to blocks: in operand memory a query each, or back to back in the append buffer."""
    params, vector, n = values.params, values.vector[tile], ops[N]
    block, beats = params[BLOCK], -(-n // params[LANES])
    if ops[Y]:
        elements, scales = values.append[tile], values.append_scales[tile]
        stride, bits, k = beats, params[KV_BITS], params[KV_MANTISSA]
    else:
        elements, scales = values.operand[tile], values.operand_scales[tile]
        stride, bits, k = params[OPERAND_BEATS], params[ACT_BITS], params[ACT_MANTISSA]
    for index in range(ops[M]):
        words, at = span(vector, ops[SRC] + index * n, n), ops[DST] + index * stride
        check(at, beats, elements.shape[0])
        target, codes = elements[at : at + beats].reshape(-1), scales[at : at + beats].reshape(-1)
        for b in range(codes.size):
            codes[b] = quant_block(
                words[b * block : (b + 1) * block], target[b * block : (b + 1) * block], ops[X], bits, k
            )


@kernel
def merge(vector: I32, ops: I64) -> None:
    """Records (maxima, sums of p, weighted sums) aligned to the larger maximum by a shift and added, in order."""
    q, n = ops[Q], ops[N]
    size = q * (n + 2)
    result = span(vector, ops[SRC], size).astype(np.int64)
    for record in range(1, ops[M]):
        other = span(vector, ops[SRC] + record * ops[AUX], size)
        for query in range(q):
            maximum = max(result[query], np.int64(other[query]))
            down, other_down = min(maximum - result[query], 63), min(maximum - other[query], 63)
            result[query] = maximum
            result[q + query] = (result[q + query] >> down) + (np.int64(other[q + query]) >> other_down)
            for i in range(2 * q + query * n, 2 * q + (query + 1) * n):
                result[i] = (result[i] >> down) + (np.int64(other[i]) >> other_down)
    target = span(vector, ops[DST], size)
    for i in range(size):
        target[i] = result[i]


@kernel
def argmax(vector: I32, ops: I64) -> None:
    """Largest word and its index, the first of equals; no words give the smallest word and index -1."""
    words, best = span(vector, ops[SRC], ops[N]), -1
    most = WORD_MIN
    for i in range(words.size):
        if best < 0 or words[i] > most:
            best, most = i, np.int64(words[i])
    target = span(vector, ops[DST], 2)
    target[0], target[1] = most, ops[AUX] + best if best >= 0 else -1


@kernel
def argpair(vector: I32, ops: I64) -> None:
    """The (value, index) pair with the largest value, the first of equals; no pairs change nothing."""
    pairs, best = span(vector, ops[SRC], 2 * ops[N]), 0
    if not pairs.size:
        return
    for i in range(0, pairs.size, 2):
        if pairs[i] > pairs[best]:
            best = i
    value, index = pairs[best], pairs[best + 1]
    target = span(vector, ops[DST], 2)
    target[0], target[1] = value, index
