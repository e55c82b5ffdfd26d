"""An array's parts and its clock: what it is made of, when a step is done."""

import pytest
from amaranth.hdl import Fragment
from amaranth.sim import Simulator
from test_tile import SMALL

from tokenpath.hw.array import Array
from tokenpath.hw.clock import period
from tokenpath.hw.tile import Space

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")


def test_parts_follow_the_topology() -> None:
    array = Array(arch=SMALL.on("line2@die,switch2@board"), black_boxes=True)
    names = {name for _, name, _ in Fragment.get(array, None).subfragments}
    links = {f"link{i}" for i in range(4 + 8)}
    assert names == {"tile0", "tile1", "tile2", "tile3", "node4", "node5"} | links
    assert set(array.modules()) == {"tile", "switch1"}


def test_a_step_without_instructions_takes_no_cycles() -> None:
    """And the host reaches the tile that it names."""
    dut = Array(arch=SMALL.on("line:2"))
    found = []

    async def write(ctx, tile, value):
        ctx.set(dut.host_tile, tile)
        ctx.set(dut.host_data, value)
        ctx.set(dut.host_write, 1)
        await ctx.tick()
        ctx.set(dut.host_write, 0)

    async def bench(ctx):
        assert ctx.get(dut.done)
        ctx.set(dut.host_space, Space.VECTOR)
        ctx.set(dut.host_address, 5)
        await write(ctx, 0, 50)
        await write(ctx, 1, 51)
        for tile in range(2):
            ctx.set(dut.host_tile, tile)
            await ctx.tick()
            found.append(ctx.get(dut.host_word))
        ctx.set(dut.go, 1)
        await ctx.tick()
        ctx.set(dut.go, 0)
        assert not ctx.get(dut.done)
        await ctx.tick().until(dut.done)
        found.append(ctx.get(dut.cycles))

    simulator = Simulator(dut)
    simulator.add_clock(period())
    simulator.add_testbench(bench)
    simulator.run()
    assert found == [50, 51, 0]
