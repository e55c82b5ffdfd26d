"""Drain: in which order SCORE and AXPY write what they hold for each query."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2


class Drain(wiring.Component):
    """Walks ``vlanes`` words a cycle: m words of each of q queries, then one word of each query.

    The walk takes q * ceil(m / vlanes) + ceil(q / vlanes) cycles from the one behind ``start`` on.

    Members
    -------
    start : ``In(1)``
        Pulse.
    vectors : ``In(1)``
        With ``start``: include the m words of each query.
    q : ``In(8)``, m : ``In(length_bits)``
        Held.
    vectors_at, tail_at : ``In(address_bits)``
        Where the vectors and the single words go; held.
    query, beat, group
        Vector word to write: group ``group`` of ``vlanes`` words of beat ``beat``.
    tail : ``Out(1)``
        Now the single words of the queries from ``query`` on.
    address : ``Out(address_bits)``, count : ``Out(range(vlanes + 1))``
        Where and how many; a count of 0 means none.
    last : ``Out(1)``
        The last cycle of the walk, that of ``start`` if there's nothing to write.
    """

    def __init__(
        self,
        *,
        lanes: int,
        vlanes: int,
        queries: int,
        beats: int,
        address_bits: int,
        length_bits: int,
    ) -> None:
        if lanes % vlanes:
            raise ValueError(f"lanes {lanes} is not a multiple of vlanes {vlanes}")
        self.vlanes, self.groups = vlanes, lanes // vlanes
        super().__init__(
            {
                "start": In(1),
                "vectors": In(1),
                "q": In(8),
                "m": In(length_bits),
                "vectors_at": In(address_bits),
                "tail_at": In(address_bits),
                "query": Out(8),
                "beat": Out(ceil_log2(beats)),
                "group": Out(ceil_log2(self.groups)),
                "tail": Out(1),
                "address": Out(address_bits),
                "count": Out(range(vlanes + 1)),
                "last": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        active, left = Signal(), Signal.like(self.m)
        waiting = Signal(8)  # queries whose single word isn't written yet
        rest = Mux(self.tail, waiting, left)
        empties = rest <= self.vlanes
        m.d.comb += [
            self.count.eq(Mux(active, Mux(empties, rest, self.vlanes), 0)),
            self.last.eq(Mux(self.start, self.q == 0, active & self.tail & empties)),
        ]
        with m.If(self.start):
            vectors = self.vectors & (self.m != 0)
            m.d.sync += [
                active.eq(self.q != 0),
                self.tail.eq(~vectors),
                self.address.eq(Mux(vectors, self.vectors_at, self.tail_at)),
                left.eq(self.m),
                waiting.eq(self.q),
                self.query.eq(0),
                self.beat.eq(0),
                self.group.eq(0),
            ]
        with m.Elif(active):
            m.d.sync += self.address.eq(self.address + self.count)
            with m.If(self.tail):
                m.d.sync += [
                    active.eq(~empties),
                    waiting.eq(waiting - self.count),
                    self.query.eq(self.query + self.vlanes),
                ]
            with m.Else():
                self._vector(m, left, empties)
        return m

    def _vector(self, m: Module, left: Signal, empties: Signal) -> None:
        """The next group, the next query, or on to the single words."""
        wraps = self.group == self.groups - 1
        m.d.sync += [
            left.eq(Mux(empties, self.m, left - self.vlanes)),
            self.group.eq(Mux(empties | wraps, 0, self.group + 1)),
            self.beat.eq(Mux(empties, 0, self.beat + wraps)),
        ]
        with m.If(empties):
            m.d.sync += self.query.eq(self.query + 1)
            with m.If(self.query + 1 == self.q):
                m.d.sync += [self.tail.eq(1), self.query.eq(0), self.address.eq(self.tail_at)]
