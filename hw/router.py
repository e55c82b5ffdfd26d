"""Wormhole router: a cycle a hop, credits, round robin, one queue for each virtual channel."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tokenpath.hw.arbiter import Arbiter, choose
from tokenpath.hw.arch.dims import Dim
from tokenpath.hw.arch.params import RouterParams
from tokenpath.hw.credits import Credits
from tokenpath.hw.fifo import InputBuffer
from tokenpath.hw.flit import channel, coordinate_bits, flits, vc_bits
from tokenpath.hw.route import Ports, Route


class Router(wiring.Component):
    """The router of every tile of a product of ``dims``; with ``hub``, that dimension's switch.

    Members: ``position``, the packed coordinates of the tile (constant; a switch ignores it);
    ``i0``, ``i1`` ... and ``o0``, ``o1`` ..., its channels by port number, port 0 the local one
    (a switch has none, and ``o0`` has no credits: the sink is always ready). A port without a
    link, at a line's end, is left alone.

    In cycle t, on the state at its start (the rules of ``tokenpath.sim.fast.network``): the first
    flit of each queue asks for its output channel; each input picks one of its queues, each output
    one of the inputs, both the first from a pointer on; the flit is on the output in t, its credit
    on the input's channel in t. A packet holds its output channel from its head to its tail.

    A flit is routed when it enters its buffer, and the turn is kept beside it; crossbar and
    requests have only the turns that its input can take.
    """

    def __init__(
        self, *, dims: Sequence[Dim], flit_words: int, depths: Sequence[int],
        cycles: Sequence[int], hub: int | None = None,
    ) -> None:  # fmt: skip
        """``depths[port]`` flits a queue at both ends of a link, ``cycles[port]`` a flit."""
        self.ports = Ports(dims=dims, hub=hub)
        self.flit_words, self.depths, self.cycles = flit_words, tuple(depths), tuple(cycles)
        self.vcs = self.ports.vcs
        position = sum(coordinate_bits([dim.size for dim in dims]))
        members: dict[str, Any] = {"position": In(max(1, position))}
        for port in self.ports.inputs:
            shape = {"flit_words": flit_words, "vcs": self.vcs}
            both = channel(**shape, lanes=self.ports.lanes(port))
            members[f"i{port}"] = In(both)
            members[f"o{port}"] = Out(both) if port else Out(flits(**shape))
        super().__init__(members)

    @classmethod
    def of(
        cls, *, dims: Sequence[Dim], flit_words: int, params: RouterParams, hub: int | None = None
    ) -> "Router":
        """The router whose depths and rates follow from the tiers of ``dims``."""
        ports = Ports(dims=dims, hub=hub)
        depths, cycles = [params.depth], [1]
        for port in range(1, ports.inputs[-1] + 1):
            tier = ports.dims[ports.dim_of(port) or 0].tier
            depths.append(params.buffer_flits(tier))
            cycles.append(tier.cycles_per_flit)
        return cls(dims=dims, flit_words=flit_words, depths=depths, cycles=cycles, hub=hub)

    def input(self, port: int) -> Any:
        """The channel into ``port``."""
        return getattr(self, f"i{port}")

    def output(self, port: int) -> Any:
        """The channel, or for port 0 the flits, out of ``port``."""
        return getattr(self, f"o{port}")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        outputs = {port: _Output(m, self, port) for port in self.ports.outputs}
        inputs = {port: _Input(m, self, port, outputs) for port in self.ports.inputs}
        for output in outputs.values():
            output.arbitrate(m, inputs)
        for source in inputs.values():
            source.leave(m)
        return m


class _Output:
    """An output port: what its channels let through, and who gets it."""

    def __init__(self, m: Module, router: Router, port: int) -> None:
        self.port, self.channel = port, router.output(port)
        self.lanes = router.ports.lanes(port)
        self.locked = [Signal(name=f"locked{port}_{vc}") for vc in range(self.lanes)]
        self.sent = [Signal(name=f"sent{port}_{vc}") for vc in range(self.lanes)]
        self.open: list[Value] = [Const(1, 1)]
        if port:
            free = self._free(m, router.cycles[port])
            self.open = [self._credit(m, router, vc) & free for vc in range(self.lanes)]

    def _credit(self, m: Module, router: Router, vc: int) -> Value:
        credits = Credits(slots=router.depths[self.port])
        m.submodules[f"credits{self.port}_{vc}"] = credits
        m.d.comb += [credits.take.eq(self.sent[vc]), credits.give.eq(self.channel.credit[vc])]
        return credits.any

    def _free(self, m: Module, cycles: int) -> Value:
        """The link takes a flit each ``cycles`` cycles."""
        if cycles == 1:
            return Const(1, 1)
        left = Signal(range(cycles), name=f"busy{self.port}")
        with m.If(self.channel.valid):
            m.d.sync += left.eq(cycles - 1)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        return left == 0

    def arbitrate(self, m: Module, inputs: dict[int, "_Input"]) -> None:
        """Pick an input, send its flit and keep the channel for the rest of its packet."""
        sources = [source for source in inputs.values() if self.port in source.turns]
        arbiter = Arbiter(count=len(sources))
        m.submodules[f"arbiter{self.port}"] = arbiter
        asking = Cat(source.asks(self.port) for source in sources)
        m.d.comb += [arbiter.requests.eq(asking), arbiter.advance.eq(1)]
        m.d.comb += self.channel.valid.eq(arbiter.valid)
        flit = choose([source.flit.as_value() for source in sources], arbiter.index)
        m.d.comb += self.channel.flit.as_value().eq(flit)
        for source, granted in zip(sources, arbiter.grant, strict=True):
            source.granted.append(granted)
        for vc in range(self.lanes):
            here = self.channel.flit.vc == vc if self.lanes > 1 else 1
            m.d.comb += self.sent[vc].eq(arbiter.valid & here)
            with m.If(self.sent[vc]):
                m.d.sync += self.locked[vc].eq(~self.channel.flit.tail)


class _Input:
    """An input port: its buffer, the request it makes, and the flit that it would send."""

    def __init__(self, m: Module, router: Router, port: int, outputs: dict[int, _Output]) -> None:
        self.port, self.channel = port, router.input(port)
        self.lanes, self.turns = router.ports.lanes(port), router.ports.turns(port)
        self.granted: list[Value] = []
        turn = max(1, ceil_log2(len(self.turns)))
        self.several = max(outputs[t].lanes for t in self.turns) > 1
        way = {"vc": vc_bits(router.vcs) if self.several else 0, "turn": turn}
        self.tag = data.StructLayout({"head": 1, "tail": 1, "way": data.StructLayout(way)})
        self.buffer = InputBuffer(
            vcs=self.lanes, depth=router.depths[port], data_bits=32 * router.flit_words,
            tag_bits=self.tag.size,
        )  # fmt: skip
        m.submodules[f"buffer{port}"] = self.buffer
        self._enter(m, router)
        self._request(m, router, outputs)

    def _enter(self, m: Module, router: Router) -> None:
        """Route a head flit as it arrives; the flits behind it take its way."""
        route = Route(ports=router.ports, port=self.port)
        m.submodules[f"route{self.port}"] = route
        flit, buffer = self.channel.flit, self.buffer
        way = Signal(self.tag["way"].shape, name=f"way{self.port}")
        ways = [Signal(way.shape(), name=f"way{self.port}_{v}") for v in range(self.lanes)]
        kept = choose([each.as_value() for each in ways], flit.vc)
        found = Cat(route.vc[: len(way.vc)], route.turn)
        m.d.comb += [
            route.position.eq(router.position),
            route.destination.eq(flit.data[0]),
            way.as_value().eq(Mux(flit.head, found, kept)),
            buffer.push.eq(self.channel.valid),
            buffer.push_vc.eq(flit.vc),
            buffer.push_data.eq(flit.data.as_value()),
            buffer.push_tag.eq(Cat(flit.head, flit.tail, way)),
        ]
        for v, each in enumerate(ways):
            with m.If(self.channel.valid & (flit.vc == v if self.lanes > 1 else 1)):
                m.d.sync += each.eq(way)

    def _request(self, m: Module, router: Router, outputs: dict[int, _Output]) -> None:
        """Pick a queue whose first flit can leave, if its output picks this input."""
        width = 1 << (self.tag["way"].shape["vc"].width if self.several else 0)
        opens, unlocked = [], []
        for turn in self.turns:
            output = outputs[turn]
            for vc in range(width):
                vc = min(vc, output.lanes - 1)
                opens.append(output.open[vc])
                unlocked.append(output.open[vc] & ~output.locked[vc])
        tags = [data.View(self.tag, self.buffer.tags[v]) for v in range(self.lanes)]
        ready = [
            self.buffer.filled[v] & choose(
                [Mux(tag.head, one, other) for one, other in zip(unlocked, opens, strict=True)],
                tag.way.as_value(),
            )
            for v, tag in enumerate(tags)
        ]  # fmt: skip
        self.asking, select = Signal(name=f"asking{self.port}"), self.buffer.select
        if self.lanes > 1:
            self.arbiter = Arbiter(count=self.lanes)
            m.submodules[f"pick{self.port}"] = self.arbiter
            m.d.comb += self.arbiter.requests.eq(Cat(ready))
            m.d.comb += [self.asking.eq(self.arbiter.valid), select.eq(self.arbiter.index)]
        else:
            m.d.comb += self.asking.eq(ready[0])
        self.first = Signal(self.tag, name=f"first{self.port}")
        m.d.comb += self.first.as_value().eq(choose([tag.as_value() for tag in tags], select))
        self.flit = Signal(self.channel.flit.shape(), name=f"flit{self.port}")
        way = self.first.way
        m.d.comb += self.flit.as_value().eq(
            Cat(self.buffer.data, self.first.head, self.first.tail, way.vc if self.several else 0)
        )

    def asks(self, port: int) -> Value:
        """Whether it wants output ``port`` in this cycle."""
        return self.asking & (self.first.way.turn == self.turns.index(port))

    def leave(self, m: Module) -> None:
        """Take the flit out of its queue if an output picked this input."""
        granted = Cat(self.granted).any()
        m.d.comb += self.buffer.pop.eq(granted)
        m.d.comb += self.channel.credit.eq(granted << self.buffer.select[: ceil_log2(self.lanes)])
        if self.lanes > 1:
            m.d.comb += self.arbiter.advance.eq(granted)
