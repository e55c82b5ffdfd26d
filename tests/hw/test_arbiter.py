import random

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.arbiter import Arbiter


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_first_request_from_the_pointer_on(count):
    dut, rng = Arbiter(count=count), random.Random(count)

    async def bench(ctx):
        pointer = 0
        for _ in range(400):
            requests, advance = rng.getrandbits(count), rng.random() < 0.7
            ctx.set(dut.requests, requests)
            ctx.set(dut.advance, advance)
            order = [(pointer + k) % count for k in range(count)]
            winner = next((i for i in order if requests >> i & 1), None)
            assert ctx.get(dut.valid) == (winner is not None)
            assert ctx.get(dut.grant) == (0 if winner is None else 1 << winner)
            if winner is not None:
                assert ctx.get(dut.index) == winner
                pointer = (winner + 1) % count if advance else pointer
            await ctx.tick()

    simulate(dut, bench)


def test_a_steady_request_waits_at_most_for_all_others():
    dut, rng = Arbiter(count=5), random.Random(1)

    async def bench(ctx):
        ctx.set(dut.advance, 1)
        waited = 0
        for _ in range(200):
            ctx.set(dut.requests, rng.getrandbits(5) | 4)
            waited = 0 if ctx.get(dut.index) == 2 else waited + 1
            assert waited < 5
            await ctx.tick()

    simulate(dut, bench)


def test_verilog():
    assert "module dut" in verilog_of(Arbiter(count=5))
