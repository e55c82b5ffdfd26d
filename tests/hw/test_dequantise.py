"""Elements to words against numeric.dequantise."""

import random

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.dequantise import Dequantise


def unit(lanes, vlanes, k):
    return Dequantise(
        lanes=lanes, block=4, vlanes=vlanes, element_bits=8, scale_bits=8 + k, mantissa_bits=k,
        length_bits=10,
    )  # fmt: skip


@pytest.mark.parametrize(("lanes", "vlanes", "k"), [(8, 2, 3), (4, 4, 0), (8, 8, 7), (12, 4, 3)])
def test_words_come_two_cycles_later_and_without_a_gap(lanes, vlanes, k):
    dut, rng, groups = unit(lanes, vlanes, k), random.Random(lanes), lanes // vlanes
    expected = {}

    async def bench(ctx):
        ctx.set(dut.frac, frac := 12)
        t = 0
        for turn in range(8):
            elements = [rng.choice([-127, 127, 0, rng.randint(-128, 127)]) for _ in range(lanes)]
            scales = [
                (rng.choice([-64, -12, -3, 9, 30]) << k) | rng.randrange(1 << k)
                for _ in range(lanes // 4)
            ]
            left = rng.choice([1, lanes - 1, lanes, 900])
            words = [numeric.dequantise(e, scales[i // 4], k, frac) for i, e in enumerate(elements)]
            for g in range(groups):
                kept = words[g * vlanes : min((g + 1) * vlanes, left)]
                expected[t + 2 + g] = kept
            pause = 3 * (turn % 2)
            for g in range(groups + pause):
                ctx.set(dut.valid, g == 0)
                ctx.set(dut.left, left if g == 0 else 7)
                if g == 0:
                    ctx.set(dut.beat, {"elements": elements, "scales": scales})
                count = ctx.get(dut.count)
                got = [ctx.get(dut.words[i]) for i in range(count)]
                assert got == expected.get(t, [])
                await ctx.tick()
                t += 1

    simulate(dut, bench)
    words = {w for kept in expected.values() for w in kept}
    assert {0, numeric.WORD_MAX} <= words


def test_lanes_that_are_no_multiple_are_refused():
    with pytest.raises(ValueError, match="lanes 8 is not a multiple of vlanes 3"):
        unit(8, 3, 3)


def test_it_converts():
    assert "module dequantise" in verilog_of(unit(8, 4, 3), "dequantise")
