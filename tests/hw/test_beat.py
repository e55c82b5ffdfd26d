"""Layout of a beat and the parts of a scale code."""

import pytest
from amaranth.hdl import Const, Module, Signal, signed
from bench import simulate

from tokenpath.hw.arch import numeric
from tokenpath.hw.beat import at_most, beat_layout, scale_exponent, scale_mantissa, tree_sum


def test_a_beat_has_all_elements_and_a_scale_a_block():
    layout = beat_layout(lanes=8, block=4, element_bits=8, scale_bits=11)
    assert layout.size == 8 * 8 + 2 * 11


def test_lanes_are_whole_blocks():
    with pytest.raises(ValueError, match="lanes 6 is not a multiple of the block of 4 elements"):
        beat_layout(lanes=6, block=4, element_bits=8, scale_bits=11)


def test_parts_of_scale_codes_and_sums():
    values = {k: (Signal(signed(11)), Signal(8), Signal(signed(11))) for k in (0, 3, 7)}
    total, least = Signal(signed(8)), Signal(4)
    m = Module()
    for k, (code, mantissa, exponent) in values.items():
        m.d.comb += [
            mantissa.eq(scale_mantissa(code, k)),
            exponent.eq(scale_exponent(code, k)),
        ]
    numbers = [Const(n, signed(4)) for n in (-8, 7, -8, -8, 3)]
    m.d.comb += [total.eq(tree_sum(numbers)), least.eq(at_most(values[0][1], 1))]

    async def bench(ctx):
        for code in (-1024, -512, -1, 0, 5, 1023):
            for k, (signal, mantissa, exponent) in values.items():
                ctx.set(signal, code)
                assert ctx.get(mantissa) == numeric.scale_mantissa(code, k)
                assert ctx.get(exponent) == numeric.scale_exponent(code, k)
        assert (ctx.get(total), ctx.get(least)) == (-14, 1)

    simulate(m, bench)
