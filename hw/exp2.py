"""2**x of a fraction."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch.numeric import EXP2_TABLE, SEGMENT_BITS
from tokenpath.hw.interpolate import Interpolate


class Exp2(wiring.Component):
    """2**(fraction / 2**frac), exactly :func:`tokenpath.hw.arch.numeric.exp2_mantissa`.

    A fraction with fewer bits may be moved left to ``frac`` of them: the result is the same.

    fraction: In(frac), frac > 5; mantissa: Out(17), 15 fraction bits, in [2**15, 2**16], two cycles
    later; a new one each cycle.
    """

    def __init__(self, *, frac: int) -> None:
        self.rest_bits = frac - SEGMENT_BITS
        if self.rest_bits < 1:
            raise ValueError(f"frac {frac} is too small; give more than {SEGMENT_BITS}")
        super().__init__({"fraction": In(frac), "mantissa": Out(17)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.table = table = Interpolate(nodes=EXP2_TABLE, rest_bits=self.rest_bits)
        m.d.comb += [
            table.index.eq(self.fraction[self.rest_bits :]),
            table.rest.eq(self.fraction[: self.rest_bits]),
            self.mantissa.eq(table.value),
        ]
        return m
