"""The logistic function, against numeric.sigmoid."""

import random

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.arch.numeric import WORD_MAX, WORD_MIN
from tokenpath.hw.sigmoid import LATENCY, Sigmoid


def through(dut, inputs, outputs, rows, latency):
    """Outputs of a pipeline for one row of inputs a cycle, each exactly ``latency`` later."""
    results = []

    async def bench(ctx):
        for row in [*rows, *[rows[-1]] * latency]:
            for name, value in zip(inputs, row, strict=True):
                ctx.set(getattr(dut, name), value)
            results.append(tuple(ctx.get(getattr(dut, name)) for name in outputs))
            await ctx.tick()

    simulate(dut, bench)
    return results[latency:]


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
