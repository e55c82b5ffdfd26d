"""Weights of AXPY against numeric.py."""

import random

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.weights import Weights


@pytest.mark.parametrize(("bits", "frac"), [(4, 8), (8, 12), (16, 12), (16, 20)])
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_weights_and_their_sum(bits, frac, stall):
    dut, rng = Weights(bits=bits, score_frac=frac, shift_bits=12), random.Random(bits + frac)
    maximum, sum_frac = rng.choice([-7, 12]), 14
    limit = numeric.term_limit(14)
    top = 1 << frac
    scores = [(maximum << frac) + rng.randint(-20 * top, 3 * top) for _ in range(40)]
    scores += [(maximum << frac) - 1, maximum << frac, -(2**31), 2**31 - 1]

    async def bench(ctx):
        ctx.set(dut.maximum, maximum)
        ctx.set(dut.sum_frac, sum_frac)
        ctx.set(dut.limit, limit)
        moved, total, clamped, seen = 0, 0, 0, 0
        while moved < len(scores) + Weights.STAGES:
            advance = rng.random() >= stall
            ctx.set(dut.advance, advance)
            ctx.set(dut.score, scores[min(moved, len(scores) - 1)])
            ctx.set(dut.add, advance and moved >= Weights.STAGES)
            if moved >= Weights.STAGES:
                score = scores[moved - Weights.STAGES] - (maximum << frac)
                mantissa = numeric.weight_mantissa(score, frac, bits)
                shift = bits - 1 - (score >> frac)
                assert ctx.get(dut.mantissa) == mantissa
                assert ctx.get(dut.shift) == max(-2048, min(2047, shift))
                if advance:
                    term = numeric.shift_round(mantissa, shift - sum_frac)
                    kept = numeric.clamp_term(term, limit)
                    total, clamped = total + kept, clamped + (kept != term)
            seen += ctx.get(dut.clamped)
            moved += advance
            await ctx.tick()
        ctx.set(dut.add, 0)
        for _ in range(3):
            seen += ctx.get(dut.clamped)
            await ctx.tick()
        assert (ctx.get(dut.sum), seen) == (numeric.wrap(total), clamped)
        assert clamped
        ctx.set(dut.clear, 1)
        await ctx.tick()
        assert ctx.get(dut.sum) == 0

    simulate(dut, bench)


def test_it_converts():
    assert "module weights" in verilog_of(Weights(bits=8, score_frac=12, shift_bits=12), "weights")
