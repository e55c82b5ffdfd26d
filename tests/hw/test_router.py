import random
from itertools import pairwise

import pytest
from amaranth.hdl import Fragment
from bench import RouterModel, simulate, verilog_of

from tokenpath.hw.arch.dims import Dim
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.flit import destination
from tokenpath.hw.route import Ports, Route
from tokenpath.hw.router import Router
from tokenpath.hw.routers import make_router

TOPOLOGIES = [
    "line:5", "ring:2", "ring:3", "ring:6", "ring:18", "ring:19", "torus:3x4", "flat:5", "flat:18",
    "flat:2x3", "mesh:4x3", "switch:4", "line3@die,full3@package,switch4@board",
    "switch3@die,ring4@rack", "line:1", "line1,ring4",
]  # fmt: skip


def sizes(topology):
    return [dim.size for dim in topology.dims]


def paths(topology):
    """(node, input port, output port, vc, destination) wherever a packet passes."""
    for src in range(topology.tiles):
        for to in range(topology.tiles):
            port, node = 0, src
            while True:
                out, vc = topology.next_hop(node, to)
                yield node, port, out, vc, to
                if node == to:
                    break
                node, port = topology.neighbour(node, out)


def hub_of(topology, node):
    return None if node < topology.tiles else topology.switch_of(node)[0]


