"""The logistic function, against numeric.sigmoid."""

import random

import pytest
from bench import through, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.arch.numeric import WORD_MAX, WORD_MIN
from tokenpath.hw.sigmoid import LATENCY, Sigmoid


@pytest.mark.parametrize("frac", [6, 8, 16, 20, 22])
def test_words_around_zero_and_of_all_sizes(frac):
    random.seed(frac)
    words = [WORD_MAX, WORD_MIN, *range(-600, 600)]
    words += [
        random.getrandbits(random.randint(1, 31)) * random.choice((1, -1)) for _ in range(600)
    ]
    words += [random.randint(-12 << frac, 12 << frac) for _ in range(600)]
    got = through(Sigmoid(), ["word", "frac"], ["value"], [(w, frac) for w in words], LATENCY)
    assert [g for (g,) in got] == [numeric.sigmoid(w, frac) for w in words]
    assert {0, 1 << 16} <= {g for (g,) in got}


def test_verilog():
    assert "module dut" in verilog_of(Sigmoid())
