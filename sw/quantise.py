"""Weights to block-scaled elements: float rows in, int8 elements and scale codes out."""

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.numeric import ZERO_EXPONENT
from tokenpath.hw.arch.params import Format

_EXPONENTS = (-60, 60)


def block_quantise(
    rows: NDArray[np.float32], block: int, fmt: Format
) -> tuple[NDArray[np.int8], NDArray[np.int16]]:
    """Quantise ``rows`` (n, m) along m, m a multiple of ``block``; elements (n, m) int8 and
    codes (n, m / block) int16.

    Of the scales of the format, each block takes the smallest one whose largest element doesn't
    leave the element's range.
    """
    n, m = rows.shape
    blocks = rows.reshape(n, m // block, block)
    largest = (1 << (fmt.bits - 1)) - 1
    k = fmt.mantissa_bits
    ratio = np.maximum(blocks.max(axis=-1), -blocks.min(axis=-1)) / np.float32(largest)
    fraction, exponent = np.frexp(ratio)  # ratio = fraction * 2**exponent, fraction in [0.5, 1)
    mantissa = np.ceil(fraction * np.float32(2 << k)).astype(np.int32)  # 2**k .. 2**(k+1)
    code = np.clip(exponent - 1, *_EXPONENTS) * (1 << k) + mantissa - (1 << k)
    code = np.where(ratio > 0, code, ZERO_EXPONENT << k)
    inverse = np.where(ratio > 0, 1.0 / scale_values(code, k), 0).astype(np.float32)
    elements = np.rint(blocks * inverse[..., None])
    np.clip(elements, -largest, largest, out=elements)
    return elements.astype(np.int8).reshape(n, m), code.astype(np.int16)


def scale_values(codes: NDArray[np.int32], mantissa_bits: int) -> NDArray[np.float32]:
    """The scales that codes stand for."""
    one = 1 << mantissa_bits
    fraction = (one + (codes & (one - 1))).astype(np.float32) / one
    values: NDArray[np.float32] = np.ldexp(fraction, codes >> mantissa_bits)
    return values
