"""A sender's count of the free slots in the buffer at the other end of a link."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Credits(wiring.Component):
    """Credits of one virtual channel, ``slots`` at reset.

    Members: ``any`` (there is a credit at the start of the cycle), ``take`` (a flit leaves; only
    with ``any``), ``give`` (a credit came back). Both count from the next cycle on. With ``twice``
    there is the member ``twice``: there are two at the start of the cycle; with ``ahead`` the
    members ``soon`` and ``stays``: there is one in the next cycle if none is taken, if one is.
    """

    def __init__(self, *, slots: int, twice: bool = False, ahead: bool = False) -> None:
        self.slots, self._twice, self._ahead = slots, twice, ahead
        members = {"any": Out(1, init=1), "take": In(1), "give": In(1)}
        if twice:
            members["twice"] = Out(1, init=slots > 1)
        if ahead:
            members |= {"soon": Out(1), "stays": Out(1)}
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = Signal(range(self.slots + 1), init=self.slots)
        if self._ahead:
            m.d.comb += [self.soon.eq(self.any | self.give), self.stays.eq(self.give | (count > 1))]
        with m.If(self.take & ~self.give):
            m.d.sync += [count.eq(count - 1), self.any.eq(count != 1)]
            if self._twice:
                m.d.sync += self.twice.eq(count > 2)
        with m.Elif(self.give & ~self.take):
            m.d.sync += [count.eq(count + 1), self.any.eq(1)]
            if self._twice:
                m.d.sync += self.twice.eq(count != 0)
        return m
