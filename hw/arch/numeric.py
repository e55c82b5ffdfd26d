"""Numbers: block-scaled elements, fixed-point words and the only rounding rule in the house.

Everything is an integer with a stated binary point. A value ``v`` with ``f`` fraction bits stands
for
``v / 2**f``. Each function is plain integer arithmetic on one element, so that three readers share
it: the golden model calls
it, the fast simulator compiles it, and the RTL is tested against it. Signed 64-bit arithmetic is
wide enough for
every intermediate result as long as the operands are in the ranges that the docstrings state.

A *scale* is ``2**e * (1 + m / 2**k)`` and is stored as the code ``(e << k) | m``, a signed 16-bit
number.
"""

import math

WORD_MAX = 2**31 - 1
WORD_MIN = -(2**31)

ZERO_EXPONENT = -64
"""Exponent of the scale of a block of zeros."""

ROPE_FRAC = 16
"""Fraction bits of the cosines and sines of rotary embeddings."""

SQUARE_SHIFT = 12
"""Bits that the square of one element loses before RMSNorm sums it."""

LOG2E = round(math.log2(math.e) * 2**16)
"""log2(e) with 16 fraction bits."""

NO_ROWS = -(2**20)
"""Running maximum of a query that has seen no row yet."""

HEADROOMS = range(31)
"""A headroom of h bits leaves 31 - h for a summand."""

SEGMENT_BITS = 5
"""log2 of the number of segments of each piecewise linear table."""


def _centred(function, start: float, stop: float, frac: int) -> tuple[int, ...]:  # type: ignore[no-untyped-def]
    """Nodes of a piecewise linear table over [start, stop], inner ones shifted to centre the
    error."""
    count = 1 << SEGMENT_BITS
    step = (stop - start) / count
    nodes = [function(start + i * step) for i in range(count + 1)]
    for i in range(1, count):
        sag = (nodes[i] + nodes[i + 1]) / 2 - function(start + (i + 0.5) * step)
        nodes[i] -= sag / 2
    return tuple(round(node * 2**frac) for node in nodes)


EXP2_TABLE = _centred(lambda x: 2.0**x, 0.0, 1.0, 15)
"""2**x on [0, 1], 15 fraction bits."""

RECIP_TABLE = _centred(lambda x: 1.0 / x, 1.0, 2.0, 16)
"""1/x on [1, 2], 16 fraction bits."""

RSQRT_TABLE = _centred(lambda x: x**-0.5, 1.0, 2.0, 16) + _centred(lambda x: x**-0.5, 2.0, 4.0, 16)
"""1/sqrt(x), 16 fraction bits: 33 nodes on [1, 2], then 33 nodes on [2, 4]."""


# --- words
# -----------------------------------------------------------------------------------------


def wrap(value: int) -> int:
    """``value`` modulo 2**32 as a signed word; the sum of words in any order has the same
    wrap."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def saturate(value: int) -> int:
    """``value`` clamped to the range of a signed 32-bit word."""
    if value > WORD_MAX:
        return WORD_MAX
    if value < WORD_MIN:
        return WORD_MIN
    return value


def shift_round(value: int, shift: int) -> int:
    """``value / 2**shift`` rounded half up, for ``|value| < 2**61``; a negative shift moves
    left.

    A left shift is by at most 30 places and of a value clamped to 32 bits first: what that loses
    is far outside every word.
    """
    if shift > 0:
        if shift > 62:
            shift = 62
        return ((value >> (shift - 1)) + 1) >> 1
    left = -shift
    if left > 30:
        left = 30
    if left == 0:
        return value
    return saturate(value) << left


def clamp_term(value: int, limit: int) -> int:
    """``value`` clamped to [-limit, limit]: one summand of an order-free sum."""
    if value > limit:
        return limit
    if value < -limit:
        return -limit
    return value


def term_limit(headroom: int) -> int:
    """Largest magnitude of one summand, so that 2**headroom of them can't overflow a word."""
    return (1 << (31 - headroom)) - 1


def bit_length(value: int) -> int:
    """Number of bits of ``value`` for 0 <= value < 2**63."""
    bits = 0
    if value >= 1 << 32:
        bits += 32
        value >>= 32
    if value >= 1 << 16:
        bits += 16
        value >>= 16
    if value >= 1 << 8:
        bits += 8
        value >>= 8
    while value > 0:
        bits += 1
        value >>= 1
    return bits


