"""Wormhole router: a cycle a hop, credits, round robin, one queue for each virtual channel."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tokenpath.hw.arbiter import Arbiter, choose, choose_winner
from tokenpath.hw.arch.dims import Dim
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.credits import Credits
from tokenpath.hw.fifo import InputBuffer
from tokenpath.hw.flit import channel, coordinate_bits, flits
from tokenpath.hw.route import Ports, Route


class Router(wiring.Component):
    """The router of every tile of a product of ``dims``; with ``hub``, that dimension's switch.

    Members: ``position``, the packed coordinates of the tile (constant; a switch ignores it);
    ``routes``, only with a routing table, its outputs by packed coordinates (constant);
    ``i0``, ``i1`` ... and ``o0``, ``o1`` ..., its channels by port number, port 0 the local one
    (a switch has none, and ``o0`` has no credits: the sink is always ready). A port without a
    link, at a line's end, is left alone.

    In cycle t, on the state at its start (the rules of ``tokenpath.sim.fast.network``): the first
    flit of each queue asks for its output channel; each input picks one of its queues, each output
    one of the inputs, both the first from a pointer on; the flit is on the output in t, its credit
    on the input's channel in t. A packet holds its output channel from its head to its tail.

    A flit is routed when it enters its buffer. Its way, a bit for each channel that its input may
    ask for, is kept beside it and is in a register when it is first: all that decides who goes
    where comes from registers. Crossbar and requests have only the turns that an input can take.
    ``head`` isn't kept: it is the flit that finds its channel free.
    """

    def __init__(
        self, *, dims: Sequence[Dim], flit_words: int, depths: Sequence[int],
        cycles: Sequence[int], hub: int | None = None, params: RouterParams | None = None,
    ) -> None:  # fmt: skip
        """``depths[port]`` flits a queue at both ends of a link, ``cycles[port]`` a flit;
        ``params`` are only for :class:`tokenpath.hw.vc_router.VcRouter`."""
        self.ports = Ports(dims=dims, hub=hub, params=params)
        self.flit_words, self.depths, self.cycles = flit_words, tuple(depths), tuple(cycles)
        self.vcs = self.ports.vcs
        position = sum(coordinate_bits([dim.size for dim in dims]))
        members: dict[str, Any] = {"position": In(max(1, position))}
        if params and params.routing == "table" and hub is None:
            members["routes"] = In(ceil_log2(len(self.ports.outputs)) << position)
        self.constants = tuple(members)
        for port in self.ports.inputs:
            shape = {"flit_words": flit_words, "vcs": self.vcs}
            both = channel(**shape, lanes=self.ports.lanes(port))
            members[f"i{port}"] = In(both)
            members[f"o{port}"] = Out(both) if port else Out(flits(**shape))
        super().__init__(members)

    def input(self, port: int) -> Any:
        """The channel into ``port``."""
        return getattr(self, f"i{port}")

    def output(self, port: int) -> Any:
        """The channel, or for port 0 the flits, out of ``port``."""
        return getattr(self, f"o{port}")

    def parts(self) -> tuple[Any, Any]:
        """The classes of its output and input ports."""
        return _Output, _Input

    def allocate(self, m: Module, outputs: dict[int, Any], inputs: dict[int, Any]) -> None:
        """What is decided before the outputs pick: nothing here."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        output_port, input_port = self.parts()
        outputs = {port: output_port(m, self, port) for port in self.ports.outputs}
        inputs = {port: input_port(m, self, port, outputs) for port in self.ports.inputs}
        self.allocate(m, outputs, inputs)
        for output in outputs.values():
            output.arbitrate(m, inputs)
        for source in inputs.values():
            source.leave(m)
        return m


def rested(m: Module, port: int, cycles: int, sent: Value) -> Value:
    """Whether the link of ``port`` takes a flit again: one each ``cycles`` cycles."""
    if cycles == 1:
        return Const(1, 1)
    left = Signal(range(cycles), name=f"busy{port}")
    with m.If(sent):
        m.d.sync += left.eq(cycles - 1)
    with m.Elif(left != 0):
        m.d.sync += left.eq(left - 1)
    return left == 0


class _Output:
    """An output port: what its channels let through, and who gets it."""

    def __init__(self, m: Module, router: Router, port: int) -> None:
        self.port, self.channel = port, router.output(port)
        self.lanes = router.ports.lanes(port)
        self.sent = [Signal(name=f"sent{port}_{vc}") for vc in range(self.lanes)]
        self.free = [Signal(name=f"free{port}_{vc}", init=1) for vc in range(self.lanes)]
        self.owners: list[list[_Owner]] = [[] for _ in range(self.lanes)]
        self.open: list[Value] = [Const(1, 1)]
        if port:
            free = rested(m, port, router.cycles[port], self.channel.valid)
            self.open = [self._credit(m, router, vc) & free for vc in range(self.lanes)]

    def _credit(self, m: Module, router: Router, vc: int) -> Value:
        credits = Credits(slots=router.depths[self.port])
        m.submodules[f"credits{self.port}_{vc}"] = credits
        m.d.comb += [credits.take.eq(self.sent[vc]), credits.give.eq(self.channel.credit[vc])]
        return credits.any

    def admits(self, vc: int, source: "_Input", queue: int) -> Value:
        """Whether channel ``vc`` takes a flit of that queue: it is open, and no other packet's."""
        owner = _Owner(source, queue, Signal(name=f"owner{self.port}_{vc}_{source.port}_{queue}"))
        self.owners[vc].append(owner)
        return self.open[vc] & (self.free[vc] | owner.own)

    def arbitrate(self, m: Module, inputs: dict[int, "_Input"]) -> None:
        """Pick an input, send its flit and keep the channel for the rest of its packet."""
        sources = [source for source in inputs.values() if self.port in source.turns]
        m.submodules[f"arbiter{self.port}"] = arbiter = Arbiter(count=len(sources))
        flit = self.channel.flit
        flits = [Cat(source.buffer.data, source.asks(self.port, 1)) for source in sources]
        winner = choose_winner(flits, arbiter.sides)
        m.d.comb += [
            arbiter.requests.eq(Cat(source.asks(self.port) for source in sources)),
            arbiter.allowed.eq(Cat(source.allowed(self.port) for source in sources)),
            arbiter.advance.eq(1),
            arbiter.stay.eq(~flit.tail if self.lanes == 1 else 0),
            self.channel.valid.eq(arbiter.valid),
            Cat(flit.data.as_value(), flit.tail, flit.vc).eq(winner),
            flit.head.eq(choose(self.free, flit.vc)),
        ]
        granted = dict(zip([source.port for source in sources], arbiter.grant, strict=True))
        for source in sources:
            source.granted.append(granted[source.port])
        for vc, sent in enumerate(self.sent):
            m.d.comb += sent.eq(arbiter.valid & (flit.vc == vc if self.lanes > 1 else 1))
            with m.If(sent):
                m.d.sync += self.free[vc].eq(flit.tail)
                for source, queue, own in self.owners[vc]:
                    m.d.sync += own.eq(granted[source.port] & source.picked[queue])


