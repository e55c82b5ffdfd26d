"""The queue that keeps weights ahead of beats."""

import random

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.weight_queue import WeightQueue


def queue(stages=4):
    return WeightQueue(stages=stages, length_bits=6, row_bits=5)


@pytest.mark.parametrize("idle", [0.0, 0.6])
@pytest.mark.parametrize("stages", [1, 4])
def test_each_row_once_in_order_and_one_a_cycle(stages, idle):
    dut, rng = queue(stages), random.Random(stages)

    async def bench(ctx):
        for rows in (0, 1, 3, 12):
            ctx.set(dut.start, 1)
            ctx.set(dut.n, rows)
            ctx.set(dut.first_row, 7)
            await ctx.tick()
            ctx.set(dut.start, 0)
            ctx.set(dut.go, 0)
            await ctx.tick().repeat(3)
            assert not ctx.get(dut.ready)
            ctx.set(dut.go, 1)
            line, used, t = [None] * (stages + 1), 0, 0
            while used < rows:
                ready = line[-1] is not None
                assert ctx.get(dut.ready) == ready == (t > stages if not used else ready)
                use = ready and rng.random() >= idle
                ctx.set(dut.used, use)
                if use:
                    assert line[-1] == 7 + used
                    used += 1
                assert ctx.get(dut.advance) == (not ready or use)
                if ctx.get(dut.advance):
                    line = [ctx.get(dut.row), *line[:-1]]
                    if line[0] >= 7 + rows:
                        line[0] = None
                await ctx.tick()
                t += 1
            ctx.set(dut.used, 0)
            assert idle or t <= (stages + 1 + rows if rows else 0)
            await ctx.tick().repeat(stages + 2)
            assert not ctx.get(dut.ready)

    simulate(dut, bench)


def test_it_converts():
    assert "module weight_queue" in verilog_of(queue(), "weight_queue")
