"""Output ports of the virtual-channel router."""

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

    ``open``: the VCs, a bit each, that have a credit, none while the link is busy; ``lowest[a]``:
    that which a head takes that may take the VCs a, as a bit, or 0; ``datelines``: the classes of
    its VCs that a route tells apart.
    """

    def __init__(self, m: Module, router: "VcRouter", port: int) -> None:
        self.port, self.channel, self.router = port, router.output(port), router
        self.vcs = router.vcs
        self.sent = Signal(self.vcs, name=f"sent{port}")
        self.free = Signal(self.vcs, name=f"free{port}", init=-1)
        self.taken: Value = Const(0, self.vcs)
        self.open: Value = Const(-1, self.vcs)
        if port:
            self.open = self._open(m, router)
        can = Signal(self.vcs, name=f"can{port}")
        m.d.comb += can.eq(self.free & self.open)
        self.datelines = range(router.ports.datelines(port))
        may = {self.allowed(d, vc) for d in self.datelines for vc in range(self.vcs)}
        self.lowest = {
            each: Signal(self.vcs, name=f"lowest{port}_{i}") for i, each in enumerate(sorted(may))
        }
        for allowed, lowest in self.lowest.items():
            vcs = [vc for vc in range(self.vcs) if allowed >> vc & 1]
            for vc in vcs:
                m.d.comb += lowest[vc].eq(can[vc] & ~can[vcs[0] : vc].any())

    def allowed(self, dateline: int, vc: int) -> int:
        """The VCs, a bit each, that a packet on ``vc`` may take here."""
        dim = self.router.ports.dim_of(self.port)
        shape = None if dim is None else self.router.ports.dims[dim]
        return self.router.params.allowed(shape, dateline, vc)

    def _open(self, m: Module, router: "VcRouter") -> Value:
        each = []
        for vc in range(self.vcs):
            m.submodules[f"credits{self.port}_{vc}"] = credits = Credits(
                slots=router.depths[self.port]
            )
            m.d.comb += [credits.take.eq(self.sent[vc]), credits.give.eq(self.channel.credit[vc])]
            each.append(credits.any)
        free = rested(m, self.port, router.cycles[self.port], self.sent.any())
        return Cat(one & free for one in each)

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
        flits = [
            Cat(source.buffer.data, source.pick.to, place_of(source.pick.to), source.head)
            for source in sources
        ]
        if self.router.params.allocator == "input_first":
            grants, valid, chosen = self._pick(m, sources, flits)
        else:
            grants = [source.matched[source.turns.index(self.port)] for source in sources]
            valid, chosen = Cat(grants).any(), one_of(grants, flits)
        data, tail, to, vc, head = _split(chosen, len(words), 1, self.vcs, len(flit.vc), 1)
        m.d.comb += self.sent.eq(Mux(valid, to, 0))
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
