"""Output ports of the virtual-channel router."""

from itertools import product
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tokenpath.hw.arbiter import Arbiter, choose_winner, one_of, place_of
from tokenpath.hw.credits import Credits
from tokenpath.hw.router import rested

if TYPE_CHECKING:
    from tokenpath.hw.vc_input import VcInput
    from tokenpath.hw.vc_router import VcRouter


class VcOutput:
    """An output port: which of its VCs can be used, and who gets one.

    ``open``: the VCs, a bit each, that have a credit, none while the link is busy; ``room``: those
    that take a flit of the packet that holds them; ``left``, for adaptive routing: the credits of
    all VCs together; ``datelines``: the classes of its VCs that a route tells apart.
    """

    def __init__(self, m: Module, router: "VcRouter", port: int) -> None:
        self.port, self.channel, self.router = port, router.output(port), router
        self.vcs = router.vcs
        self.sent = Signal(self.vcs, name=f"sent{port}")
        self.free = Signal(self.vcs, name=f"free{port}", init=-1)
        self.ring = self._is_ring()
        self.ahead = self._is_ahead()
        self.soon = self.stays = Const(-1, self.vcs)
        self.open: Value = Const(-1, self.vcs)
        self.twice = self.room = self.open
        if port:
            self._link(m)
        self.datelines = range(router.ports.datelines(port))
        self._lowest = self._offers(m)
        self._could = {
            key: Signal(name=f"could{port}_{i}", init=1) if self.ahead else lowest.any()
            for i, (key, lowest) in enumerate(self._lowest.items())
        }
        self._precedes: dict[int, Value] = {}

    def _is_ring(self) -> bool:
        dim = self.router.ports.dim_of(self.port)
        return dim is not None and self.router.ports.dims[dim].is_ring

    def _is_ahead(self) -> bool:
        """Whether it is known a cycle ahead if a head can take a VC."""
        fast = self.port == 0 or self.router.cycles[self.port] == 1
        return fast and self.router.params.knows_ahead

    @property
    def _bubble(self) -> bool:
        """Whether packets enter a ring here that has no dateline."""
        return self.ring and self.router.params.switching == "bubble"

    def _link(self, m: Module) -> None:
        """Count the credits of the link's VCs and its busy cycles."""
        params, port = self.router.params, self.port
        spent = self.sent
        if params.whole_packets:
            spent = self.spent = Signal(self.vcs, name=f"spent{port}")
        counts = []
        for vc in range(self.vcs):
            m.submodules[f"credits{port}_{vc}"] = credits = Credits(
                slots=self.router.slots[port], twice=self._bubble, ahead=self.ahead
            )
            m.d.comb += [credits.take.eq(spent[vc]), credits.give.eq(self.channel.credit[vc])]
            counts.append(credits)
        free = rested(m, port, self.router.cycles[port], self.sent.any())
        self.open = self.room = Cat(one.any & free for one in counts)
        if params.whole_packets:
            self.room = free.replicate(self.vcs)
        if self.ahead:
            self.soon = Cat(one.soon for one in counts)
            self.stays = Cat(one.stays for one in counts)
        if self._bubble:
            self.twice = Cat(one.twice & free for one in counts)
        if params.adaptive:
            most = self.vcs * self.router.slots[port]
            self.left = Signal(range(most + 1), name=f"left{port}", init=most)
            given = sum(self.channel.credit[1:], self.channel.credit[0])
            m.d.sync += self.left.eq(self.left + given - spent.any())

    def _offers(self, m: Module) -> dict[tuple[int, bool], Signal]:
        """(VCs that a head may take, whether it enters a ring with bubbles): that which it takes,
        as a bit, or 0."""
        keys = {
            self._key(d, vc, port)
            for d, vc, port in product(self.datelines, range(self.vcs), self.router.ports.inputs)
        }
        found = {
            key: Signal(self.vcs, name=f"lowest{self.port}_{number}")
            for number, key in enumerate(sorted(keys))
        }
        can = Signal(self.vcs, name=f"can{self.port}")
        m.d.comb += can.eq(self.free & self.open)
        can_enter = can
        if self._bubble:
            can_enter = Signal(self.vcs, name=f"can_enter{self.port}")
            m.d.comb += can_enter.eq(self.free & self.twice)
        for (allowed, enters), lowest in found.items():
            there = can_enter if enters else can
            vcs = [vc for vc in range(self.vcs) if allowed >> vc & 1]
            for vc in vcs:
                m.d.comb += lowest[vc].eq(there[vc] & ~there[vcs[0] : vc].any())
        return found

    def _key(self, dateline: int, vc: int, port: int) -> tuple[int, bool]:
        ports = self.router.ports
        dim = ports.dim_of(self.port)
        if self._bubble and ports.dim_of(port) == dim:
            return 1 << vc, False
        shape = None if dim is None else ports.dims[dim]
        return self.router.params.allowed(shape, dateline, vc), self._bubble

    def offer(self, dateline: int, vc: int, port: int) -> Value:
        """The VC that a head takes now that comes from ``vc`` of input ``port``, as a bit, or 0."""
        return self._lowest[self._key(dateline, vc, port)]

    def could(self, dateline: int, vc: int, port: int) -> Value:
        """Whether there is such a VC."""
        return self._could[self._key(dateline, vc, port)]

    def _after(self, to: Value, tail: Value) -> Value:
        """What is known in the next cycle if a packet takes or holds the VC ``to``, or none."""
        stays, soon = self.stays, self.free & self.soon
        return Cat(
            Cat(
                Mux(to[vc], tail & stays[vc], soon[vc])
                for vc in range(self.vcs)
                if allowed >> vc & 1
            ).any()
            for allowed, _ in self._could
        )

    def precedes(self, m: Module, other: "VcOutput") -> Value:
        """Whether an adaptive packet goes here sooner than to an output of another dimension."""
        if self.port < other.port:
            return ~other.precedes(m, self)
        if other.port not in self._precedes:
            name = f"precedes{self.port}_{other.port}"
            self._precedes[other.port] = more = Signal(name=name)
            m.d.comb += more.eq(self.left > other.left)
        return self._precedes[other.port]

    def _sources(self, inputs: dict[int, "VcInput"]) -> list["VcInput"]:
        return [source for source in inputs.values() if self.port in source.turns]

    def give(self, m: Module, inputs: dict[int, "VcInput"]) -> None:
        """Pick an input whose head gets a VC."""
        picks = [source.heads for source in self._sources(inputs)]
        arbiter = Arbiter(count=len(picks), kind=self.router.arbiter)
        m.submodules[f"giver{self.port}"] = arbiter
        self.taken = Signal(self.vcs, name=f"taken{self.port}")
        m.d.comb += [
            arbiter.requests.eq(Cat(pick.asks(self.port) for pick in picks)),
            arbiter.advance.eq(1),
            self.taken.eq(one_of(arbiter.grant, [pick.to for pick in picks])),
        ]
        for pick, grant in zip(picks, arbiter.grant, strict=True):
            pick.granted.append(grant)

    def arbitrate(self, m: Module, inputs: dict[int, "VcInput"]) -> None:
        """Pick an input, if there is no match yet, and send its flit on the VC that its packet
        holds or takes."""
        sources = self._sources(inputs)
        flit = self.channel.flit
        words = flit.data.as_value()
        flits = [self._leaving(source) for source in sources]
        if self.router.params.allocator == "input_first":
            grants, valid, chosen = self._pick(m, sources, flits)
        else:
            grants = [source.matched[source.turns.index(self.port)] for source in sources]
            valid, chosen = Cat(grants).any(), one_of(grants, flits)
        widths = (len(words), 1, self.vcs, len(flit.vc), 1, len(self._could) * self.ahead)
        data, tail, to, vc, head, known = _split(chosen, *widths)
        if self.ahead:
            none = self._after(Const(0, self.vcs), Const(0, 1))
            m.d.sync += Cat(self._could.values()).eq(Mux(valid, known, none))
        m.d.comb += self.sent.eq(Mux(valid, to, 0))
        if self.router.params.whole_packets and self.port:
            m.d.comb += self.spent.eq(Mux(head, self.sent, 0))
        if self.router.params.stages == 3:
            m.d.sync += self.free.eq((self.free | Mux(tail, self.sent, 0)) & ~self.taken)
        else:
            m.d.sync += self.free.eq(Mux(tail, self.free | self.sent, self.free & ~self.sent))
        drive = m.d.sync if self.router.late else m.d.comb
        drive += [
            self.channel.valid.eq(valid),
            Cat(words, flit.tail).eq(Cat(data, tail)),
            flit.vc.eq(vc),
            flit.head.eq(head),
        ]
        for source, grant in zip(sources, grants, strict=True):
            source.pick.granted.append(grant)

    def _leaving(self, source: "VcInput") -> Value:
        """What an input's flit brings: words, tail, its VC as a bit and as a number, head, and
        with ``ahead`` what is known behind it."""
        to, tail = source.pick.to, source.tail
        known = self._after(to, tail) if self.ahead else Const(0, 0)
        return Cat(source.buffer.data, tail, to, place_of(to), source.head, known)

    def _pick(
        self, m: Module, sources: list["VcInput"], flits: list[Value]
    ) -> tuple[list[Value], Value, Value]:
        """Of the inputs that picked it one: grants, whether there is one, the winner's flit."""
        arbiter = Arbiter(count=len(sources), kind=self.router.arbiter)
        m.submodules[f"arbiter{self.port}"] = arbiter
        m.d.comb += [
            arbiter.requests.eq(Cat(source.pick.asks(self.port) for source in sources)),
            arbiter.advance.eq(1),
        ]
        return list(arbiter.grant), arbiter.valid, choose_winner(flits, arbiter.sides)


def _split(value: Value, *widths: int) -> list[Value]:
    """Its fields, lowest first."""
    fields, at = [], 0
    for width in widths:
        fields.append(value[at : at + width])
        at += width
    return fields
