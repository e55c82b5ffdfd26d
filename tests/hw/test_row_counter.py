"""Rows and beats without a division."""

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.row_counter import RowCounter


@pytest.mark.parametrize("lanes", [4, 12])
def test_the_place_of_each_beat(lanes):
    dut = RowCounter(lanes=lanes, length_bits=8, index_bits=3)

    async def bench(ctx):
        for n, m in [(1, 1), (3, lanes), (2, 2 * lanes + 1), (2, 5 * lanes), (0, 3), (3, 0)]:
            ctx.set(dut.n, n)
            ctx.set(dut.m, m)
            ctx.set(dut.load, 1)
            assert ctx.get(dut.empty) == (n * m == 0)
            await ctx.tick()
            ctx.set(dut.load, 0)
            beats = -(-m // lanes)
            for row in range(n if m else 0):
                for beat in range(beats):
                    ctx.set(dut.take, 0)
                    await ctx.tick()
                    last = beat == beats - 1
                    names = ("first", "last", "first_row", "end", "index", "left")
                    expected = [beat == 0, last, row == 0, last and row == n - 1, beat]
                    got = [ctx.get(getattr(dut, name)) for name in names]
                    assert got == [*expected, m - beat * lanes]
                    ctx.set(dut.take, 1)
                    await ctx.tick()
            ctx.set(dut.take, 0)

    simulate(dut, bench)


def test_it_converts():
    dut = RowCounter(lanes=4, length_bits=8, index_bits=3)
    assert "module row_counter" in verilog_of(dut, "row_counter")