# --- block-scaled elements
# -------------------------------------------------------------------------


def scale_exponent(code: int, mantissa_bits: int) -> int:
    """Exponent ``e`` of a scale code."""
    return code >> mantissa_bits


def scale_mantissa(code: int, mantissa_bits: int) -> int:
    """``2**k + m`` of a scale code, the mantissa with k fraction bits and its leading one."""
    return (1 << mantissa_bits) + (code & ((1 << mantissa_bits) - 1))


def block_scale(amax: int, frac: int, bits: int, mantissa_bits: int) -> int:
    """Code of the scale of a block of words with ``frac`` fraction bits whose largest magnitude
    is ``amax``.

    The scale is the smallest one for which ``amax / scale < 2**(bits - 1)``; with no mantissa bits
    this is the scale of OCP Microscaling v1.0, section 6.3, for MXINT8.
    """
    if amax == 0:
        return ZERO_EXPONENT << mantissa_bits
    length = bit_length(amax)
    drop = length - mantissa_bits - 1
    top = (amax >> drop if drop >= 0 else amax << -drop) + 1
    exponent = length - bits - frac
    if top == 2 << mantissa_bits:
        return (exponent + 1) << mantissa_bits
    return (exponent << mantissa_bits) | (top - (1 << mantissa_bits))


def block_element(word: int, code: int, frac: int, bits: int, mantissa_bits: int) -> int:
    """Element of a word with ``frac`` fraction bits in a block with scale ``code``.

    The division by the mantissa is a multiplication by its reciprocal with 16 fraction bits,
    rounded once.
    """
    mantissa = (1 << mantissa_bits) + (code & ((1 << mantissa_bits) - 1))
    reciprocal = ((1 << (16 + mantissa_bits)) + (mantissa >> 1)) // mantissa
    element = shift_round(word * reciprocal, 16 + frac + (code >> mantissa_bits))
    return clamp_term(element, (1 << (bits - 1)) - 1)


def dot_term(
    product_sum: int, weight: int, operand: int, k_weight: int, k_operand: int, frac: int
) -> int:
    """Integer product sum of one block, scaled by its two scales and rounded once onto the grid
    of ``frac`` bits.

    ``product_sum`` needs fewer than 46 bits. The caller clamps it with :func:`clamp_term`.
    """
    mantissa = scale_mantissa(weight, k_weight) * scale_mantissa(operand, k_operand)
    shift = k_weight + k_operand - (weight >> k_weight) - (operand >> k_operand) - frac
    return shift_round(product_sum * mantissa, shift)


def dequantise(element: int, code: int, mantissa_bits: int, frac: int) -> int:
    """Word with ``frac`` fraction bits of an element with scale ``code``."""
    return saturate(
        shift_round(
            element * scale_mantissa(code, mantissa_bits),
            mantissa_bits - (code >> mantissa_bits) - frac,
        )
    )


# --- functions of one value
# ------------------------------------------------------------------------


def interpolate(low: int, high: int, rest: int, rest_bits: int) -> int:
    """Point between two nodes of a table, ``rest / 2**rest_bits`` of the way, rounded once."""
    return low + shift_round((high - low) * rest, rest_bits)


def exp2_mantissa(fraction: int, frac: int) -> int:
    """2**x for ``x = fraction / 2**frac`` in [0, 1), frac > 5; 15 fraction bits, in [2**15,
    2**16]."""
    rest_bits = frac - SEGMENT_BITS
    index = fraction >> rest_bits
    rest = fraction & ((1 << rest_bits) - 1)
    return interpolate(EXP2_TABLE[index], EXP2_TABLE[index + 1], rest, rest_bits)


def ceil_score(score: int, frac: int) -> int:
    """Score rounded up to an integer; the running maximum of pass 1 is the maximum of these."""
    return (score + (1 << frac) - 1) >> frac


def weight_mantissa(score: int, frac: int, bits: int) -> int:
    """Mantissa of p = 2**score of pass 2, ``bits`` wide with its leading one set."""
    mantissa = exp2_mantissa(score & ((1 << frac) - 1), frac)
    rounded = shift_round(mantissa, 16 - bits)
    limit = (1 << bits) - 1
    return limit if rounded > limit else rounded


