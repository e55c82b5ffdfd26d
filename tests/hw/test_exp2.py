"""2**x of a fraction, against numeric.exp2_mantissa."""

import gc

import pytest
from bench import through, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.exp2 import Exp2


@pytest.mark.parametrize("frac", [6, 8, 12])
def test_every_fraction(frac):
    rows = [(fraction,) for fraction in range(1 << frac)]
    got = through(Exp2(frac=frac), ["fraction"], ["mantissa"], rows, 2)
    assert [g for (g,) in got] == [numeric.exp2_mantissa(f, frac) for (f,) in rows]


def test_a_fraction_moved_left_gives_the_same():
    rows = [(fraction << 10,) for fraction in range(1 << 12)]
    got = through(Exp2(frac=22), ["fraction"], ["mantissa"], rows, 2)
    assert [g for (g,) in got] == [numeric.exp2_mantissa(f, 12) for f in range(1 << 12)]


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_too_few_bits_are_refused():
    with pytest.raises(ValueError, match="frac 5 is too small; give more than 5"):
        Exp2(frac=5)
    gc.collect()  # what was refused is never elaborated


def test_verilog():
    assert "module dut" in verilog_of(Exp2(frac=12))
