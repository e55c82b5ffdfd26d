"""1/sqrt(x), against numeric.rsqrt."""

import random

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.rsqrt import Rsqrt


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


def values(width):
    """Every value up to 2**11, then ends and random points of each power of two."""
    random.seed(width)
    found = list(range(1, min(1 << width, 1 << 11)))
    for bits in range(11, width):
        found += [
            1 << bits,
            (2 << bits) - 1,
            *(random.randrange(1 << bits, 2 << bits) for _ in range(40)),
        ]
    return found


@pytest.mark.parametrize("width", [6, 32, 63])
def test_small_values_and_samples_of_all_sizes(width):
    rows = [(value,) for value in values(width)]
    got = through(Rsqrt(width=width), ["value"], ["mantissa", "half"], rows, 3)
    assert got == [(numeric.rsqrt(v), (numeric.bit_length(v) - 1) >> 1) for (v,) in rows]


def test_verilog():
    assert "module dut" in verilog_of(Rsqrt(width=63))
