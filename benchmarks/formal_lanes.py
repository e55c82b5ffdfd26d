"""Proofs of routers: their input queues, and the neighbours that send to them."""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Mux, Signal, Value

from tokenpath.hw.arch.ways import Way

from .formal_blocks import Queue, Tagged, implies, storage, total
from .formal_prover import Setting

WORD = 32  # flits of one word: a router looks at nothing else of a flit
Channel = tuple[int, int]
"""A port and a virtual channel (VC) of its link."""


class Lane:
    """An input queue, ``queue``: its neighbour, which keeps to its credits and mixes no packets;
    what enters, what is in it, and what leaves.

    ``entering``, ``leaving``: a packet's tail is still to come in, to go out; its way is
    ``entering_way``, ``leaving_way``, a bit for each of ``ways``. ``routes``: packed coordinates of
    a destination and its way. With ``packets`` a credit is room for a whole packet, of up to
    ``LONGEST_PACKET`` flits, and there is room for so many.
    """

    LONGEST_PACKET = 2
    FIELDS = ("data", "tail", "way", "head")
    """Of an entry, lowest first; its buffer has the first of them in rows, then those of tags."""
    IN_ROWS, IN_TAGS = 2, 1

    def __init__(
        self, s: Setting, channel: Channel, *, link: Any, depth: int, packets: int, vcs: int,
        ways: Sequence[Way], routes: Mapping[int, int], pop: Value, tag: Value, bits: int,
    ) -> None:  # fmt: skip
        self.s, self.channel, self.ways, self.depth = s, channel, list(ways), depth
        self.packets = packets
        self.name, self.link, self.routes = f"{channel[0]}_{channel[1]}", link, routes
        name, flit = self.name, link.flit
        self.push = s.named(f"push_{name}", link.valid & (flit.vc == channel[1]))
        self.entering = Signal(name=f"entering_{name}")
        self.entering_way = Signal(len(ways), name=f"entering_way_{name}")
        fields = {"data": flit.data[0], "tail": flit.tail, "head": flit.head}
        fields["way"] = way = self._way(flit.data[0][:bits])
        widths = [len(Value.cast(fields[field])) for field in self.FIELDS]
        ends = [sum(widths[: i + 1]) for i in range(len(widths))]
        starts = [0, *ends[:-1]]
        self._slices = dict(zip(self.FIELDS, map(slice, starts, ends), strict=True))
        entry = s.named(f"new_{name}", Cat(fields[field] for field in self.FIELDS))
        self.queue = Queue(s, name, depth=depth, push=self.push, pop=pop, entry=entry)
        self.tagged = Tagged(s, name, self.queue, entry)
        with s.m.If(self.push):
            s.m.d.sync += [self.entering.eq(~flit.tail), self.entering_way.eq(way)]
        self.leaving = Signal(name=f"leaving_{name}")
        self.leaving_way = Signal(len(ways), name=f"leaving_way_{name}")
        with s.m.If(pop):
            s.m.d.sync += [
                self.leaving.eq(~self.first("tail")), self.leaving_way.eq(self.first("way"))
            ]  # fmt: skip
        self._slots()
        rows, tags = ends[self.IN_ROWS - 1], ends[self.IN_ROWS + self.IN_TAGS - 1]
        storage(s, name, f"dut.buffer{channel[0]}", self.queue, v=channel[1], vcs=vcs, tags=tag,
                data=slice(0, rows), tag=slice(rows, tags))  # fmt: skip
        self._framing(set(routes.values()))

    def part(self, entry: Value, part: str) -> Value:
        """A field of an entry."""
        return entry[self._slices[part]]

    def first(self, part: str) -> Value:
        """The same of the first entry."""
        return self.part(self.queue.entries[0], part)

    def along(self, way: Value, port: int, vc: int | None = None) -> Value:
        """Whether a way is to ``port``, or may take its channel ``vc``."""
        mask = sum(1 << k for k in self._to(port, vc))
        return (way & mask).any()

    def wants(self, port: int, vc: int | None = None) -> Value:
        """Its first flit is for that output; whether there is one or not."""
        return self.along(self.first("way"), port, vc)

    def leads(self, port: int, vc: int | None = None) -> bool:
        """Whether any route from it goes there."""
        return any(way >> k & 1 for way in self.routes.values() for k in self._to(port, vc))

    def _to(self, port: int, vc: int | None) -> list[int]:
        return [k for k, (turn, vcs) in enumerate(self.ways)
                if turn == port and (vc is None or vcs >> vc & 1)]  # fmt: skip

    def _way(self, there: Value) -> Value:
        """That of the flit that comes in."""
        s, flit = self.s, self.link.flit
        s.assume(implies(self.push, flit.head == ~self.entering))
        known = Cat(there == to for to in self.routes).any()
        s.assume(implies(self.push & flit.head, known))
        routed: Value = Const(0, len(self.ways))
        for to, way in self.routes.items():
            routed = Mux(there == to, way, routed)
        chosen = Mux(flit.head, routed, self.entering_way)[: len(self.ways)]
        return s.named(f"spec_way_{self.name}", chosen)

    def _slots(self) -> None:
        """A credit for each flit that is taken; the neighbour has one for each free slot. Or, where
        a slot is room for a packet, one for each packet."""
        s, name, queue = self.s, self.name, self.queue
        most, whole, flit = self.packets or self.depth, bool(self.packets), self.link.flit
        slots = Signal(range(most + 2), name=f"slots_{name}", init=most)
        credit = self.link.credit[self.channel[1]]
        takes, gives, inside = self.push, queue.pop, queue.fill
        if whole:
            s.assume(implies(self.push, flit.head | flit.tail))
            takes, gives = self.push & flit.head, queue.pop & self.first("tail")
            tails = [queue.there(i) & self.part(one, "tail") for i, one in enumerate(queue.entries)]
            inside = total([*tails, self.entering])
        s.m.d.sync += slots.eq(slots - takes + credit)
        s.assume(implies(takes, slots != 0))
        s.prove(f"takes_what_is_there_{name}", implies(queue.pop, queue.fill != 0))
        s.prove(f"credit_for_each_{name}", credit == gives, slots + inside == most)
        if self.routes:
            s.cover(f"full_and_leaves_{name}", self.tagged.leaves & (queue.fill == self.depth))

    def _framing(self, legal: set[int]) -> None:
        """Invariants: packets are whole, on one way each, from the queue's entrance to its exit."""
        s, queue, entries, name = self.s, self.queue, self.queue.entries, self.name

        def known(way: Value) -> Value:
            return Cat(way == one for one in sorted(legal)).any()

        for i, one in enumerate(entries):
            last = queue.fill == i + 1
            tail, way = self.part(one, "tail"), self.part(one, "way")
            s.invariant(f"way{i}_{name}", implies(queue.there(i), known(way)))
            if self.packets:
                short = self.part(one, "head") | tail
                s.invariant(f"short{i}_{name}", implies(queue.there(i), short))
            s.invariant(f"end{i}_{name}", implies(last, self.entering == ~tail),
                        implies(last & self.entering, self.entering_way == way))  # fmt: skip
            if i + 1 < len(entries):
                head, following = (self.part(entries[i + 1], part) for part in ("head", "way"))
                more = queue.there(i + 1)
                s.invariant(f"chain{i}_{name}", implies(more, head == tail),
                            implies(more & ~tail, following == way))  # fmt: skip
        s.invariant(
            f"exit_{name}",
            implies(queue.there(0), self.first("head") == ~self.leaving),
            implies(queue.there(0) & self.leaving, self.first("way") == self.leaving_way),
            implies(~queue.there(0), self.entering == self.leaving),
            implies(~queue.there(0) & self.leaving, self.entering_way == self.leaving_way),
            implies(self.leaving, known(self.leaving_way)),
        )
        kept = s.peek(f"dut.way{name}", len(self.ways))
        s.invariant(f"kept_way_{name}", implies(self.entering, kept == self.entering_way))
