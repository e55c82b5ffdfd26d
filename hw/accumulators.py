"""Accumulators: the weighted sum of rows that AXPY builds for one query."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.beat import words_layout


class Accumulators(wiring.Component):
    """``beats`` beats of ``lanes`` words, read, added to and written at one beat a cycle.

    Members
    -------
    valid : ``In(1)``, index : ``In(range(beats))``
        A beat's terms follow in the next cycle and go to accumulator beat ``index``.
    fresh : ``In(1)``
        With ``valid``: they replace what is there.
    terms : ``In(words_layout(lanes))``
        One cycle after their ``valid``; sums are modulo 2**32.
    drain_index : ``In(range(beats))``
        Beat to read in a cycle without ``valid``.
    words : ``Out(words_layout(lanes))``
        In the next cycle. A sum is there to read 2 cycles after its last ``valid``.
    """

    def __init__(self, *, lanes: int, beats: int) -> None:
        self.lanes, self.beats = lanes, beats
        super().__init__(
            {
                "valid": In(1),
                "index": In(range(beats)),
                "fresh": In(1),
                "terms": In(words_layout(lanes)),
                "drain_index": In(range(beats)),
                "words": Out(words_layout(lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = store = memory.Memory(
            shape=words_layout(self.lanes), depth=self.beats, init=[]
        )
        write = store.write_port()
        read = store.read_port(transparent_for=[write])
        adding, fresh, index = Signal(), Signal(), Signal.like(self.index)
        m.d.sync += [adding.eq(self.valid), fresh.eq(self.fresh), index.eq(self.index)]
        m.d.comb += [
            read.en.eq(1),
            read.addr.eq(Mux(self.valid, self.index, self.drain_index)),
            self.words.eq(read.data),
            write.en.eq(adding),
            write.addr.eq(index),
        ]
        for lane in range(self.lanes):
            before = Mux(fresh, 0, read.data[lane])
            m.d.comb += write.data[lane].eq((before + self.terms[lane])[:32].as_signed())
        return m
