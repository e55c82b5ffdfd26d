"""A wire of several cycles between two routers."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tokenpath.hw.flit import channel

MOST_REGISTERS = 4
"""Longer delays of a flit's data use a memory as a ring instead of a chain of registers."""


class Link(wiring.Component):
    """One way of a link of ``latency`` cycles, and its credits' way back.

    Members: ``i`` (from the sender) and ``o`` (to the receiver), channels of ``flit_words``,
    ``vcs`` and ``lanes``. What enters in t leaves in t + latency - 1, so that a flit that a router
    grants in t is in the next one's buffer at the start of t + latency, and a credit likewise.
    A latency of 1 is wires. It takes a flit a cycle; the sender keeps to ``cycles_per_flit``.
    """

    def __init__(self, *, latency: int, flit_words: int, vcs: int, lanes: int) -> None:
        self.latency = latency
        signature = channel(flit_words=flit_words, vcs=vcs, lanes=lanes)
        super().__init__({"i": In(signature), "o": Out(signature)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        delay = self.latency - 1
        flit = self.i.flit.as_value()
        m.d.comb += [
            self.o.valid.eq(_shifted(m, "valid", self.i.valid, delay)),
            self.i.credit.eq(_shifted(m, "credit", self.o.credit, delay)),
        ]
        if delay > MOST_REGISTERS:
            m.d.comb += self.o.flit.as_value().eq(_ring(m, flit, delay))
        else:
            m.d.comb += self.o.flit.as_value().eq(_shifted(m, "flit", flit, delay, reset_less=True))
        return m


def _shifted(m: Module, name: str, value: Value, delay: int, *, reset_less: bool = False) -> Value:
    """``value``, ``delay`` cycles late, through registers."""
    if delay == 0:
        return value
    width = len(value)
    registers = Signal(width * delay, name=name, reset_less=reset_less)
    m.d.sync += registers.eq(Cat(value, registers)[: width * delay])
    return registers[-width:]


def _ring(m: Module, value: Value, delay: int) -> Value:
    """``value``, ``delay`` cycles late, through a memory that is read where it is written next."""
    m.submodules.ring = memory = Memory(shape=len(value), depth=delay, init=[])
    write, read = memory.write_port(), memory.read_port(domain="comb")
    at = Signal(range(delay))
    with m.If(at == delay - 1):
        m.d.sync += at.eq(0)
    with m.Else():
        m.d.sync += at.eq(at + 1)
    m.d.comb += [write.en.eq(1), write.addr.eq(at), write.data.eq(value), read.addr.eq(at)]
    return read.data
