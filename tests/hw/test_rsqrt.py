"""1/sqrt(x), against numeric.rsqrt."""

import pytest
from bench import of_all_sizes, through, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.rsqrt import Rsqrt


@pytest.mark.parametrize("width", [6, 32, 63])
def test_small_values_and_samples_of_all_sizes(width):
    rows = [(value,) for value in of_all_sizes(width, 11)]
    got = through(Rsqrt(width=width), ["value"], ["mantissa", "half"], rows, 3)
    assert got == [(numeric.rsqrt(v), (numeric.bit_length(v) - 1) >> 1) for (v,) in rows]


def test_verilog():
    assert "module dut" in verilog_of(Rsqrt(width=63))