class _Owner(NamedTuple):
    """A queue that may hold a channel, and the register that says that it had it last."""

    source: "_Input"
    queue: int
    own: Signal


class _Input:
    """An input port: its buffer, and what its queues ask for."""

    def __init__(self, m: Module, router: Router, port: int, outputs: dict[int, _Output]) -> None:
        self.port, self.channel = port, router.input(port)
        self.lanes, self.turns = router.ports.lanes(port), router.ports.turns(port)
        self.channels = [(turn, vc) for turn in self.turns for vc in range(outputs[turn].lanes)]
        self.granted: list[Value] = []
        self.buffer = InputBuffer(
            vcs=self.lanes, depth=router.depths[port], data_bits=32 * router.flit_words + 1,
            tag_bits=len(self.channels),
        )  # fmt: skip
        m.submodules[f"buffer{port}"] = self.buffer
        self._enter(m, router, outputs)
        self._request(m, outputs)

    def _enter(self, m: Module, router: Router, outputs: dict[int, _Output]) -> None:
        """Route a head flit as it arrives; the flits behind it take its way."""
        route = Route(ports=router.ports, port=self.port)
        m.submodules[f"route{self.port}"] = route
        flit, buffer = self.channel.flit, self.buffer
        way = Signal(len(self.channels), name=f"way{self.port}")
        ways = [Signal(way.shape(), name=f"way{self.port}_{v}") for v in range(self.lanes)]
        found = [
            (route.turn == self.turns.index(turn))
            & (route.vc == vc if outputs[turn].lanes > 1 else 1)
            for turn, vc in self.channels
        ]
        m.d.comb += [
            route.position.eq(router.position),
            route.destination.eq(flit.data[0]),
            way.eq(Mux(flit.head, Cat(found), choose(ways, flit.vc))),
            buffer.push.eq(self.channel.valid),
            buffer.push_vc.eq(flit.vc),
            buffer.push_data.eq(Cat(flit.data.as_value(), flit.tail)),
            buffer.push_tag.eq(way),
        ]
        for v, each in enumerate(ways):
            with m.If(self.channel.valid & (flit.vc == v if self.lanes > 1 else 1)):
                m.d.sync += each.eq(way)

    def _request(self, m: Module, outputs: dict[int, _Output]) -> None:
        """Pick a queue whose first flit can leave, if its output picks this input.

        With one queue here and one channel there nothing has to be known before an output picks:
        the packet that holds the channel is the arbiter's first, and no other is allowed.
        """
        self.picked: list[Value] = [Const(1, 1)]
        if self.lanes > 1:
            m.submodules[f"pick{self.port}"] = self.pick = Arbiter(count=self.lanes)
            self.picked = list(self.pick.grant)
        self.asking: list[Signal] = []
        self.later: dict[int, Value] = {}
        for v in range(self.lanes):
            asking = Signal(len(self.channels), name=f"asking{self.port}_{v}")
            for bit, tag, (turn, vc) in zip(
                asking, self.buffer.tags[v], self.channels, strict=True
            ):
                admitted = outputs[turn].admits(vc, self, v)
                if self.lanes == outputs[turn].lanes == 1:
                    self.later[turn], admitted = admitted, Const(1, 1)
                m.d.comb += bit.eq(tag & admitted)
            self.asking.append(asking)
        if self.lanes > 1:
            m.d.comb += self.pick.requests.eq(Cat(asking.any() for asking in self.asking))
            m.d.comb += self.buffer.select.eq(self.pick.index)

    def asks(self, port: int, vc: int | None = None) -> Value:
        """Whether it wants output ``port``, or its channel ``vc``, in this cycle."""
        return Cat(
            asking[bit] & picked
            for asking, picked in zip(self.asking, self.picked, strict=True)
            for bit, channel in enumerate(self.channels)
            if channel[0] == port and vc in (None, channel[1])
        ).any()

    def allowed(self, port: int) -> Value:
        """Whether output ``port`` may pick it, as far as its request doesn't say so."""
        return self.later.get(port, Const(1, 1))

    def leave(self, m: Module) -> None:
        """Take the flit out of its queue if an output picked this input."""
        granted = Cat(self.granted).any()
        m.d.comb += self.buffer.pop.eq(Cat(granted & picked for picked in self.picked))
        m.d.comb += self.channel.credit.eq(self.buffer.pop)
        if self.lanes > 1:
            m.d.comb += self.pick.advance.eq(granted)
