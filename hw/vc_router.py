"""Virtual-channel router: a packet takes any free channel that its route allows; 1 or 2 stages."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tokenpath.hw.arbiter import Arbiter, choose_winner, place_of
from tokenpath.hw.arch.dims import Dim
from tokenpath.hw.credits import Credits
from tokenpath.hw.fifo import InputBuffer
from tokenpath.hw.route import Route
from tokenpath.hw.router import Router, rested


class VcRouter(Router):
    """The ports of :class:`Router`, each with ``vcs`` virtual channels (VCs) both ways.

    In cycle t, on the state at its start (the rules of ``tokenpath.sim.fast.network``): the first
    flit of each queue asks for the output of its route, a packet's head if it may take a VC there
    that no packet holds and that has a credit, any other flit if the VC that its packet holds has
    one; each input picks one of its queues, each output one of the inputs, both the first from a
    pointer on. The winner's head takes the lowest such VC. Its credit is on the input's channel in
    t, the flit on the output in t + stages - 1.

    A flit's way, a bit for each output that its input may ask for (in a ring for each half of its
    VCs), is kept beside it. The VC that a queue's packet holds is in a register of the queue; a
    queue without one has a head first.
    """

    def __init__(
        self, *, dims: Sequence[Dim], flit_words: int, depths: Sequence[int],
        cycles: Sequence[int], vcs: int, stages: int = 1, hub: int | None = None,
    ) -> None:  # fmt: skip
        self.stages = stages
        super().__init__(
            dims=dims, flit_words=flit_words, depths=depths, cycles=cycles, hub=hub, vcs=vcs
        )

    def parts(self) -> tuple[Any, Any]:
        return _Output, _Input


class _Output:
    """An output port: which of its VCs can be used, and who gets one.

    ``open``: the VCs, a bit each, that have a credit, none while the link is busy; ``lowest[c]``:
    that which a head of class c takes, as a bit, or 0.
    """

    def __init__(self, m: Module, router: VcRouter, port: int) -> None:
        self.port, self.channel, self.vcs = port, router.output(port), router.vcs
        self.stages = router.stages
        self.sent = Signal(self.vcs, name=f"sent{port}")
        self.free = Signal(self.vcs, name=f"free{port}", init=-1)
        self.open: Value = Const(-1, self.vcs)
        if port:
            self.open = self._open(m, router)
        can = Signal(self.vcs, name=f"can{port}")
        m.d.comb += can.eq(self.free & self.open)
        self.lowest = [Signal(self.vcs, name=f"lowest{port}_{c}") for c in (0, 1)]
        self.lowest = self.lowest[: len(router.ports.classes(port))]
        for vcs, lowest in zip(router.ports.classes(port), self.lowest, strict=True):
            for vc in vcs:
                m.d.comb += lowest[vc].eq(can[vc] & ~can[vcs.start : vc].any())

    def _open(self, m: Module, router: VcRouter) -> Value:
        each = []
        for vc in range(self.vcs):
            m.submodules[f"credits{self.port}_{vc}"] = credits = Credits(
                slots=router.depths[self.port]
            )
            m.d.comb += [credits.take.eq(self.sent[vc]), credits.give.eq(self.channel.credit[vc])]
            each.append(credits.any)
        free = rested(m, self.port, router.cycles[self.port], self.sent.any())
        return Cat(one & free for one in each)

    def arbitrate(self, m: Module, inputs: dict[int, "_Input"]) -> None:
        """Pick an input and send its flit on the VC that its packet holds or takes."""
        sources = [source for source in inputs.values() if self.port in source.turns]
        m.submodules[f"arbiter{self.port}"] = arbiter = Arbiter(count=len(sources), kind="pairs")
        flit = self.channel.flit
        words = flit.data.as_value()
        flits = [
            Cat(source.buffer.data, source.to, place_of(source.to), source.head)
            for source in sources
        ]
        data, tail, to, vc, head = _split(
            choose_winner(flits, arbiter.sides), len(words), 1, self.vcs, len(flit.vc), 1
        )
        m.d.comb += [
            arbiter.requests.eq(Cat(source.asks(self.port) for source in sources)),
            arbiter.advance.eq(1),
            self.sent.eq(Mux(arbiter.valid, to, 0)),
        ]
        m.d.sync += self.free.eq(Mux(tail, self.free | self.sent, self.free & ~self.sent))
        drive = m.d.comb if self.stages == 1 else m.d.sync
        drive += [
            self.channel.valid.eq(arbiter.valid),
            Cat(words, flit.tail).eq(Cat(data, tail)),
            flit.vc.eq(vc),
            flit.head.eq(head),
        ]
        for source, grant in zip(sources, arbiter.grant, strict=True):
            source.granted.append(grant)


class _Input:
    """An input port: its buffer, and what its queues ask for."""

    def __init__(self, m: Module, router: VcRouter, port: int, outputs: dict[int, _Output]) -> None:
        self.port, self.channel, self.vcs = port, router.input(port), router.vcs
        self.turns = router.ports.turns(port)
        self.ways = [(turn, c) for turn in self.turns for c in range(len(outputs[turn].lowest))]
        self.granted: list[Value] = []
        self.buffer = InputBuffer(
            vcs=self.vcs, depth=router.depths[port], data_bits=32 * router.flit_words + 1,
            tag_bits=len(self.ways),
        )  # fmt: skip
        m.submodules[f"buffer{port}"] = self.buffer
        self._enter(m, router, outputs)
        self._request(m, outputs)

    def _enter(self, m: Module, router: VcRouter, outputs: dict[int, _Output]) -> None:
        """Route a head flit as it arrives; the flits behind it take its way."""
        route = Route(ports=router.ports, port=self.port)
        m.submodules[f"route{self.port}"] = route
        flit, buffer = self.channel.flit, self.buffer
        way = Signal(len(self.ways), name=f"way{self.port}")
        found = [
            (route.turn == self.turns.index(turn))
            & (route.vc == c if len(outputs[turn].lowest) > 1 else 1)
            for turn, c in self.ways
        ]
        here = [flit.vc == v if self.vcs > 1 else Const(1, 1) for v in range(self.vcs)]
        ways = [Signal(way.shape(), name=f"way{self.port}_{v}") for v in range(self.vcs)]
        m.d.comb += [
            route.position.eq(router.position),
            route.destination.eq(flit.data[0]),
            way.eq(Mux(flit.head, Cat(found), _one_of(here, ways))),
            buffer.push.eq(self.channel.valid),
            buffer.push_vc.eq(flit.vc),
            buffer.push_data.eq(Cat(flit.data.as_value(), flit.tail)),
            buffer.push_tag.eq(way),
        ]
        for one, each in zip(here, ways, strict=True):
            with m.If(self.channel.valid & one):
                m.d.sync += each.eq(way)

    def _request(self, m: Module, outputs: dict[int, _Output]) -> None:
        """Pick a queue whose first flit can leave, if its output picks this input."""
        self.held = [Signal(self.vcs, name=f"held{self.port}_{v}") for v in range(self.vcs)]
        asking, to = [], []
        for v, held in enumerate(self.held):
            each = Signal(len(self.ways), name=f"asking{self.port}_{v}")
            for bit, tag, (turn, c) in zip(each, self.buffer.tags[v], self.ways, strict=True):
                output = outputs[turn]
                can = Mux(held.any(), (held & output.open).any(), output.lowest[c].any())
                m.d.comb += bit.eq(tag & can)
            asking.append(each)
            lowest = _one_of(
                self.buffer.tags[v], [outputs[turn].lowest[c] for turn, c in self.ways]
            )
            to.append(Mux(held.any(), held, lowest))
        m.submodules[f"pick{self.port}"] = self.pick = pick = Arbiter(count=self.vcs, kind="pairs")
        self.asking = Signal(len(self.ways), name=f"asking{self.port}")
        self.to = Signal(self.vcs, name=f"to{self.port}")
        self.head = Signal(name=f"head{self.port}")
        m.d.comb += [
            pick.requests.eq(Cat(each.any() for each in asking)),
            self.asking.eq(_one_of(pick.grant, asking)),
            self.to.eq(_one_of(pick.grant, to)),
            self.head.eq(_one_of(pick.grant, [~held.any() for held in self.held])),
            self.buffer.select.eq(pick.index),
        ]

    def asks(self, port: int) -> Value:
        """Whether it wants output ``port`` in this cycle."""
        ways = zip(self.asking, self.ways, strict=True)
        return Cat(bit for bit, (turn, _) in ways if turn == port).any()

    def leave(self, m: Module) -> None:
        """Take the flit out of its queue, and a VC or give it up, if an output picked this
        input."""
        granted, tail = Cat(self.granted).any(), self.buffer.data[-1]
        m.d.comb += [
            self.buffer.pop.eq(Mux(granted, self.pick.grant, 0)),
            self.channel.credit.eq(self.buffer.pop),
            self.pick.advance.eq(granted),
        ]
        for pop, held in zip(self.buffer.pop, self.held, strict=True):
            with m.If(pop):
                m.d.sync += held.eq(Mux(tail, 0, self.to))


def _one_of(bits: Sequence[Value] | Value, values: Sequence[Value]) -> Value:
    """The value whose bit is set, 0 if there is none."""
    found: Value = Const(0, 1)
    for bit, value in zip(bits, values, strict=True):
        found = found | Mux(bit, value, 0)
    return found


def _split(value: Value, *widths: int) -> list[Value]:
    """Its fields, lowest first."""
    fields, at = [], 0
    for width in widths:
        fields.append(value[at : at + width])
        at += width
    return fields
