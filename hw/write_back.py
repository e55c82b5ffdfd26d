"""WriteBack: the one write port through which the lanes' results reach vector memory."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tokenpath.hw.arch.isa import Op
from tokenpath.hw.beat import at_most, words_layout
from tokenpath.hw.drain import Drain
from tokenpath.hw.vector_memory import WritePort


class WriteBack(wiring.Component):
    """Writes sums of DOT and words of LOAD as they come, and what SCORE and AXPY hold at the end.

    Members
    -------
    start : ``In(1)``, op : ``In(5)``, dst, aux : ``In(32)``, m : ``In(length_bits)``, q : ``In(8)``
        Pulse, and the operands of the operation, held.
    empty : ``In(1)``
        The operation has no rows: accumulators read as zeros. Held.
    drain_start : ``In(1)``, drain_last : ``Out(1)``
        See :class:`Drain`. SCORE's maxima are written with their count, AXPY's words 2 cycles
        behind it.
    drain_index : ``Out``, sums : ``In(ArrayLayout(words_layout(lanes), queries))``
        Accumulator beat to read, and in the next cycle the words of all queries.
    maxima, totals : ``In(words_layout(queries))``
        Running maxima and sums of p.
    done : ``In(1)``, result : ``In(signed(32))``
        A sum of DOT.
    count : ``In(range(vlanes + 1))``, words : ``In(words_layout(vlanes))``
        Words of LOAD.
    write : ``Out(WritePort)``
    """

    def __init__(
        self,
        *,
        lanes: int,
        queries: int,
        vlanes: int,
        accumulator_beats: int,
        address_bits: int,
        length_bits: int,
    ) -> None:
        self.queries, self.vlanes = queries, vlanes
        self.drain = Drain(
            lanes=lanes,
            vlanes=vlanes,
            queries=queries,
            beats=accumulator_beats,
            address_bits=address_bits,
            length_bits=length_bits,
        )
        super().__init__(
            {
                "start": In(1),
                "op": In(5),
                "dst": In(32),
                "aux": In(32),
                "m": In(length_bits),
                "q": In(8),
                "empty": In(1),
                "drain_start": In(1),
                "drain_last": Out(1),
                "drain_index": Out(ceil_log2(accumulator_beats)),
                "sums": In(data.ArrayLayout(words_layout(lanes), queries)),
                "maxima": In(words_layout(queries)),
                "totals": In(words_layout(queries)),
                "done": In(1),
                "result": In(signed(32)),
                "count": In(range(vlanes + 1)),
                "words": In(words_layout(vlanes)),
                "write": Out(WritePort(address_bits=address_bits, width=vlanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        drain, write = self._drain(m), self.write
        address = Signal.like(write.address, name="next_address")
        with m.Switch(self.op):
            with m.Case(Op.DOT):
                m.d.comb += [
                    write.address.eq(address),
                    write.count.eq(self.done),
                    write.data[0].eq(self.result),
                ]
            with m.Case(Op.LOAD):
                m.d.comb += [
                    write.address.eq(address),
                    write.count.eq(self.count),
                    write.data.eq(self.words),
                ]
            with m.Case(Op.SCORE):
                m.d.comb += [
                    write.address.eq(drain.address),
                    write.count.eq(drain.count),
                    write.data.as_value().eq(self._chosen(self.maxima, drain.query)),
                ]
            with m.Case(Op.AXPY):
                self._weighted(m)
        with m.If(self.start):
            m.d.sync += address.eq(self.dst)
        with m.Else():
            m.d.sync += address.eq(address + write.count)
        return m

    def _drain(self, m: Module) -> Drain:
        m.submodules.drain = drain = self.drain
        scored = self.op == Op.SCORE
        m.d.comb += [
            drain.start.eq(self.drain_start),
            drain.vectors.eq(~scored),
            drain.q.eq(self.q),
            drain.m.eq(self.m),
            drain.vectors_at.eq(self.dst),
            drain.tail_at.eq(Mux(scored, self.dst, self.aux)),
            self.drain_last.eq(drain.last),
            self.drain_index.eq(drain.beat),
        ]
        return drain

    def _weighted(self, m: Module) -> None:
        """AXPY, two stages behind the walk: read the accumulators, choose words, write.

        The stages move only during an AXPY, so that they never hold a walk of SCORE.
        """
        names = ("address", "count", "query", "group", "tail")
        now = {name: Signal.like(getattr(self.drain, name), name=f"{name}_read") for name in names}
        for name, signal in now.items():
            m.d.sync += signal.eq(getattr(self.drain, name))
        address = Signal.like(now["address"], name="address_chosen")
        count = Signal.like(now["count"], name="count_chosen")
        chosen = Signal(32 * self.vlanes)
        sums = Array(self.sums[i].as_value() for i in range(self.queries))
        vector = sums[at_most(now["query"], self.queries - 1)]
        vector = vector.word_select(now["group"], 32 * self.vlanes)
        total = self._chosen(self.totals, now["query"])
        m.d.sync += [
            address.eq(now["address"]),
            count.eq(now["count"]),
            chosen.eq(Mux(now["tail"], total, Mux(self.empty, 0, vector))),
        ]
        m.d.comb += [
            self.write.address.eq(address),
            self.write.count.eq(count),
            self.write.data.as_value().eq(chosen),
        ]

    def _chosen(self, words: data.View, first: Value) -> Value:
        """``vlanes`` of the queries' words from query ``first`` on, a multiple of ``vlanes``."""
        starts = range(0, self.queries, self.vlanes)
        groups = [Cat(words[i] for i in range(self.queries)[s : s + self.vlanes]) for s in starts]
        if len(groups) == 1:
            return groups[0]
        return Array(groups)[at_most(first // self.vlanes, len(groups) - 1)]
