"""Routers and links alone: what enters at one tile leaves at another, and links can be watched."""

from dataclasses import replace

import pytest
from amaranth.hdl import Fragment
from amaranth.sim import Simulator
from test_tile import SMALL

from tokenpath.hw.clock import period
from tokenpath.hw.flit import destination
from tokenpath.hw.network import Network

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
TEXT = "line2@die(latency=3,cpf=1),switch2@board(latency=2,cpf=1)"


def test_nodes_and_links_follow_the_topology() -> None:
    network = Network(arch=SMALL.on(TEXT), black_boxes=True)
    names = {name for _, name, _ in Fragment.get(network, None).subfragments}
    assert names == {f"node{n}" for n in range(6)} | {f"link{n}" for n in range(4 + 8)}
    assert set(network.modules()) == {"router", "switch1"}
    alone = Network(arch=SMALL.on("line:1"))
    assert set(alone.signature.members) == {"i", "o"}, "no link, nothing to watch"


@pytest.mark.parametrize("router", ["vc2-d16-cut_through", "vc1-d16-bubble"])
def test_credits_of_routers_and_switches_are_for_whole_packets(router: str) -> None:
    arch = SMALL.on("ring3@die,switch2@board", router)
    found = Network(arch=arch, black_boxes=True).modules()
    assert set(found) == {"router", "switch1"}
    assert arch.packet_flits == 8
    for one in found.values():
        assert one.slots == tuple(depth // 8 for depth in one.depths)


def test_a_flit_takes_its_way_and_is_seen_on_its_links() -> None:
    arch = replace(SMALL.on(TEXT), flit_words=2)
    dut, seen = Network(arch=arch), []
    links = arch.topology.links

    async def source(ctx):
        flit = dut.i[0].flit
        ctx.set(flit.data[0], destination([2, 2], 3))
        ctx.set(flit.data[1], 77)
        ctx.set(flit.head, 1)
        ctx.set(flit.tail, 1)
        ctx.set(dut.i[0].valid, 1)
        await ctx.tick()
        ctx.set(dut.i[0].valid, 0)

    async def watch(ctx):
        for cycle in range(16):
            for link in links:
                if ctx.get(dut.sent[link.index].valid):
                    seen.append((cycle, link.src, link.dst))
                assert ctx.get(dut.lanes[link.index]) == 1
                if ctx.get(dut.returned[link.index]):
                    seen.append((cycle, "credit", link.src))
            for tile in range(4):
                if ctx.get(dut.o[tile].valid):
                    seen.append((cycle, tile, ctx.get(dut.o[tile].flit.data[1])))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(period())
    simulator.add_testbench(source)
    simulator.add_testbench(watch)
    simulator.run()
    switch = 5
    assert seen == [
        (1, 0, 1), (4, 1, switch), (6, "credit", 0), (6, switch, 3), (7, "credit", 1),
        (8, 3, 77), (9, "credit", switch),
    ]  # fmt: skip
