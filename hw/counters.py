"""Counters: how often each of some events happened, for the host to read."""

from collections.abc import Sequence

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Counters(wiring.Component):
    """One counter for each event, ``bits`` wide, from 0 at reset; it wraps and is never cleared.

    Members
    -------
    events : ``In(1)`` by name
        Counted in each cycle in which it is high.
    address : ``In(range(count))``, word : ``Out(bits)``
        ``word`` in t + 1 is the counter of the event with number ``address`` in t, in the order of
        ``events``, as it was at the start of t.

    ``totals`` are the counters themselves, for a simulator.
    """

    def __init__(self, *, events: Sequence[str], bits: int = 32) -> None:
        self.events, self.bits = tuple(events), bits
        self.totals = [Signal(bits, name=f"{name}_total") for name in self.events]
        names = {name: In(1) for name in self.events}
        count = max(2, len(self.events))
        super().__init__(names | {"address": In(range(count)), "word": Out(bits)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name, total in zip(self.events, self.totals, strict=True):
            with m.If(getattr(self, name)):
                m.d.sync += total.eq(total + 1)
        m.d.sync += self.word.eq(Array(self.totals)[self.address])
        return m
