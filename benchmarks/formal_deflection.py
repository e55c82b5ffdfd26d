"""What is proved of a deflection router between neighbours that send what they like."""

from dataclasses import dataclass
from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Mux, Signal, Value

from tokenpath.hw.arch.deflection import SLOTS, Lanes
from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.flit import destination

from .formal_blocks import Queue, implies, total
from .formal_lanes import WORD
from .formal_prover import Setting

EPOCH_BITS = 2


@dataclass
class _Flit:
    """A lane's, if it is ``full``: ``word`` is the parity of its epoch and its data; ``wishes`` the
    output lanes that bring it nearer; ``old``: it is of another epoch than the present one."""

    full: Value
    word: Value
    to: Value
    wishes: Value
    old: Value

    @property
    def there(self) -> Value:
        """It has come to its tile."""
        return self.full & (self.wishes == 0)


class _Proof:
    def __init__(self, hw: SimpleNamespace, s: Setting, topology: Topology, node: int) -> None:
        self.s, self.topology, self.node = s, topology, node
        s.m.submodules.dut = self.dut = hw.DeflectionRouter(
            dims=topology.dims, flit_words=1, epoch_bits=EPOCH_BITS
        )
        self.lanes, self.bits = Lanes.of(topology.dims), len(self.dut.position)
        self.sizes = [dim.size for dim in topology.dims]
        s.m.d.comb += self.dut.position.eq(destination(self.sizes, node))
        self._epochs()
        again = [s.peek(f"dut.again{lane}", 2 + WORD) for lane in range(len(self.lanes.inputs))]
        self.gone = [self._flit(again[back]) for back in self.lanes.back]
        self.here = [self._arrived(lane, again[lane]) for lane in range(len(again))]
        self._tile()
        self._links()
        self._conserved()
        self._enters()
        self._nearer()

    def _epochs(self) -> None:
        """Count the cycles from reset on; invariant: the router does, too."""
        s, cycle = self.s, Signal(EPOCH_BITS + 1, name="cycle")
        s.m.d.sync += cycle.eq(cycle + 1)
        self.parity = cycle[-1]
        now = s.peek("dut.now", len(cycle))
        s.invariant("epochs", now == (cycle + 1)[: len(cycle)], s.peek("dut.parity") == self.parity)

    def _flit(self, value: Value) -> _Flit:
        full, word = value[0], value[1:]
        to = word[1 : 1 + self.bits]
        return _Flit(full, word, to, self._wishes(to), full & (word[0] ^ self.parity))

    def _wishes(self, to: Value) -> Value:
        """By the rule, tile by tile."""
        found: Value = Const(0, len(self.lanes.outputs))
        here = self.topology.coordinates(self.node)
        for tile in range(self.topology.tiles):
            wishes = self.lanes.wishes(self.topology.dims, here, self.topology.coordinates(tile))
            found = found | Mux(to == destination(self.sizes, tile), wishes, 0)
        return found[: len(self.lanes.outputs)]

    def _known(self, to: Value) -> Value:
        """Whether it is a tile."""
        tiles = range(self.topology.tiles)
        return Cat(to == destination(self.sizes, tile) for tile in tiles).any()

    def _linked(self, port: int | None) -> bool:
        return port is not None and self.topology.neighbour(self.node, port) is not None

    def _arrived(self, lane: int, again: Value) -> _Flit:
        """What came into a lane in the cycle before: over its link, or from the output there."""
        s, port = self.s, self.lanes.inputs[lane]
        comes = again
        if port is not None:
            link = self.dut.input(port)
            s.drive(link.valid, link.flit.vc, link.flit.data[0], link.flit.head, link.flit.tail)
            if self._linked(port):
                comes = Cat(link.valid, link.flit.vc, link.flit.data[0])
                s.assume(implies(link.valid, self._known(link.flit.data[0][: self.bits])))
        kept = Signal(2 + WORD, name=f"lane{lane}")
        s.m.d.sync += kept.eq(comes)
        flit = self._flit(kept)
        s.invariant(f"to_a_tile_{lane}", implies(flit.full, self._known(flit.to)))
        return flit

    def _tile(self) -> None:
        """The tile keeps to its credits; invariants: the registers hold what is in its queue."""
        s, source = self.s, self.dut.input(0)
        data = source.flit.data[0]
        s.drive(source.valid, data, source.flit.head, source.flit.tail, source.flit.vc)
        slots = Signal(range(SLOTS + 2), name="slots", init=SLOTS)
        self.credit = source.credit[0]
        s.m.d.sync += slots.eq(slots - source.valid + self.credit)
        s.assume(implies(source.valid, (slots != 0) & self._known(data[: self.bits])))
        queue = Queue(s, "tile", depth=SLOTS, push=source.valid, pop=self.credit, entry=data)
        s.prove("takes_what_is_there", implies(self.credit, queue.fill != 0))
        s.prove("credit_for_each", slots + queue.fill == SLOTS)
        for i, name in enumerate(("first", "second")):
            entry = queue.entries[i]
            knows = s.peek(f"dut.{name}", 1 + len(self.lanes.outputs))
            kept = Cat(1, self._wishes(entry[: self.bits]))
            s.invariant(
                f"{name}_of_the_queue", knows == Mux(queue.there(i), kept, 0),
                implies(queue.there(i), self._known(entry[: self.bits])),
                implies(queue.there(i), s.peek(f"dut.{name}_data", WORD) == entry),
            )  # fmt: skip
        self.queue, own = queue, queue.entries[0]
        self.own = self._flit(Cat(queue.there(0), self.parity, own))

    def _links(self) -> None:
        """An output with a link has its lane's flit, one without none."""
        for lane, (port, gone) in enumerate(zip(self.lanes.outputs, self.gone, strict=True)):
            known = self._known(gone.to)
            self.s.invariant(f"goes_to_a_tile_{lane}", implies(gone.full, known))
            if port is None:
                continue
            link = self.dut.output(port)
            if not self._linked(port):
                self.s.prove(f"no_link_{port}", ~link.valid)
                continue
            sent = Cat(link.valid, link.flit.vc, link.flit.data[0])
            self.s.prove(f"link_{port}", sent[0] == gone.full, implies(
                gone.full, (sent[1:] == gone.word) & link.flit.head & link.flit.tail))  # fmt: skip

    def _conserved(self) -> None:
        """Whatever a word is: as many leave with it as came or entered with it."""
        s, sink = self.s, self.dut.output(0)
        any_word = s.constant(1 + WORD)
        there, old = (Cat(found) for found in zip(
            *((flit.there, flit.there & flit.old) for flit in self.here), strict=True))  # fmt: skip
        first = Mux(old.any(), old, there)
        delivered = [first[i] & ~first[:i].any() for i in range(len(self.here))]
        own = self.own.there & ~there.any()
        enters = s.named("enters_the_network", self.credit & ~own)
        into = [flit.full & ~out & (flit.word == any_word)
                for flit, out in zip(self.here, delivered, strict=True)]  # fmt: skip
        into.append(enters & (self.own.word == any_word))
        out_of = [flit.full & (flit.word == any_word) for flit in self.gone]
        s.prove("none_lost_or_made_up_or_changed", total(into) == total(out_of))
        s.prove("delivers", sink.valid == (there.any() | own),
                implies(sink.valid, sink.flit.head & sink.flit.tail), implies(
                    own, self.credit & (sink.flit.data[0] == self.own.word[1:])), *(
                    implies(it, sink.flit.data[0] == flit.word[1:])
                    for flit, it in zip(self.here, delivered, strict=True)))  # fmt: skip
        self.inside = total([flit.full for flit in self.here]) - there.any()
        if sum(map(self._linked, self.lanes.inputs)) > 1:
            s.cover("delivers_an_old_one_of_two", old.any() & (total(list(there)) > 1))

    def _enters(self) -> None:
        """The queue's first flit enters if, and only if, a lane is empty."""
        s, wants = self.s, self.own.full & (self.own.wishes != 0)
        empty = self.inside < len(self.here)
        s.prove("enters_an_empty_place", implies(wants, self.credit == empty))
        s.cover("waits_for_an_empty_place", wants & ~empty)
        s.cover("a_full_queue_enters", wants & empty & (self.queue.fill == SLOTS))

    def _nearer(self) -> None:
        """Of the old flits to the lowest tile, unless they are there, one gets nearer."""
        s = self.s
        old = [flit.old & (flit.wishes != 0) for flit in self.here]
        lowest: Value = Const((1 << self.bits) - 1, self.bits)
        for flit, one in zip(self.here, old, strict=True):
            lowest = Mux(one & (flit.to < lowest), flit.to, lowest)
        nearer = Cat(flit.old & (flit.to == lowest) & flit.wishes[lane]
                     for lane, flit in enumerate(self.gone)).any()  # fmt: skip
        s.prove("an_old_one_gets_nearer", implies(Cat(old).any(), nearer))
        if len(self.here) > 2:
            s.cover("all_are_old", Cat(old).all())


def deflection_router(hw: SimpleNamespace, s: Setting, *, topology: str, node: int) -> None:
    """Every flit that comes leaves in the next cycle, unchanged, to the tile if it is its own, an
    old one first; no other does but the tile's, which enters if and only if a lane is empty, with
    the parity of the epoch; of the old flits to the lowest tile one gets nearer. The tile's queue
    neither over- nor underflows."""
    _Proof(hw, s, Topology.parse(topology), node)
