"""1/x, against numeric.reciprocal."""

import pytest
from bench import of_all_sizes, through, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.reciprocal import Reciprocal


@pytest.mark.parametrize("width", [5, 31, 32])
def test_small_values_and_samples_of_all_sizes(width):
    rows = [(value,) for value in of_all_sizes(width, 12)]
    got = through(Reciprocal(width=width), ["value"], ["mantissa", "length"], rows, 3)
    assert got == [(numeric.reciprocal(v), numeric.bit_length(v)) for (v,) in rows]


def test_verilog():
    assert "module dut" in verilog_of(Reciprocal(width=31))
