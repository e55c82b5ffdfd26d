"""Blocks of floats: the smallest scale that holds them, elements within half of it."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenpath.hw.arch import numeric
from tokenpath.hw.arch.params import Format
from tokenpath.sw.quantise import block_quantise, scale_values

BLOCK = 4
FORMATS = [Format(bits=b, mantissa_bits=k) for b in (4, 8) for k in (0, 3, 7)]
NEAR = 1 + Fraction(1, 2**22)  # the ratio is computed in float32

floats = st.floats(-1e6, 1e6, width=32) | st.floats(-1, 1, width=32)
blocks = st.lists(floats, min_size=BLOCK, max_size=BLOCK).filter(
    lambda values: max(map(abs, values)) > 1e-12
)


def scale_of(code: int, k: int) -> Fraction:
    return Fraction(2) ** (code >> k) * Fraction(numeric.scale_mantissa(code, k), 1 << k)


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f"{f.bits} bits, k = {f.mantissa_bits}")
@given(st.lists(blocks, min_size=1, max_size=3))
def test_the_smallest_scale_and_the_nearest_elements(fmt, rows):
    matrix = np.array(rows, np.float32)
    elements, codes = block_quantise(matrix, BLOCK, fmt)
    assert elements.dtype == np.int8 and codes.dtype == np.int16
    assert elements.shape == matrix.shape and codes.shape == (len(rows), 1)
    largest, k = 2 ** (fmt.bits - 1) - 1, fmt.mantissa_bits
    for row, mine, code in zip(
        matrix.tolist(), elements.tolist(), codes[:, 0].tolist(), strict=True
    ):
        amax, scale = max(map(abs, map(Fraction, row))), scale_of(code, k)
        assert amax / scale <= largest * NEAR
        assert amax / scale_of(code - 1, k) > largest / NEAR
        assert max(map(abs, mine)) <= largest
        for value, element in zip(row, mine, strict=True):
            assert abs(Fraction(value) / scale - element) <= Fraction(1, 2) * NEAR + largest * (
                NEAR - 1
            )


def test_blocks_along_a_row_are_apart():
    rows = np.array([[1, -127, 0, 64, 0.5, 0, 0, -0.25]], np.float32)
    elements, codes = block_quantise(rows, BLOCK, Format(bits=8, mantissa_bits=0))
    assert elements.tolist() == [[1, -127, 0, 64, 64, 0, 0, -32]]
    assert codes.tolist() == [[0, -7]]


@pytest.mark.parametrize("k", [0, 3, 7])
def test_zeros_and_what_is_too_small_for_float32(k):
    rows = np.array([[0, -0.0, 0, 0], [1e-45, 0, 0, 0]], np.float32)
    elements, codes = block_quantise(rows, BLOCK, Format(mantissa_bits=k))
    assert not elements.any()
    assert codes.tolist() == [[numeric.ZERO_EXPONENT << k]] * 2


def test_exponents_stay_within_their_range():
    rows = np.array([[1e38, -1e38, 0, 1], [1e-30, 0, 0, 0]], np.float32)
    elements, codes = block_quantise(rows, BLOCK, Format(mantissa_bits=3))
    assert elements.tolist() == [[127, -127, 0, 0], [0, 0, 0, 0]]
    assert [int(c) >> 3 for c in codes[:, 0]] == [60, -60]


@given(st.integers(-60, 60), st.sampled_from([0, 3, 7]), st.integers(0, 127))
def test_the_value_of_a_scale(exponent, k, m):
    code = (exponent << k) | (m & ((1 << k) - 1))
    assert Fraction(float(scale_values(np.array([code]), k)[0])) == scale_of(code, k)
