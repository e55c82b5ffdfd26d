"""The chain of multipliers, one input a cycle."""

import random

from bench import simulate, verilog_of
from vector_bench import sized

from tokenpath.hw.arch.numeric import ROPE_FRAC, saturate, shift_round
from tokenpath.hw.vector_chain import VectorChain

LANES = 2


def run(rotate, gain_shift, rows):
    """(products, scaled, result) of each row, taken 2, 3 and 5 cycles behind it."""
    dut, seen = VectorChain(vlanes=LANES), []

    async def testbench(ctx):
        ctx.set(dut.rotate, rotate)
        ctx.set(dut.gain_shift, gain_shift)
        for row in [*rows, *rows[-1:] * 5]:
            for port, words in zip((dut.words, dut.factors, dut.gains), row, strict=False):
                for lane, word in enumerate(words):
                    ctx.set(port[lane], word)
            ctx.set(dut.shift, row[3])
            outputs = (dut.products, dut.scaled, dut.result)
            seen.append([[ctx.get(o[lane]) for lane in range(LANES)] for o in outputs])
            await ctx.tick()

    simulate(dut, testbench)
    return [tuple(seen[t + late][i] for i, late in enumerate((2, 3, 5))) for t in range(len(rows))]


def test_it_scales_by_factors_then_by_gains():
    rng = random.Random(1)
    rows = [
        (sized(rng, LANES), sized(rng, LANES, 17, 0), sized(rng, LANES), rng.randint(-30, 63))
        for _ in range(300)
    ]
    for got, (words, factors, gains, shift) in zip(run(0, 16, rows), rows, strict=True):
        products = [w * f for w, f in zip(words, factors, strict=True)]
        scaled = [saturate(shift_round(p, shift)) for p in products]
        result = [saturate(shift_round(s * g, 16)) for s, g in zip(scaled, gains, strict=True)]
        assert got == (products, scaled, result)


def test_it_turns_pairs():
    rng = random.Random(2)
    rows = []
    for _ in range(200):
        cos, sin = (rng.randint(-(1 << 17), 1 << 17) for _ in range(2))
        rows.append((sized(rng, 2), [cos] * 2, [sin] * 2, 0))
    for (_, scaled, _), ((a, b), (cos, _), (sin, _), _) in zip(run(1, 0, rows), rows, strict=True):
        turned = (a * cos - b * sin, a * sin + b * cos)
        assert scaled == [saturate(shift_round(t, ROPE_FRAC)) for t in turned]


def test_verilog():
    assert "module dut" in verilog_of(VectorChain(vlanes=2))
