"""Input ports of the virtual-channel router."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tokenpath.hw.arbiter import Arbiter, one_of
from tokenpath.hw.fifo import InputBuffer
from tokenpath.hw.route import Route
from tokenpath.hw.vc_output import VcOutput

if TYPE_CHECKING:
    from tokenpath.hw.vc_router import VcRouter


class VcInput:
    """An input port: its buffer, and what its queues ask for."""

    def __init__(
        self, m: Module, router: "VcRouter", port: int, outputs: dict[int, VcOutput]
    ) -> None:
        self.port, self.channel, self.router = port, router.input(port), router
        self.vcs, self.turns = router.vcs, router.ports.turns(port)
        self.ways = [(turn, d) for turn in self.turns for d in outputs[turn].datelines]
        self.buffer = InputBuffer(
            vcs=self.vcs, depth=router.depths[port], data_bits=32 * router.flit_words + 1,
            tag_bits=len(self.ways),
        )  # fmt: skip
        m.submodules[f"buffer{port}"] = self.buffer
        self._enter(m, router, outputs)
        self._request(m, outputs)

    def _enter(self, m: Module, router: "VcRouter", outputs: dict[int, VcOutput]) -> None:
        """Route a head flit as it arrives; the flits behind it take its way."""
        route = Route(ports=router.ports, port=self.port)
        m.submodules[f"route{self.port}"] = route
        flit, buffer = self.channel.flit, self.buffer
        way = Signal(len(self.ways), name=f"way{self.port}")
        found = [
            (route.turn == self.turns.index(turn))
            & (route.vc == d if len(outputs[turn].datelines) > 1 else 1)
            for turn, d in self.ways
        ]
        here = [flit.vc == v if self.vcs > 1 else Const(1, 1) for v in range(self.vcs)]
        ways = [Signal(way.shape(), name=f"way{self.port}_{v}") for v in range(self.vcs)]
        m.d.comb += [
            route.position.eq(router.position),
            route.destination.eq(flit.data[0]),
            way.eq(Mux(flit.head, Cat(found), one_of(here, ways))),
            buffer.push.eq(self.channel.valid),
            buffer.push_vc.eq(flit.vc),
            buffer.push_data.eq(Cat(flit.data.as_value(), flit.tail)),
            buffer.push_tag.eq(way),
        ]
        for one, each in zip(here, ways, strict=True):
            with m.If(self.channel.valid & one):
                m.d.sync += each.eq(way)

    def _request(self, m: Module, outputs: dict[int, VcOutput]) -> None:
        """Pick a queue whose first flit can leave, if its output picks this input."""
        self.held = [Signal(self.vcs, name=f"held{self.port}_{v}") for v in range(self.vcs)]
        lowest = [
            [outputs[turn].lowest[outputs[turn].allowed(d, v)] for turn, d in self.ways]
            for v in range(self.vcs)
        ]
        room = [outputs[turn].open for turn, _ in self.ways]
        heads = [~held.any() for held in self.held]
        to: list[Value] = list(self.held)
        if self.router.params.stages == 3:
            heads = self._ask_for_vcs(m, lowest)
        else:
            to = [
                Mux(held.any(), held, one_of(tags, each))
                for held, tags, each in zip(self.held, self.buffer.tags, lowest, strict=True)
            ]
        self.asking = []
        for v, held in enumerate(self.held):
            each = Signal(len(self.ways), name=f"asking{self.port}_{v}")
            for bit, tag, free, there in zip(
                each, self.buffer.tags[v], lowest[v], room, strict=True
            ):
                can = (held & there).any()
                if self.router.params.stages < 3:
                    can = Mux(held.any(), can, free.any())
                m.d.comb += bit.eq(tag & can)
            self.asking.append(each)
        picking: list[Value] = list(self.asking)
        if self.router.params.allocator != "input_first":
            self.matched = Signal(len(self.turns), name=f"matched{self.port}")
            match = Cat(self.matched[self.turns.index(turn)] for turn, _ in self.ways)
            picking = [each & match for each in picking]
        self.pick = Pick(m, self, picking, to)
        self.head = Signal(name=f"head{self.port}")
        m.d.comb += [
            self.head.eq(one_of(self.pick.arbiter.grant, heads)),
            self.buffer.select.eq(self.pick.arbiter.index),
        ]

    def _ask_for_vcs(self, m: Module, lowest: list[list[Value]]) -> list[Value]:
        """Pick a queue whose head could take a VC; for each queue whether a head is to leave."""
        self.new = [Signal(name=f"new{self.port}_{v}") for v in range(self.vcs)]
        asking, to = [], []
        for v, held in enumerate(self.held):
            each = Signal(len(self.ways), name=f"head_asking{self.port}_{v}")
            for bit, tag, free in zip(each, self.buffer.tags[v], lowest[v], strict=True):
                m.d.comb += bit.eq(tag & ~held.any() & free.any())
            asking.append(each)
            to.append(one_of(self.buffer.tags[v], lowest[v]))
        self.heads = Pick(m, self, asking, to, name="head_")
        return list(self.new)

    def wants(self, port: int) -> Value:
        """Whether any of its queues wants output ``port`` in this cycle."""
        bits = [bit for bit, (turn, _) in enumerate(self.ways) if turn == port]
        return Cat(each[bit] for each in self.asking for bit in bits).any()

    def leave(self, m: Module) -> None:
        """Take the flit out of its queue, and a VC or give it up, if an output picked this
        input."""
        tail = self.buffer.data[-1]
        m.d.comb += self.buffer.pop.eq(self.pick.served())
        m.d.comb += self.channel.credit.eq(self.buffer.pop)
        self.pick.move(m)
        three = self.router.params.stages == 3
        for pop, held in zip(self.buffer.pop, self.held, strict=True):
            with m.If(pop):
                m.d.sync += held.eq(Mux(tail, 0, held if three else self.pick.to))
        if three:
            given = Signal(self.vcs, name=f"given{self.port}")
            m.d.comb += given.eq(self.heads.served())
            self.heads.move(m)
            for pop, gets, held, new in zip(
                self.buffer.pop, given, self.held, self.new, strict=True
            ):
                with m.If(pop):
                    m.d.sync += new.eq(0)
                with m.If(gets):
                    m.d.sync += [held.eq(self.heads.to), new.eq(1)]


class Pick:
    """An input's choice of one of its queues, and the answers of the outputs.

    ``asking[v]``: the ways that queue v asks for; ``to[v]``: the VC that it would have there.
    """

    def __init__(
        self, m: Module, source: VcInput, asking: Sequence[Value], to: Sequence[Value],
        name: str = "",
    ) -> None:  # fmt: skip
        self.ways, port = source.ways, source.port
        self.arbiter = arbiter = Arbiter(count=source.vcs, kind=source.router.arbiter)
        m.submodules[f"{name}pick{port}"] = arbiter
        self.asking = Signal(len(self.ways), name=f"{name}asking{port}")
        self.to = Signal(source.vcs, name=f"{name}to{port}")
        self.granted: list[Value] = []
        m.d.comb += [
            arbiter.requests.eq(Cat(each.any() for each in asking)),
            self.asking.eq(one_of(arbiter.grant, asking)),
            self.to.eq(one_of(arbiter.grant, to)),
        ]

    def asks(self, port: int) -> Value:
        """Whether it wants output ``port`` in this cycle."""
        ways = zip(self.asking, self.ways, strict=True)
        return Cat(bit for bit, (turn, _) in ways if turn == port).any()

    def served(self) -> Value:
        """The queue, as a bit, that an output picked, or 0."""
        return Mux(Cat(self.granted).any(), self.arbiter.grant, 0)

    def move(self, m: Module) -> None:
        """Its arbiter moves behind a queue that is served."""
        m.d.comb += self.arbiter.advance.eq(Cat(self.granted).any())
