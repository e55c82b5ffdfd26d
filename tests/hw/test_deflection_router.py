"""Networks of deflection routers in every cycle against the rule in plain Python."""

import random

import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import connect
from bench import simulate, verilog_of
from deflection_model import DeflectionModel, Flit

from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.deflection_router import DeflectionRouter
from tokenpath.hw.flit import destination
from tokenpath.hw.link import Link
from tokenpath.hw.routers import make_router

EPOCH_BITS = 4
"""Far too few for the bound, so that there are old flits in every cycle."""


class Network(Elaboratable):
    """Routers and links."""

    def __init__(self, topology, epoch_bits):
        self.topology = topology
        self.sizes = [dim.size for dim in topology.dims]
        self.routers = [
            DeflectionRouter(dims=topology.dims, flit_words=1, epoch_bits=epoch_bits)
            for _ in range(topology.tiles)
        ]

    def elaborate(self, platform):
        m = Module()
        for tile, router in enumerate(self.routers):
            m.submodules[f"router{tile}"] = router
            m.d.comb += router.position.eq(destination(self.sizes, tile))
        for at in self.topology.links:
            m.submodules[f"link{at.index}"] = link = Link(
                latency=at.tier.latency_cycles, flit_words=1, vcs=1, lanes=1
            )
            connect(m, self.routers[at.src].output(at.src_port), link.i)
            connect(m, link.o, self.routers[at.dst].input(at.dst_port))
        return m


class Traffic:
    """Random flits into a network and its model, compared every cycle."""

    def __init__(self, text, seed):
        self.topology, self.rng = Topology.parse(text), random.Random(seed)
        self.dut = Network(self.topology, EPOCH_BITS)
        self.model = DeflectionModel(self.topology, bits=EPOCH_BITS)
        self.bits = sum((dim.size - 1).bit_length() for dim in self.topology.dims)
        self.names, self.delivered, self.waited, self.old = 0, [], 0, 0

    def pushes(self, cycle):
        rate, hot = [(1, 0.1), (0.2, 0), (1, 0.8), (0.6, 0.3)][cycle // 20 % 4]
        found = {}
        for tile in range(self.topology.tiles):
            self.waited += self.model.room(tile) == 0
            if self.model.room(tile) and self.rng.random() < rate:
                hot_one = self.rng.random() < hot
                to = self.topology.tiles - 1 if hot_one else self.rng.randrange(self.topology.tiles)
                found[tile] = Flit(self.names, to)
                self.names += 1
        return found

    def data(self, flit):
        packed = destination(self.dut.sizes, flit.to)
        return (packed | flit.name << self.bits) & 0xFFFFFFFF

    async def bench(self, ctx):
        for cycle in range(self.cycles):
            pushes = self.pushes(cycle) if cycle < 0.8 * self.cycles else {}
            for tile, router in enumerate(self.dut.routers):
                flit = pushes.get(tile)
                ctx.set(router.i0.valid, flit is not None)
                ctx.set(router.i0.flit.data[0], self.data(flit) if flit else 0)
                ctx.set(router.i0.flit.head, 1)
                ctx.set(router.i0.flit.tail, 1)
            self._look(ctx, *self.model.step(pushes))
            await ctx.tick()

    def _look(self, ctx, delivered, popped):
        model, leaving = self.model, {}
        for tile, router in enumerate(self.dut.routers):
            assert ctx.get(router.i0.credit) == (tile in popped), (model.now, tile)
            flit = delivered.get(tile)
            assert ctx.get(router.o0.valid) == (flit is not None), (model.now, tile)
            if flit:
                self.delivered.append(flit.name)
                assert ctx.get(router.o0.flit.data[0]) == self.data(flit)
                assert ctx.get(router.o0.flit.head) == ctx.get(router.o0.flit.tail) == 1
        for at in self.topology.links:
            if at.tier.latency_cycles == 1:
                lane = model.lane_at[at.dst_port]
                leaving[at.src, at.src_port] = model.lanes[at.dst][lane]
                self._link(ctx, at, model.lanes[at.dst][lane])
            else:
                when, lane = model.now - 1 + at.tier.latency_cycles, model.lane_at[at.dst_port]
                flits = [f for t, i, f in model.due[when] if (t, i) == (at.dst, lane)]
                self._link(ctx, at, flits[0] if flits else None)

    def _link(self, ctx, at, flit):
        channel = self.dut.routers[at.src].output(at.src_port)
        assert ctx.get(channel.valid) == (flit is not None), (self.model.now, at)
        if flit:
            assert ctx.get(channel.flit.data[0]) == self.data(flit), (self.model.now, at)
            assert ctx.get(channel.flit.vc) == self.model.epoch(flit)
            self.old += self.model.epoch(flit) != self.model.now >> self.model.bits & 1


@pytest.mark.parametrize(
    "text,cycles",
    [
        ("mesh:2x2", 250), ("mesh:3x3", 250), ("torus:3x3", 200), ("ring:5", 250), ("line:3", 250),
        ("torus:4x2", 200), ("mesh:3x2x2", 150), ("line:1", 60), ("line1,line4", 150),
        ("line3@package(latency=3,cpf=1),ring3", 200), ("line2@board(latency=7,cpf=1)", 150),
    ],
)  # fmt: skip
def test_every_cycle_is_the_rules(text, cycles):
    traffic = Traffic(text, seed=cycles)
    traffic.cycles = cycles
    simulate(traffic.dut, traffic.bench)
    traffic.delivered.sort()
    assert len(set(traffic.delivered)) == len(traffic.delivered) > cycles // 3
    assert len(traffic.delivered) + traffic.model.flits == traffic.names
    if traffic.topology.tiles > 5 and "@" not in text:
        assert traffic.old > 50 and traffic.waited > 50 and traffic.model.deflected > 50


@pytest.mark.parametrize("text", ["mesh:4x4", "torus:3x3", "line:1"])
def test_verilog(text):
    dims = Topology.parse(text).dims
    dut = make_router(dims=dims, flit_words=2, params=RouterParams(kind="deflection"))
    assert "module dut" in verilog_of(dut)
