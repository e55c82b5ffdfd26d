"""Shift, round and clamp against numeric.py."""

import random

import pytest
from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from bench import simulate, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.scale import LEFT, Scale, places, places_bits


def expected(value, down, limit):
    term = numeric.shift_round(value, down)
    kept = numeric.clamp_term(term, limit)
    return kept, kept != term


def cases(width, count):
    """Values and shifts of which many round, clamp or vanish."""
    rng, top = random.Random(width), (1 << (width - 1)) - 1
    for _ in range(count):
        size = rng.randint(0, width - 1)
        value = rng.choice([-top - 1, top, 0, 1, -1, rng.randint(-(1 << size), (1 << size) - 1)])
        down = rng.choice([rng.randint(-33, width + 3), size - 1, size, 62, 63, 500, -500])
        yield max(-top - 1, value), down, numeric.term_limit(rng.choice([0, 1, 8, 20, 31]))


class Wired(wiring.Component):
    """A Scale behind :func:`places`."""

    def __init__(self, width):
        self.scale, self.width = Scale(count=1, groups=1, width=width), width
        super().__init__({"value": In(signed(width)), "down": In(signed(11)), "limit": In(31)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.scale = self.scale
        m.d.comb += [
            self.scale.values[0].eq(self.value),
            self.scale.places[0].eq(places(self.down, self.width)),
            self.scale.limit.eq(self.limit),
        ]
        return m


@pytest.mark.parametrize("width", [2, 9, 33, 46, 62])
def test_terms_are_those_of_numeric_two_cycles_later(width):
    dut = Wired(width)

    async def bench(ctx):
        waiting = []
        for value, down, limit in cases(width, 150):
            ctx.set(dut.value, value)
            ctx.set(dut.down, down)
            ctx.set(dut.limit, limit)
            await ctx.tick().repeat(2)
            waiting.append(expected(value, down, limit))
            got = ctx.get(dut.scale.terms[0]), bool(ctx.get(dut.scale.clamped))
            assert got == waiting[-1], (value, down, limit)

    simulate(dut, bench)


def test_a_set_of_values_a_cycle_each_group_with_its_shift():
    dut = Scale(count=4, groups=2, width=12)
    rng = random.Random(1)
    sets = [
        ([rng.randint(-2048, 2047) for _ in range(4)], [rng.randint(-3, 9), 2]) for _ in range(9)
    ]

    async def bench(ctx):
        ctx.set(dut.limit, 1000)
        for t in range(len(sets) + 2):
            values, downs = sets[min(t, len(sets) - 1)]
            ctx.set(dut.values, values)
            ctx.set(dut.places, [down + LEFT for down in downs])
            if t >= 2:
                values, downs = sets[t - 2]
                for i, value in enumerate(values):
                    term, clamped = expected(value, downs[i // 2], 1000)
                    assert ctx.get(dut.terms[i]) == term
                    assert bool(ctx.get(dut.clamped) >> i & 1) == clamped
            await ctx.tick()

    simulate(dut, bench)


def test_a_value_that_is_too_wide_is_refused():
    with pytest.raises(ValueError, match="width 63 of a value is too large"):
        Scale(count=1, groups=1, width=63)


def test_it_converts():
    assert places_bits(62) == 7
    assert "module scale" in verilog_of(Scale(count=2, groups=1, width=20), "scale")
