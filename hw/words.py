"""Words: scratch and inbox as one space of addresses."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from tokenpath.hw.vector_memory import ReadPort, VectorMemory, WritePort

ADDRESS_BITS = 25
"""Of a word of vector memory: scratch and inbox have at most 2**24 words each."""


class Words(wiring.Component):
    """Vector memory of a tile: ``scratch_words`` words, and ``inbox_words`` behind them.

    An access lies in one of the two as far as its words are used.

    Members
    -------
    reads : array of ``reads`` ``In(ReadPort)``
        Anywhere; ``address`` in t gives ``data`` (``width`` words) in t + 1.
    arrivals : ``In(ReadPort)``
        In the inbox, at an address of this space.
    write : ``In(WritePort)``, arrive : ``In(WritePort)``
        To the scratch; to the inbox. In t, visible to reads with their address in t + 1.
    """

    def __init__(self, *, scratch_words: int, inbox_words: int, width: int, reads: int) -> None:
        self.scratch_words = scratch_words
        self.scratch = VectorMemory(words=scratch_words, width=width, reads=reads)
        self.inbox = VectorMemory(words=inbox_words, width=width, reads=reads + 1)
        shape: dict[str, Any] = {"address_bits": ADDRESS_BITS, "width": width}
        super().__init__(
            {
                "reads": In(ReadPort(**shape)).array(reads),
                "arrivals": In(ReadPort(**shape)),
                "write": In(WritePort(**shape)),
                "arrive": In(WritePort(**shape)),
            }
        )

    def row(self, address: int) -> Any:
        """The row of a memory that holds a word, for a simulator's get and set."""
        if address < self.scratch_words:
            return self.scratch.row(address)
        return self.inbox.row(address - self.scratch_words)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.scratch, m.submodules.inbox = scratch, inbox = self.scratch, self.inbox
        for index, read in enumerate(self.reads):
            low, high = scratch.reads[index], inbox.reads[index]
            behind = Signal(name=f"behind{index}", reset_less=True)
            m.d.sync += behind.eq(read.address >= self.scratch_words)
            m.d.comb += [
                low.address.eq(read.address),
                high.address.eq(read.address - self.scratch_words),
                read.data.eq(Mux(behind, high.data.as_value(), low.data.as_value())),
            ]
        last = inbox.reads[len(self.reads)]
        m.d.comb += [
            last.address.eq(self.arrivals.address - self.scratch_words),
            self.arrivals.data.eq(last.data),
            inbox.write.address.eq(self.arrive.address - self.scratch_words),
            inbox.write.data.eq(self.arrive.data),
            inbox.write.count.eq(self.arrive.count),
            scratch.write.address.eq(self.write.address),
            scratch.write.data.eq(self.write.data),
            scratch.write.count.eq(self.write.count),
        ]
        return m
