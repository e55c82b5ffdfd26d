import random

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.link import Link


@pytest.mark.parametrize("latency", [1, 2, 3, 6, 9])
def test_flits_and_credits_are_late_by_the_latency_less_one(latency):
    dut, rng = Link(latency=latency, flit_words=1, vcs=2, lanes=2), random.Random(latency)

    async def bench(ctx):
        flits, credits = [], []
        for t in range(60):
            flits.append((rng.random() < 0.5, rng.getrandbits(len(dut.i.flit.as_value()))))
            credits.append(rng.getrandbits(2))
            ctx.set(dut.i.valid, flits[t][0])
            ctx.set(dut.i.flit.as_value(), flits[t][1])
            ctx.set(dut.o.credit, credits[t])
            then = t - (latency - 1)
            valid, flit = flits[then] if then >= 0 else (False, 0)
            assert ctx.get(dut.o.valid) == valid
            if valid:
                assert ctx.get(dut.o.flit.as_value()) == flit
            assert ctx.get(dut.i.credit) == (credits[then] if then >= 0 else 0)
            await ctx.tick()

    simulate(dut, bench)


@pytest.mark.parametrize("latency", [1, 3, 9])
def test_verilog(latency):
    assert "module dut" in verilog_of(Link(latency=latency, flit_words=2, vcs=1, lanes=1))
