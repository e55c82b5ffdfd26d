"""1/x of a positive integer."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch.numeric import RECIP_TABLE, SEGMENT_BITS
from tokenpath.hw.fixed import delay, normalise
from tokenpath.hw.interpolate import Interpolate

MANTISSA_BITS = 22
REST_BITS = MANTISSA_BITS - 1 - SEGMENT_BITS


def leading(moved: Signal) -> Value:
    """The leading 22 bits of a normalised value."""
    return Cat(Const(0, MANTISSA_BITS), moved)[-MANTISSA_BITS:]


class Reciprocal(wiring.Component):
    """1/m of ``value = m * 2**(length - 1)``, m in [1, 2), exactly numeric.reciprocal.

    value: In(width), positive. Three cycles later: mantissa: Out(17), 16 fraction bits, in [2**15,
    2**16]; length: Out, the bit length of value. A new value each cycle.
    """

    def __init__(self, *, width: int) -> None:
        super().__init__({"value": In(width), "mantissa": Out(17), "length": Out(range(width + 1))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.table = table = Interpolate(nodes=RECIP_TABLE, rest_bits=REST_BITS)
        moved, length = normalise(m, self.value)
        mantissa = delay(m, leading(moved), 1, "normal")
        m.d.comb += [
            table.index.eq(mantissa[REST_BITS:-1]),
            table.rest.eq(mantissa[:REST_BITS]),
            self.mantissa.eq(table.value),
            self.length.eq(delay(m, length, 3, "length")),
        ]
        return m