def reciprocal(value: int) -> int:
    """1/m of ``value = m * 2**(bit_length - 1)``, 16 fraction bits, in [2**15, 2**16]; value >
    0."""
    length = bit_length(value)
    mantissa = value >> (length - 22) if length > 22 else value << (22 - length)
    rest_bits = 21 - SEGMENT_BITS
    index = (mantissa >> rest_bits) - (1 << SEGMENT_BITS)
    rest = mantissa & ((1 << rest_bits) - 1)
    return interpolate(RECIP_TABLE[index], RECIP_TABLE[index + 1], rest, rest_bits)


def rsqrt(value: int) -> int:
    """1/sqrt(m) of ``value = m * 4**z`` with m in [1, 4), 16 fraction bits; 0 counts as 1."""
    if value < 1:
        value = 1
    length = bit_length(value)
    mantissa = value >> (length - 22) if length > 22 else value << (22 - length)
    rest_bits = 21 - SEGMENT_BITS
    index = (mantissa >> rest_bits) - (1 << SEGMENT_BITS)
    if length & 1 == 0:
        index += (1 << SEGMENT_BITS) + 1
    rest = mantissa & ((1 << rest_bits) - 1)
    return interpolate(RSQRT_TABLE[index], RSQRT_TABLE[index + 1], rest, rest_bits)


def square(word: int) -> int:
    """Summand of the sum of squares: ``word**2 / 2**SQUARE_SHIFT``, rounded, at most 2**48
    (2**14 of them fit)."""
    value = shift_round(word * word, SQUARE_SHIFT)
    return value if value < 1 << 48 else 1 << 48


def rms_factor(squares: int, root: int) -> int:
    """Mantissa that RMSNorm multiplies with, 16 fraction bits, below 2**17.

    ``squares`` is the sum of squares plus n * eps at the same binary point; ``root`` is sqrt(n)
    normalised to [1, 2) with 16 fraction bits. The exponent that goes with it is
    :func:`rms_shift`.
    """
    return shift_round(rsqrt(squares) * root, 16)


def rms_shift(squares: int, root_exponent: int, frac_in: int, frac_out: int) -> int:
    """Right shift that turns ``word * rms_factor`` into the normalised word with ``frac_out`` bits.

    sqrt(n) is root * 2**root_exponent. With squares = m * 4**z at 2 * frac_in - SQUARE_SHIFT
    fraction bits,
    1/sqrt(squares) = rsqrt * 2**(frac_in - SQUARE_SHIFT / 2 - z).
    """
    if squares < 1:
        squares = 1
    half = (bit_length(squares) - 1) >> 1
    return 16 + frac_in - frac_out - root_exponent - (frac_in - (SQUARE_SHIFT >> 1) - half)


def sigmoid(word: int, frac: int) -> int:
    """1 / (1 + e**-x) of a word with ``frac`` > 5 fraction bits; 16 fraction bits, in [0,
    2**16]."""
    magnitude = -word if word < 0 else word
    exponent = -shift_round(magnitude * LOG2E, 16)
    mantissa = exp2_mantissa(exponent & ((1 << frac) - 1), frac)
    decay = shift_round(mantissa, -1 - (exponent >> frac))
    inverse = reciprocal(65536 + decay) if decay < 65536 else 32768
    return inverse if word >= 0 else shift_round(decay * inverse, 16)


def silu_mul(gate: int, up: int, frac: int) -> int:
    """SiLU(gate) * up of two words with ``frac`` fraction bits, a word with as many;
    saturates."""
    return saturate(shift_round(shift_round(gate * sigmoid(gate, frac), 16) * up, frac))


def divide(
    numerator: int, denominator: int, frac_in: int, frac_denominator: int, frac_out: int
) -> int:
    """Numerator over a positive denominator with stated fraction bits; saturates.

    A denominator of 0 gives 0.
    """
    if denominator <= 0:
        return 0
    shift = 16 + frac_in - frac_denominator - frac_out + bit_length(denominator) - 1
    return saturate(shift_round(numerator * reciprocal(denominator), shift))
