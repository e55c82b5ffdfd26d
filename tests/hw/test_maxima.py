"""Maxima of queries arrive in time for the first weight."""

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.maxima import Maxima


@pytest.mark.parametrize(("queries", "vlanes"), [(1, 2), (3, 2), (4, 4), (12, 2)])
def test_each_query_has_its_word_three_cycles_and_its_passes_behind_the_start(queries, vlanes):
    dut = Maxima(queries=queries, vlanes=vlanes, address_bits=8)

    async def bench(ctx):
        ctx.set(dut.src, 200)
        for t in range(3 + queries):
            ctx.set(dut.start, t == 0)
            for i in range(queries):
                if t >= 3 + i // vlanes:
                    assert ctx.get(dut.maxima[i]) == 1000 + 200 + i
            address = ctx.get(dut.read.address)
            await ctx.tick()
            ctx.set(dut.src, 7)
            ctx.set(dut.read.data, [1000 + address + i for i in range(vlanes)])

    simulate(dut, bench)


def test_it_converts():
    dut = Maxima(queries=3, vlanes=2, address_bits=8)
    assert "module maxima" in verilog_of(dut, "maxima")