@pytest.mark.parametrize("text", TOPOLOGIES)
def test_routes_are_the_topologys(text):
    topology = Topology.parse(text)
    cases = {}
    for node, port, out, vc, to in paths(topology):
        cases.setdefault((hub_of(topology, node), port), set()).add((node, to, out, vc))
    for (hub, port), wanted in cases.items():
        ports = Ports(dims=topology.dims, hub=hub)
        dut = Route(ports=ports, port=port)

        async def bench(ctx, dut=dut, ports=ports, port=port, hub=hub, wanted=wanted):
            for node, to, out, vc in sorted(wanted)[:: 1 + len(wanted) // 400]:
                if hub is None:
                    ctx.set(dut.position, destination(sizes(topology), node))
                ctx.set(dut.destination, destination(sizes(topology), to))
                assert (ports.turns(port)[ctx.get(dut.turn)], ctx.get(dut.vc)) == (out, vc)

        simulate(dut, bench)


@pytest.mark.parametrize("text", ["mesh:4x4", "torus:5x5", "flat:3x3", "switch3@die,ring5@rack"])
def test_no_turn_is_missing_and_none_is_there_for_nothing(text):
    topology = Topology.parse(text)
    used = {}
    for node, port, out, _, _ in paths(topology):
        used.setdefault((hub_of(topology, node), port), set()).add(out)
    for (hub, port), outs in used.items():
        turns = Ports(dims=topology.dims, hub=hub).turns(port)
        assert set(turns) - outs <= ({port} if hub is not None else set())
        assert outs <= set(turns)


LONGEST = 5
"""Flits of the longest packet of the traffic."""


class Traffic:
    """Random packets into one router, as its neighbours would send them, compared every cycle."""

    def __init__(self, topology, node, params, seed):
        self.rng, self.topology = random.Random(seed), topology
        self.params = params
        hub = hub_of(topology, node)
        self.dut = make_router(
            dims=topology.dims, flit_words=2, params=params, hub=hub, packet_flits=LONGEST
        )
        ports = self.ports = self.dut.ports
        self.local, self.node = hub is None, node
        self.inputs = {p: ports.lanes(p) for p in ports.inputs}
        self.packed = {destination(sizes(topology), t): t for t in range(topology.tiles)}
        self.bits = (1 << len(self.dut.position)) - 1
        self.model = self._model()
        self.arrivals = self._arrivals()  # (input, lane): destinations that may arrive there
        slots = [params.slots(depth, LONGEST) for depth in self.dut.depths]
        self.slots = {(p, v): slots[p] for p, n in self.inputs.items() for v in range(n)}
        self.packets = {}
        self.owed = []
        self.late = params.extra_cycles
        self.leaving = {}
        self.moved = self.full = self.blocked = 0

    def _model(self):
        def next_hop(data):
            port, vc = self.topology.next_hop(self.node, self.packed[data & self.bits])
            return port, [vc]

        ports = self.ports
        return RouterModel(
            inputs=self.inputs, outputs={p: ports.lanes(p) for p in ports.outputs},
            depths=self.dut.depths, cycles=self.dut.cycles, local=self.local,
            next_hop=next_hop, ports=self.topology.ports(self.node),
        )  # fmt: skip

    def _arrivals(self):
        found = {}
        for src in range(self.topology.tiles):
            for to in range(self.topology.tiles):
                if src == self.node:
                    found.setdefault((0, 0), set()).add(to)
                for a, out, vc in self.topology.path(src, to):
                    there, port = self.topology.neighbour(a, out)
                    if there == self.node:
                        found.setdefault((port, vc), set()).add(to)
        return found

    def sends(self, load):
        """At most one flit an input, in order, packets of a lane not mixed, with a credit for
        each or, at its head, for the packet."""
        for port, lanes in self.inputs.items():
            lane = self.rng.randrange(lanes)
            to = self.arrivals.get((port, lane))
            packet = self.packets.get((port, lane))
            free = bool(packet) and self.params.whole_packets
            if not to or not (free or self.slots[port, lane]) or self.rng.random() > load:
                continue
            if not packet:
                packet = self._packet(sorted(to))
                self.packets[port, lane] = packet
            self.slots[port, lane] -= not free
            yield port, lane, packet.pop(0)

    def _packet(self, to):
        rng = self.rng
        count = rng.choice([1, 1, 2, LONGEST])
        head = destination(sizes(self.topology), rng.choice(to))
        words = [rng.getrandbits(64) for _ in range(count)]
        words[0] = words[0] & ~self.bits | head
        return [(word, k == 0, k == count - 1) for k, word in enumerate(words)]

    def credits(self, eager):
        """Some of the flits that left are taken from the next buffer."""
        back = {}
        for each in self.owed:
            if each[0] not in {p for p, _ in back} and self.rng.random() < eager:
                back[each] = True
        for each in back:
            self.owed.remove(each)
        return list(back)

    async def bench(self, ctx):
        if self.local:
            ctx.set(self.dut.position, destination(sizes(self.topology), self.node))
        for cycle in range(self.cycles):
            load, eager = [(0.4, 0.5), (1, 1), (0.9, 0.2), (0.2, 1)][cycle // 40 % 4]
            pushes, back = list(self.sends(load)), self.credits(eager)
            self._drive(ctx, pushes, back)
            granted = self.model.decide()
            self._compare(ctx, granted)
            self.full += any(n == 0 for n in self.slots.values())
            self.blocked += sum(map(len, self.model.queues.values())) > len(granted)
            for o, (w, p, v, flit) in granted.items():
                if self.params.whole_packets and not flit[2]:
                    continue
                self.slots[p, v] += 1
                if not (self.local and o == 0):
                    self.owed.append((o, w))
            self.model.advance(granted, pushes, back)
            self.moved += len(granted)
            await ctx.tick()

    def _drive(self, ctx, pushes, back):
        for port in self.ports.inputs:
            ctx.set(self.dut.input(port).valid, 0)
        for port, lane, (data, head, tail) in pushes:
            channel = self.dut.input(port)
            ctx.set(channel.valid, 1)
            ctx.set(channel.flit.data.as_value(), data)
            for name, value in (("head", head), ("tail", tail), ("vc", lane)):
                ctx.set(getattr(channel.flit, name), value)
        for port in self.ports.outputs:
            if port:
                bits = sum(1 << v for p, v in back if p == port)
                ctx.set(self.dut.output(port).credit, bits)

    def _compare(self, ctx, granted):
        whole = self.params.whole_packets
        given = {p: 1 << v for _, p, v, flit in granted.values() if flit[2] or not whole}
        for port in self.ports.inputs:
            assert ctx.get(self.dut.input(port).credit) == given.get(port, 0)
        if self.late:
            granted, self.leaving = self.leaving, granted
        for o, (w, _, _, (data, head, tail)) in granted.items():
            channel = self.dut.output(o)
            assert ctx.get(channel.valid), (self.model.now, o)
            assert ctx.get(channel.flit.data.as_value()) == data
            assert (ctx.get(channel.flit.head), ctx.get(channel.flit.tail)) == (head, tail)
            assert ctx.get(channel.flit.vc) == w
        for port in self.ports.outputs:
            assert ctx.get(self.dut.output(port).valid) == (port in granted), (self.model.now, port)


SLOW_SWITCH = "line3@die,switch3@board(latency=3,cpf=2)"
SLOW_RING = "line2@package(latency=4,cpf=3),ring3@die"


@pytest.mark.parametrize(
    "text,node,depth",
    [
        ("mesh:3x3", 4, 1), ("mesh:3x3", 4, 2), ("mesh:3x3", 0, 3), ("mesh:2x2", 3, 4),
        ("line:3", 1, 1), ("line:1", 0, 2), ("ring:3", 1, 1), ("ring:5", 4, 2),
        ("torus:5x5", 24, 2), ("torus:5x5", 12, 2), ("ring:8", 6, 1), ("ring:8", 3, 4),
        ("flat:5", 3, 2), ("switch:4", 4, 2), ("switch:4", 1, 1), (SLOW_SWITCH, 10, 1),
        (SLOW_SWITCH, 4, 2), (SLOW_RING, 3, 2),
    ],
)  # fmt: skip
def test_every_cycle_is_the_models(text, node, depth):
    traffic = Traffic(Topology.parse(text), node, RouterParams(depth=depth), seed=depth)
    traffic.cycles = 400
    simulate(traffic.dut, traffic.bench)
    assert traffic.moved > 100
    assert traffic.full > 20 and (text == "line:1" or traffic.blocked > 20)


def test_a_router_of_another_shape():
    dims = (Dim.parse("line4"), Dim.parse("line4"))
    router = Router(dims=dims, flit_words=1, depths=[1, 2, 3, 4, 5], cycles=[1, 1, 2, 1, 1])
    Fragment.get(router, None)
    assert [len(router.ports.turns(port)) for port in router.ports.inputs] == [5, 4, 4, 2, 2]
    assert all(a <= b for a, b in pairwise(router.ports.inputs))


@pytest.mark.parametrize("text", ["mesh:4x4", "torus:3x3", "switch:4", "line:1"])
def test_verilog(text):
    topology = Topology.parse(text)
    params = RouterParams(depth=4)
    hub = 0 if text.startswith("switch") else None
    dut = make_router(dims=topology.dims, flit_words=2, params=params, hub=hub)
    assert "module dut" in verilog_of(dut)
