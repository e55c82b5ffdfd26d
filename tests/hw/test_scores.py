"""Score memory and the running maximum."""

import random

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.scores import Scores


@pytest.mark.parametrize("centre", [0, -(2**31) + 2**21, 2**31 - 2**21])
def test_scores_are_kept_and_their_ceilings_maximum_runs(centre):
    dut, rng = Scores(rows=16, score_frac=8), random.Random(centre)
    scores = [centre + rng.choice([0, 255, 256, rng.randint(-(2**20), 2**20)]) for _ in range(11)]

    async def bench(ctx):
        for turn in range(2):
            ctx.set(dut.clear, 1)
            await ctx.tick()
            ctx.set(dut.clear, 0)
            assert ctx.get(dut.maximum) == numeric.NO_ROWS
            for row, score in enumerate(scores[turn:]):
                ctx.set(dut.write_enable, 1)
                ctx.set(dut.write_row, row)
                ctx.set(dut.score, score)
                await ctx.tick()
                best = max(numeric.ceil_score(s, 8) for s in scores[turn : turn + row + 1])
                assert ctx.get(dut.maximum) == best
            ctx.set(dut.write_enable, 0)
        for row, score in enumerate(scores[1:]):
            ctx.set(dut.read_enable, 1)
            ctx.set(dut.read_row, row)
            await ctx.tick()
            ctx.set(dut.read_enable, 0)
            ctx.set(dut.read_row, 0)
            await ctx.tick()
            assert ctx.get(dut.read_score) == score

    simulate(dut, bench)


def test_it_converts():
    assert "module scores" in verilog_of(Scores(rows=16, score_frac=8), "scores")
