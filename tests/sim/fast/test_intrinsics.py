import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenpath.hw.arch import numeric
from tokenpath.sim.compiled import kernel
from tokenpath.sim.fast.intrinsics import WIDTH, add_scaled, peek, poke, product_sum


@kernel
def copy(source, target, n):
    for i in range(n):
        poke(target, i, peek(source, i))


@kernel
def multiply(left, left_at, right, right_at):
    return product_sum(left, left_at, right, right_at)


@kernel
def accumulate(sums, at, elements, first, factor, shift):
    add_scaled(sums, at, elements, first, factor, shift)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_peek_sign_extends_and_poke_truncates(dtype):
    bits = 8 * np.dtype(dtype).itemsize
    edge = np.array([[0, 1], [-1, 2 ** (bits - 1) - 1], [-(2 ** (bits - 1)), 5]], dtype)
    wide, narrow = np.zeros(6, np.int64), np.zeros((3, 2), dtype)
    copy(edge, wide, 6)
    assert (wide == edge.reshape(-1)).all()
    copy(wide + (0 if bits == 64 else 3 << bits), narrow, 6)
    assert (narrow == edge).all()


@given(st.integers(0, 99), st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_product_sum_is_the_sum_of_products(seed, left_at, right_at, extreme):
    rng = np.random.default_rng(seed)
    left = rng.choice([-128, 127] if extreme else np.arange(-128, 128), (2, 24)).astype(np.int8)
    right = rng.choice([-32768, 32767] if extreme else np.arange(-999, 999), 40).astype(np.int16)
    expected = (
        left.reshape(-1)[left_at : left_at + WIDTH].astype(np.int64)
        @ right[right_at : right_at + WIDTH]
    )
    assert multiply(left, left_at, right, right_at) == expected


@given(
    st.integers(0, 99),
    st.integers(0, 5),
    st.integers(0, 8),
    st.integers(0, 2**23 - 1),
    st.integers(0, 31),
)
def test_add_scaled_rounds_each_summand_once(seed, at, first, factor, shift):
    rng = np.random.default_rng(seed)
    elements, sums = (
        rng.integers(-128, 128, 40).astype(np.int8),
        rng.integers(-(2**31), 2**31, 40).astype(np.int32),
    )
    expected = sums.tolist()
    for i in range(WIDTH):
        term = numeric.shift_round(int(elements[first + i]) * factor, shift + 1)
        expected[at + i] = numeric.wrap(expected[at + i] + term)
    accumulate(sums, at, elements, first, factor, shift)
    assert sums.tolist() == expected
