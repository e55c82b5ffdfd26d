"""The rounding rule against exact rational arithmetic, the tables against math."""

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenpath.hw.arch import numeric
from tokenpath.hw.arch.numeric import WORD_MAX, WORD_MIN
from tokenpath.hw.arch.params import Numeric

words = st.integers(WORD_MIN, WORD_MAX) | st.sampled_from([WORD_MIN, -1, 0, 1, WORD_MAX])
wide = st.integers(-(2**61) + 1, 2**61 - 1)
mantissa_bits = st.integers(0, 7)
element_bits = st.sampled_from([4, 8, 16])
fracs = st.integers(6, 20)


def half_up(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


def scale_of(code: int, k: int) -> Fraction:
    return Fraction(2) ** (code >> k) * (1 + Fraction(code & ((1 << k) - 1), 1 << k))


# --- words ---


@given(wide, st.integers(1, 70))
def test_a_right_shift_rounds_half_up(value, shift):
    assert numeric.shift_round(value, shift) == half_up(Fraction(value, 2**shift))


def test_half_goes_up_on_both_sides_of_zero():
    assert [numeric.shift_round(v, 2) for v in (-6, -5, -3, -2, -1, 1, 2, 3, 6)] == [
        *(-1, -1, -1, 0, 0),
        *(0, 1, 1, 2),
    ]


def test_a_left_shift_clamps_the_value_and_its_own_length():
    assert numeric.shift_round(-3, 0) == -3
    assert numeric.shift_round(2**40, 0) == 2**40
    assert numeric.shift_round(3, -30) == numeric.shift_round(3, -99) == 3 << 30
    assert numeric.shift_round(2**31, -1) == WORD_MAX << 1
    assert numeric.shift_round(-(2**40), -2) == WORD_MIN << 2


@given(st.lists(words, max_size=20), st.randoms())
def test_a_wrapped_sum_has_no_order(values, rng):
    total = numeric.wrap(sum(values))
    assert WORD_MIN <= total <= WORD_MAX
    assert (total - sum(values)) % 2**32 == 0
    running = 0
    for value in rng.sample(values, len(values)):
        running = numeric.wrap(running + value)
    assert running == total


@given(wide)
def test_saturation_is_the_nearest_word(value):
    assert numeric.saturate(value) == sorted((WORD_MIN, value, WORD_MAX))[1]


@pytest.mark.parametrize("headroom", range(31))
def test_clamped_terms_cannot_overflow_a_word(headroom):
    limit = numeric.term_limit(headroom)
    assert (limit << headroom) <= WORD_MAX < ((limit + 1) << headroom)
    assert numeric.clamp_term(10**12, limit) == -numeric.clamp_term(-(10**12), limit) == limit
    assert numeric.clamp_term(limit - 1, limit) == limit - 1
    if headroom <= 24:  # the longest context: sums of p <= 1, and of p * v with |v| < 2**6
        sums = Numeric()
        assert 1 << sums.sum_frac(headroom) <= limit
        assert (1 << sums.value_frac(headroom) + 6) - 1 <= limit


@given(st.integers(0, 2**63 - 1))
def test_bit_length(value):
    assert numeric.bit_length(value) == value.bit_length()


# --- block-scaled elements ---


@given(st.integers(1, 2**31), fracs, element_bits, mantissa_bits)
def test_the_scale_is_the_smallest_that_holds_the_block(amax, frac, bits, k):
    code = numeric.block_scale(amax, frac, bits, k)
    value, limit = Fraction(amax, 2**frac), 2 ** (bits - 1)
    assert value / scale_of(code, k) < limit <= value / scale_of(code - 1, k)
    assert scale_of(code, k) == Fraction(2) ** numeric.scale_exponent(code, k) * Fraction(
        numeric.scale_mantissa(code, k), 2**k
    )


@given(st.integers(1, 2**31), fracs)
def test_without_mantissa_it_is_the_scale_of_mxint8(amax, frac):
    """X = 2**(floor(log2 amax) - emax_elem), emax_elem = 0; an MXINT8 element has 6 fraction
    bits."""
    shared_exponent = math.floor(math.log2(amax)) - frac if amax < 2**31 else 31 - frac
    assert numeric.block_scale(amax, frac, 8, 0) == shared_exponent - 6


def test_a_block_of_zeros_has_the_zero_scale():
    for k in (0, 3, 7):
        code = numeric.block_scale(0, 16, 8, k)
        assert numeric.scale_exponent(code, k) == numeric.ZERO_EXPONENT == -64
        assert numeric.block_element(0, code, 16, 8, k) == 0


@given(st.data(), st.integers(1, 2**31 - 1), fracs, element_bits, mantissa_bits)
def test_an_element_is_within_half_a_scale(data, amax, frac, bits, k):
    word = data.draw(st.integers(-amax, amax) | st.sampled_from([amax, -amax]))
    code, largest = numeric.block_scale(amax, frac, bits, k), 2 ** (bits - 1) - 1
    element = numeric.block_element(word, code, frac, bits, k)
    assert abs(element) <= largest
    exact = Fraction(word, 2**frac) / scale_of(code, k)
    mantissa = Fraction(numeric.scale_mantissa(code, k), 2**k)
    slack = abs(exact) * mantissa / 2**17  # its reciprocal is rounded to 16 fraction bits
    error = abs(element - exact)
    assert error <= Fraction(1, 2) + slack or (abs(element) == largest and error < 1)


@given(
    st.integers(-(2**45), 2**45),
    *(st.integers(-40, 20), mantissa_bits, st.integers(0, 127)) * 2,
    st.integers(6, 20),
)
def test_a_dot_term_is_rounded_once(total, e_w, k_w, m_w, e_a, k_a, m_a, frac):
    weight, operand = (e_w << k_w) | (m_w % (1 << k_w)), (e_a << k_a) | (m_a % (1 << k_a))
    exact = total * scale_of(weight, k_w) * scale_of(operand, k_a) * 2**frac
    if exact.denominator > 1 or abs(exact) < 2**31:  # beyond, the caller clamps to a word anyway
        assert numeric.dot_term(total, weight, operand, k_w, k_a, frac) == half_up(exact)


@given(st.integers(-127, 127), st.integers(-40, 20), st.integers(0, 7), fracs)
def test_dequantise_is_the_nearest_word(element, exponent, m, frac):
    code = (exponent << 3) | m
    exact = half_up(element * scale_of(code, 3) * 2**frac)
    assert numeric.dequantise(element, code, 3, frac) == numeric.saturate(exact)


# --- functions of one value ---


def test_exp2_is_close_and_monotone():
    table = [numeric.exp2_mantissa(i, 13) for i in range(2**13)]
    assert all(low <= high for low, high in pairwise(table))
    assert max(abs(v - 2 ** (15 + i / 2**13)) for i, v in enumerate(table)) < 3.6
    assert table[0] == 2**15 and table[-1] < 2**16


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_the_weight_of_a_row(bits):
    for score in range(-3 << 12, 1, 7):
        mantissa = numeric.weight_mantissa(score, 12, bits)
        exact = 2 ** (score / 4096 % 1)
        assert mantissa.bit_length() == bits
        assert abs(mantissa / 2 ** (bits - 1) - exact) < 1.1e-4 + 2.0**-bits * (
            2 if exact > 2 - 2.0 ** (2 - bits) else 1.01
        )


def test_scores_round_up():
    assert [numeric.ceil_score(s, 4) for s in (-17, -16, -15, 0, 1, 16, 17)] == [
        *(-1, -1, 0, 0),
        *(1, 1, 2),
    ]


positive = st.integers(1, 2**62 - 1) | st.integers(1, 5000)


@given(positive)
def test_reciprocal(value):
    exact = 2.0**16 * 2.0 ** (value.bit_length() - 1) / value
    assert abs(numeric.reciprocal(value) - exact) < 12.75
    assert numeric.reciprocal(1 << value.bit_length()) == 2**16


@given(positive)
def test_rsqrt(value):
    z = (value.bit_length() - 1) // 2
    assert abs(numeric.rsqrt(value) - 2.0**16 / math.sqrt(value / 4**z)) < 5.25
    assert numeric.rsqrt(0) == numeric.rsqrt(-1) == numeric.rsqrt(4**z) == 2**16


@given(st.floats(-14, 14), st.sampled_from([12, 16, 20]))
def test_sigmoid(x, frac):
    word = round(x * 2**frac)
    exact = 2**16 / (1 + math.exp(-word / 2**frac))
    assert abs(numeric.sigmoid(word, frac) - exact) < 14
    assert numeric.sigmoid(word, frac) + numeric.sigmoid(-word, frac) in range(65522, 65551)


def test_sigmoid_at_its_ends():
    assert numeric.sigmoid(0, 16) == 2**15
    assert numeric.sigmoid(WORD_MIN, 16) == 0
    assert numeric.sigmoid(WORD_MAX, 16) == 2**16


@given(st.floats(-20, 20), st.floats(-50, 50), st.sampled_from([12, 16, 20]))
def test_silu_mul(x, y, frac):
    gate, up = round(x * 2**frac), round(y * 2**frac)
    exact = gate / 2**frac / (1 + math.exp(-gate / 2**frac)) * up / 2**frac
    error = numeric.silu_mul(gate, up, frac) / 2**frac - exact
    assert abs(error) < abs(gate * up) / 4**frac * 2e-4 + (1 + abs(y)) * 2.0**-frac


def test_silu_mul_saturates():
    assert numeric.silu_mul(WORD_MAX, WORD_MAX, 16) == WORD_MAX
    assert numeric.silu_mul(WORD_MAX, WORD_MIN, 16) == WORD_MIN
    assert numeric.silu_mul(WORD_MIN, WORD_MIN, 16) == 0


@given(words, st.integers(1, WORD_MAX), *[st.integers(8, 20)] * 3)
def test_divide(above, below, frac_in, frac_below, frac_out):
    exact = above / below * 2.0 ** (frac_out + frac_below - frac_in)
    got = numeric.divide(above, below, frac_in, frac_below, frac_out)
    if abs(exact) > 2.0**31 * 1.001:
        assert got == (WORD_MAX if exact > 0 else WORD_MIN)
    else:
        assert abs(got - exact) <= 0.5 + abs(exact) * 2e-4 + (abs(exact) > 2**30)


def test_divide_by_nothing_is_zero():
    assert numeric.divide(5, 0, 8, 8, 8) == numeric.divide(5, -3, 8, 8, 8) == 0


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=40).filter(lambda x: max(map(abs, x)) > 0.05),
    st.integers(-4, 8),
    st.integers(10, 16),
)
def test_rms_norm(xs, power, frac):
    """Words times rms_factor over 2**rms_shift are x / sqrt(mean(x**2) + eps)."""
    n, eps = len(xs), 1e-5
    vector = [round(x * 2.0 ** (power + frac)) for x in xs]
    exponent = int(math.log2(n)) // 2
    root = round(math.sqrt(n) / 2**exponent * 2**16)
    squares = sum(numeric.square(w) for w in vector) + round(n * eps * 2.0 ** (2 * frac - 12))
    exact = math.sqrt(sum((w / 2**frac) ** 2 for w in vector) / n + eps)
    factor = numeric.rms_factor(squares, root)
    assert 0 < factor < 2**17
    resolution = (1 + n / 2) / max(1, squares)  # of the sum of squares
    for word in vector:
        got = numeric.shift_round(word * factor, numeric.rms_shift(squares, exponent, frac, 16))
        wanted = word / 2**frac / exact
        assert abs(got / 2**16 - wanted) < abs(wanted) * (1.2e-4 + resolution) + 2.0**-16


def test_a_square_is_rounded_and_bounded():
    assert [numeric.square(w) for w in (45, 46, -46, 0)] == [0, 1, 1, 0]
    assert numeric.square(WORD_MIN) == 1 << 48
    assert sum([numeric.square(WORD_MIN)] * 2**14) < 2**63
