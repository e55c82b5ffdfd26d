"""Maxima: reads the maxima of AXPY's queries from vector memory."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.beat import words_layout
from tokenpath.hw.vector_memory import ReadPort


class Maxima(wiring.Component):
    """Reads one word for each query, ``vlanes`` a cycle, from the cycle behind ``start`` on.

    Members
    -------
    start : ``In(1)``, src : ``In(32)``
        Pulse, and the address of the first word.
    read : ``Out(ReadPort)``
        Addresses from t + 1 on.
    maxima : ``Out(words_layout(queries))``
        Query i's from t + 3 + i // ``vlanes`` on.
    """

    def __init__(self, *, queries: int, vlanes: int, address_bits: int) -> None:
        self.queries, self.vlanes = queries, vlanes
        super().__init__(
            {
                "start": In(1),
                "src": In(32),
                "read": Out(ReadPort(address_bits=address_bits, width=vlanes)),
                "maxima": Out(words_layout(queries)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        passes = -(-self.queries // self.vlanes)
        turns = Signal(passes + 2)  # bit i: i + 1 cycles behind the start
        m.d.sync += [
            turns.eq((turns << 1) | self.start),
            self.read.address.eq(self.read.address + self.vlanes),
        ]
        with m.If(self.start):
            m.d.sync += self.read.address.eq(self.src)
        for i in range(self.queries):
            with m.If(turns[1 + i // self.vlanes]):
                m.d.sync += self.maxima[i].eq(self.read.data[i % self.vlanes])
        return m
