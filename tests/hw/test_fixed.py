"""The helpers of hw/fixed.py against the functions of hw/arch/numeric.py."""

import random

import pytest
from amaranth.hdl import Elaboratable, Module, Signal, signed
from amaranth.sim import Simulator

from tokenpath.hw import fixed
from tokenpath.hw.arch import numeric
from tokenpath.hw.arch.numeric import WORD_MAX, WORD_MIN


class Logic(Elaboratable):
    """Combinational logic between signals, as a module."""

    def __init__(self, build, *inputs):
        self.inputs, self.module = inputs, Module()
        self.outputs = build(self.module, *inputs)

    def elaborate(self, platform):
        return self.module


def evaluate(build, inputs, rows):
    """The outputs of ``build(module, *inputs)`` for each row of values."""
    logic, results = Logic(build, *inputs), []

    async def bench(ctx):
        for row in rows:
            for signal, value in zip(inputs, row, strict=True):
                ctx.set(signal, value)
            outputs = logic.outputs if isinstance(logic.outputs, tuple) else (logic.outputs,)
            results.append(tuple(ctx.get(output) for output in outputs))

    simulator = Simulator(logic)
    simulator.add_testbench(bench)
    simulator.run()
    return results


def drawn(bits, count, seed):
    """Signed numbers of all magnitudes, the extremes first."""
    random.seed(seed)
    top = 1 << (bits - 1)
    corners = [0, 1, -1, top - 1, -top, top // 2, -top // 2]
    sizes = [random.randint(1, bits - 1) for _ in range(count)]
    return corners + [random.getrandbits(s) * random.choice((1, -1)) for s in sizes]


def test_a_constant_shift_rounds_half_up():
    for shift in (0, 1, 5):
        values = range(-256, 256)
        got = evaluate(
            lambda m, v, by=shift: fixed.shift_round(m, v, by),
            [Signal(signed(9))],
            [(v,) for v in values],
        )
        assert [g for (g,) in got] == [numeric.shift_round(v, shift) for v in values]


def test_an_unsigned_value_stays_positive():
    got = evaluate(lambda m, v: fixed.shift_round(m, v, 2), [Signal(4)], [(v,) for v in range(16)])
    assert [g for (g,) in got] == [numeric.shift_round(v, 2) for v in range(16)]


def test_a_variable_shift_goes_both_ways_and_saturates_to_a_word():
    rows = [(v, s) for v in drawn(50, 40, 1) for s in (-30, -29, -7, -1, 0, 1, 2, 16, 33, 50, 63)]
    got = evaluate(
        lambda m, v, s: fixed.saturate(m, fixed.shift_round(m, v, s, left=30)),
        [Signal(signed(50)), Signal(signed(8))],
        rows,
    )
    wanted = [numeric.saturate(numeric.shift_round(v, s)) for v, s in rows]
    assert [g for (g,) in got] == wanted
    assert {WORD_MAX, WORD_MIN, 0, 1, -1} <= set(wanted)


def test_saturate_of_wide_narrow_and_unsigned_values():
    for shape, values in ((signed(40), drawn(40, 50, 2)), (signed(6), range(-32, 32))):
        got = evaluate(lambda m, v: fixed.saturate(m, v), [Signal(shape)], [(v,) for v in values])
        assert [g for (g,) in got] == [numeric.saturate(v) for v in values]
    got = evaluate(lambda m, v: fixed.saturate(m, v, 4), [Signal(4)], [(v,) for v in range(16)])
    assert [g for (g,) in got] == [min(v, 7) for v in range(16)]


def test_clamp_to_bounds_that_move():
    rows = [(v, limit) for v in range(-64, 64, 3) for limit in (0, 1, 7, 31)]
    got = evaluate(
        lambda m, v, limit: fixed.clamp(m, v, -limit, limit), [Signal(signed(7)), Signal(5)], rows
    )
    assert [g for (g,) in got] == [numeric.clamp_term(v, limit) for v, limit in rows]


def test_magnitude_and_rails():
    values = drawn(32, 30, 3)
    got = evaluate(
        lambda m, v: (fixed.magnitude(m, v), fixed.wire(m, fixed.at_rail(v), "railed")),
        [Signal(signed(32))],
        [(v,) for v in values],
    )
    assert got == [(abs(v), v in (WORD_MAX, WORD_MIN)) for v in values]


@pytest.mark.parametrize("bits", [1, 2, 5, 8, 32, 63])
def test_normalise_moves_the_leading_one_to_the_top(bits):
    random.seed(bits)
    values = {1, (1 << bits) - 1} | {
        random.getrandbits(s) | 1 << (s - 1) for s in range(1, bits + 1)
    }
    width = 1 << (bits - 1).bit_length()
    got = evaluate(fixed.normalise, [Signal(bits)], [(v,) for v in values])
    wanted = [(v << (width - v.bit_length()), numeric.bit_length(v)) for v in values]
    assert got == wanted


def test_delay_by_cycles():
    value = Signal(4)
    logic = Logic(lambda m, v: (fixed.delay(m, v, 0, "now"), fixed.delay(m, v, 3, "late")), value)
    seen = []

    async def bench(ctx):
        for cycle in range(1, 8):
            ctx.set(value, cycle)
            seen.append(tuple(ctx.get(output) for output in logic.outputs))
            await ctx.tick()

    simulator = Simulator(logic)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert seen == [(1, 0), (2, 0), (3, 0), (4, 1), (5, 2), (6, 3), (7, 4)]
