"""Network interface, sending side: cuts the descriptors of a PUT into packets of flits."""

from collections.abc import Sequence

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tokenpath.hw.arbiter import Arbiter, choose
from tokenpath.hw.arch.isa import SEMAPHORE_BITS
from tokenpath.hw.arch.timing import DESCRIPTOR_CYCLES, HEADER_WORDS
from tokenpath.hw.credits import Credits
from tokenpath.hw.flit import ADDRESS_BITS, DESCRIPTOR, HEADER, WORDS_BITS, channel, coordinates

assert DESCRIPTOR_CYCLES == 2, "the states FETCH and READ are these cycles"


class Injector(wiring.Component):
    """Executes PUT.

    Members, towards the sequencer: ``start`` in the cycle of issue, with the operands ``source``,
    ``target``, ``first`` (descriptor), ``count`` (descriptors), ``op`` and ``semaphore`` held until
    ``done``; ``instant`` in the same cycle: there is no descriptor, nothing will follow. Otherwise
    ``done`` is 1 in the last cycle of the execution, the one that sends the last flit. ``blocked``
    is 1 in each cycle in which a flit waits for a credit.

    Memories: ``descriptor_address`` in t asks for ``descriptor`` in t + 1; ``address`` in t for
    ``words`` in t + 1, ``flit_words`` of them from any word address on. Both are asked again in
    each cycle in which the flit waits, so the words must not change before the PUT is done.

    ``o``: the channel into the router's local port, with ``depth`` slots in each of its ``lanes``
    virtual channels (VCs). A packet takes the first VC with a credit from a pointer on, which moves
    behind it; with ``ordered``, the sizes of the dimensions, always that of its destination
    (``hw.arch.ways.first_channels``). With ``whole_packets`` a slot is room for a packet: only
    heads wait for a credit and spend it.

    Each descriptor costs 2 cycles, then it sends a flit a cycle as long as it has credits: packets
    of at most ``max_words`` words, 2 words of header first. A descriptor of no words is a packet
    without payload. Only the last packet of a descriptor carries the semaphore.
    """

    def __init__(
        self, *, flit_words: int, vcs: int, depth: int, max_words: int, descriptors: int,
        address_bits: int = ADDRESS_BITS, lanes: int = 1, whole_packets: bool = False,
        ordered: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        self.flit_words, self.depth, self.max_words = flit_words, depth, max_words
        self.lanes, self.whole_packets, self.ordered = lanes, whole_packets, ordered
        index = max(1, ceil_log2(descriptors))
        super().__init__(
            {
                "start": In(1),
                "source": In(address_bits),
                "target": In(ADDRESS_BITS),
                "first": In(index),
                "count": In(ceil_log2(descriptors + 1)),
                "op": In(2),
                "semaphore": In(SEMAPHORE_BITS),
                "instant": Out(1),
                "done": Out(1),
                "blocked": Out(1),
                "descriptor_address": Out(index),
                "descriptor": In(DESCRIPTOR),
                "address": Out(address_bits),
                "words": In(data.ArrayLayout(32, flit_words)),
                "o": Out(channel(flit_words=flit_words, vcs=vcs, lanes=lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self._registers()
        sent, over = Signal(), Signal()  # a flit leaves; it is its descriptor's last one
        credit = self._credit(m, sent) if self.lanes == 1 else self._channel(m, sent)
        m.d.comb += self.o.valid.eq(sent)
        m.d.comb += self.instant.eq(self.count == 0)
        m.d.comb += self.descriptor_address.eq(Mux(self.start, self.first, self.index))
        with m.FSM():
            with m.State("IDLE"), m.If(self.start & ~self.instant):
                m.d.sync += [self.index.eq(self.first + 1), self.left.eq(self.count)]
                m.next = "FETCH"
            with m.State("FETCH"):
                self._take_descriptor(m)
                m.next = "READ"
            with m.State("READ"):
                m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += self.blocked.eq(~credit)
                m.d.comb += [sent.eq(credit), over.eq(sent & self.o.flit.tail & self.final)]
                with m.If(over):
                    m.d.sync += [self.index.eq(self.index + 1), self.left.eq(self.left - 1)]
                    m.d.comb += self.done.eq(self.left == 1)
                    m.next = "FETCH"
                with m.If(self.done):
                    m.next = "IDLE"
        self._send(m, sent)
        return m

    def _credit(self, m: Module, sent: Value) -> Value:
        """Whether the only VC has a credit."""
        m.submodules.credits = credits = Credits(slots=self.depth)
        m.d.comb += [credits.take.eq(self._spends(sent)), credits.give.eq(self.o.credit)]
        return credits.any | ~self.head if self.whole_packets else credits.any

    def _spends(self, sent: Value) -> Value:
        """Whether the flit that is ``sent`` costs a credit."""
        return sent & self.head if self.whole_packets else sent

    def _channel(self, m: Module, sent: Value) -> Value:
        """Choose a packet's VC; whether it has a credit."""
        vc, held = self.o.flit.vc, Signal(self.o.flit.vc.shape(), reset_less=True)
        there = Signal(self.lanes)
        index, valid = self._fixed(there) if self.ordered else self._first(m, sent, there)
        for v in range(self.lanes):
            m.submodules[f"credits{v}"] = credits = Credits(slots=self.depth)
            m.d.comb += [
                credits.take.eq(self._spends(sent) & (vc == v)),
                credits.give.eq(self.o.credit[v]),
                there[v].eq(credits.any),
            ]
        m.d.comb += vc.eq(Mux(self.head, index, held))
        with m.If(sent):
            m.d.sync += held.eq(vc)
        return Mux(self.head, valid, 1 if self.whole_packets else choose(list(there), held))

    def _first(self, m: Module, sent: Value, there: Value) -> tuple[Value, Value]:
        """The first VC with a credit from a pointer on, and whether there is one."""
        m.submodules.pick = pick = Arbiter(count=self.lanes)
        m.d.comb += [pick.requests.eq(there), pick.advance.eq(sent & self.head)]
        return pick.index, pick.valid

    def _fixed(self, there: Value) -> tuple[Value, Value]:
        """The VC of the packet's destination, and whether it has a credit."""
        assert self.ordered is not None
        found: Value = Const(0, len(self.o.flit.vc))
        for coordinate in coordinates(self.ordered, self.to):
            found = (found + coordinate)[: len(found)]
        return found, choose(list(there), found)

    def _registers(self) -> None:
        self.index = Signal(self.first.shape())  # of the next descriptor
        self.left = Signal(self.count.shape(), reset_less=True)  # descriptors, this one included
        self.to = Signal(DESCRIPTOR["destination"].shape, reset_less=True)
        self.at = Signal(self.address.shape(), reset_less=True)  # of the next word to send
        self.packet_target = Signal(ADDRESS_BITS, reset_less=True)
        self.unsent = Signal(range(self.max_words + 1), reset_less=True)  # words of this packet
        self.rest = Signal(WORDS_BITS, reset_less=True)  # words behind this packet
        self.head = Signal(reset_less=True)  # the next flit is a head
        self.final = Signal()  # no packet follows

    def _cut(self, m: Module, words: Value) -> None:
        """The next packet takes what it can of ``words``."""
        fits = words <= self.max_words
        m.d.sync += [
            self.head.eq(1),
            self.final.eq(fits),
            self.unsent.eq(Mux(fits, words[: len(self.unsent)], self.max_words)),
            self.rest.eq(Mux(fits, 0, words - self.max_words)),
        ]

    def _take_descriptor(self, m: Module) -> None:
        m.d.sync += [
            self.to.eq(self.descriptor.destination),
            self.at.eq(self.source + self.descriptor.source),
            self.packet_target.eq(self.target + self.descriptor.target),
        ]
        self._cut(m, self.descriptor.words)

    def _send(self, m: Module, sent: Value) -> None:
        """The flit that waits, and what is behind it once it is ``sent``."""
        room = Mux(self.head, self.flit_words - HEADER_WORDS, self.flit_words)
        flit, tail, following = self.o.flit, self.unsent <= room, Signal(len(self.at))
        shifted = [Const(0, 32)] * HEADER_WORDS + list(self.words)[: self.flit_words - HEADER_WORDS]
        header = self._header(m)
        for i, word in enumerate(self.words):
            first = header[i] if i < HEADER_WORDS else shifted[i]
            m.d.comb += flit.data[i].eq(Mux(self.head, first, word))
        m.d.comb += [flit.head.eq(self.head), flit.tail.eq(tail)]
        m.d.comb += following.eq(self.at + Mux(tail, self.unsent, room))
        m.d.comb += self.address.eq(Mux(sent, following, self.at))
        with m.If(sent):
            m.d.sync += [self.at.eq(following), self.head.eq(0), self.unsent.eq(self.unsent - room)]
            with m.If(tail & ~self.final):
                m.d.sync += self.packet_target.eq(self.packet_target + self.max_words)
                self._cut(m, self.rest)

    def _header(self, m: Module) -> list[Value]:
        header = Signal(HEADER)
        m.d.comb += [
            header.destination.eq(self.to),
            header.op.eq(self.op),
            header.last.eq(self._last()),
            header.address.eq(self.packet_target),
            header.semaphore.eq(Mux(self.final, self.semaphore, 0)),
        ]
        return [header.as_value()[32 * i : 32 * i + 32] for i in range(HEADER_WORDS)]

    def _last(self) -> Value:
        """Place of the packet's last word in its last flit; ``unsent`` is still all its words."""
        words = HEADER_WORDS - 1 + self.unsent
        if self.flit_words & (self.flit_words - 1) == 0:
            return words[: ceil_log2(self.flit_words)]
        places = [(HEADER_WORDS - 1 + n) % self.flit_words for n in range(self.max_words + 1)]
        return Array(Const(place, 6) for place in places)[self.unsent]
