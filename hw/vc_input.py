"""Input ports of the virtual-channel router."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tokenpath.hw.arbiter import Arbiter, one_of
from tokenpath.hw.fifo import InputBuffer
from tokenpath.hw.vc_output import VcOutput
from tokenpath.hw.vc_route import routed

if TYPE_CHECKING:
    from tokenpath.hw.vc_router import VcRouter


class VcInput:
    """An input port: its buffer, and what its queues ask for.

    A flit's way and whether it is a tail are its tag in the buffer, so that they are in registers
    when it is first.
    """

    def __init__(
        self, m: Module, router: "VcRouter", port: int, outputs: dict[int, VcOutput]
    ) -> None:
        self.port, self.channel, self.router = port, router.input(port), router
        self.vcs, self.turns = router.vcs, router.ports.turns(port)
        self.ways = [(turn, d) for turn in self.turns for d in outputs[turn].datelines]
        self.buffer = InputBuffer(
            vcs=self.vcs, depth=router.depths[port], data_bits=32 * router.flit_words,
            tag_bits=len(self.ways) + 1,
        )  # fmt: skip
        self.tags = [tag[:-1] for tag in self.buffer.tags]
        m.submodules[f"buffer{port}"] = self.buffer
        self._enter(m, router)
        self._request(m, outputs)

    def _enter(self, m: Module, router: "VcRouter") -> None:
        """Route a head flit as it arrives; the flits behind it take its way."""
        flit, buffer = self.channel.flit, self.buffer
        way = Signal(len(self.ways), name=f"way{self.port}")
        found = routed(m, router, self.port, self.ways, flit)
        here = [flit.vc == v if self.vcs > 1 else Const(1, 1) for v in range(self.vcs)]
        ways = [Signal(way.shape(), name=f"way{self.port}_{v}") for v in range(self.vcs)]
        m.d.comb += [
            way.eq(Mux(flit.head, Cat(found), one_of(here, ways))),
            buffer.push.eq(self.channel.valid),
            buffer.push_vc.eq(flit.vc),
            buffer.push_data.eq(flit.data.as_value()),
            buffer.push_tag.eq(Cat(way, flit.tail)),
        ]
        for one, each in zip(here, ways, strict=True):
            with m.If(self.channel.valid & one):
                m.d.sync += each.eq(way)

    def _request(self, m: Module, outputs: dict[int, VcOutput]) -> None:
        """Pick a queue whose first flit can leave, if its output picks this input."""
        params = self.router.params
        self.held = [Signal(self.vcs, name=f"held{self.port}_{v}") for v in range(self.vcs)]
        could, offers = self._heads(m, outputs)
        known = range(self.vcs if params.knows_ahead else 0)
        self.ready = [Signal(name=f"ready{self.port}_{v}") for v in known]
        self.holds = [Signal(name=f"holds{self.port}_{v}") for v in known]
        holds: list[Value] = list(self.holds) or [held.any() for held in self.held]
        heads = [~one for one in holds]
        to: list[Value] = list(self.held)
        if params.stages == 3:
            heads = self._ask_for_vcs(m, could, offers)
        else:
            to = [Mux(*each) for each in zip(holds, self.held, offers, strict=True)]
        self.asking = []
        for v, held in enumerate(self.held):
            each = Signal(len(self.ways), name=f"asking{self.port}_{v}")
            for k, bit in enumerate(each):
                output = outputs[self.ways[k][0]]
                can = self.ready[v] if output.ahead else (held & output.room).any()
                if params.adaptive:
                    can = can & self.chosen[v][k]
                if params.stages < 3:
                    can = Mux(holds[v], can, could[v][k])
                m.d.comb += bit.eq(self.tags[v][k] & can)
            self.asking.append(each)
        picking: list[Value] = list(self.asking)
        if params.allocator != "input_first":
            self.matched = Signal(len(self.turns), name=f"matched{self.port}")
            match = Cat(self.matched[self.turns.index(turn)] for turn, _ in self.ways)
            picking = [each & match for each in picking]
        self.pick = Pick(m, self, picking, to)
        self.head = Signal(name=f"head{self.port}")
        self.tail = Signal(name=f"tail{self.port}")
        m.d.comb += [
            self.tail.eq(one_of(self.pick.arbiter.grant, [tag[-1] for tag in self.buffer.tags])),
            self.head.eq(one_of(self.pick.arbiter.grant, heads)),
            self.buffer.select.eq(self.pick.arbiter.index),
        ]
        if params.knows_ahead:
            self._look_ahead(m, outputs)

    def _look_ahead(self, m: Module, outputs: dict[int, VcOutput]) -> None:
        """Know of each queue's packet if it holds a VC, and if that has a credit in the next
        cycle; nobody else takes one."""
        ahead = [(k, outputs[turn]) for k, (turn, _) in enumerate(self.ways) if outputs[turn].ahead]

        def any_of(ways: Value, vcs: Value, known: str) -> Value:
            return Cat(ways[k] & (vcs & getattr(one, known)).any() for k, one in ahead).any()

        stays = Signal(name=f"stays{self.port}")
        m.d.comb += stays.eq(any_of(self.pick.asking, self.pick.to, "stays"))
        for v, (held, holds, ready) in enumerate(
            zip(self.held, self.holds, self.ready, strict=True)
        ):
            way = Signal(len(self.ways), name=f"held_way{self.port}_{v}")
            m.d.sync += ready.eq(any_of(way, held, "soon"))
            with m.If(self.buffer.pop[v]):
                m.d.sync += [
                    way.eq(self.tags[v]), holds.eq(~self.buffer.tags[v][-1]), ready.eq(stays),
                ]  # fmt: skip

    def _heads(
        self, m: Module, outputs: dict[int, VcOutput]
    ) -> tuple[Sequence[Sequence[Value]], list[Value]]:
        """For each queue, should its first flit be a head of these ways: those where it asks for a
        VC, and the VC that it takes."""
        lowest = [
            [outputs[turn].offer(d, v, self.port) for turn, d in self.ways] for v in range(self.vcs)
        ]
        if not self.router.params.adaptive:
            could = [
                [outputs[turn].could(d, v, self.port) for turn, d in self.ways]
                for v in range(self.vcs)
            ]
            return could, [
                one_of(tags, offered) for tags, offered in zip(self.tags, lowest, strict=True)
            ]
        self.chosen = [
            Signal(len(self.ways), name=f"chosen{self.port}_{v}") for v in range(self.vcs)
        ]
        best = [self._best(m, v, offered, outputs) for v, offered in enumerate(lowest)]
        return best, [one_of(each, offered) for each, offered in zip(best, lowest, strict=True)]

    def _best(self, m: Module, v: int, offered: list[Value], outputs: dict[int, VcOutput]) -> Value:
        """Of the ways where the head of queue v could take a VC, that to more credits."""
        dim_of = self.router.ports.dim_of
        able = Signal(len(self.ways), name=f"able{self.port}_{v}")
        best = Signal(len(self.ways), name=f"best{self.port}_{v}")
        m.d.comb += able.eq(self.tags[v] & Cat(each.any() for each in offered))
        for k, (turn, _) in enumerate(self.ways):
            better = [
                able[j] & outputs[other].precedes(m, outputs[turn])
                for j, (other, _) in enumerate(self.ways)
                if turn and other and dim_of(other) != dim_of(turn)
            ]
            m.d.comb += best[k].eq(able[k] & ~Cat(better).any())
        return best

    def _ask_for_vcs(
        self, m: Module, could: Sequence[Sequence[Value]], offers: list[Value]
    ) -> list[Value]:
        """Pick a queue whose head could take a VC; for each queue whether a head is to leave."""
        self.new = [Signal(name=f"new{self.port}_{v}") for v in range(self.vcs)]
        asking = []
        for v, held in enumerate(self.held):
            each = Signal(len(self.ways), name=f"head_asking{self.port}_{v}")
            for bit, tag, can in zip(each, self.tags[v], could[v], strict=True):
                m.d.comb += bit.eq(tag & ~held.any() & can)
            asking.append(each)
        self.heads = Pick(m, self, asking, offers, name="head_")
        return list(self.new)

    def wants(self, port: int) -> Value:
        """Whether any of its queues wants output ``port`` in this cycle."""
        bits = [bit for bit, (turn, _) in enumerate(self.ways) if turn == port]
        return Cat(each[bit] for each in self.asking for bit in bits).any()

    def leave(self, m: Module) -> None:
        """Take the flit out of its queue, and a VC or give it up, if an output picked this
        input."""
        params = self.router.params
        m.d.comb += self.buffer.pop.eq(self.pick.served())
        back = self.buffer.pop
        m.d.comb += self.channel.credit.eq(
            Mux(self.tail, back, 0) if params.whole_packets else back
        )
        self.pick.move(m)
        taker = self.pick if params.stages < 3 else self.heads
        takes = self.buffer.pop
        if params.stages == 3:
            takes = Signal(self.vcs, name=f"takes{self.port}")
            m.d.comb += takes.eq(self.heads.served())
            self.heads.move(m)
        for v, held in enumerate(self.held):
            tail = self.buffer.tags[v][-1]
            with m.If(self.buffer.pop[v]):
                if params.stages == 3:
                    m.d.sync += [held.eq(Mux(tail, 0, held)), self.new[v].eq(0)]
                else:
                    m.d.sync += held.eq(Mux(tail, 0, taker.to))
            with m.If(takes[v]):
                if params.stages == 3:
                    m.d.sync += [held.eq(taker.to), self.new[v].eq(1)]
                if params.adaptive:
                    m.d.sync += self.chosen[v].eq(taker.asking)


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
