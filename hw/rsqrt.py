"""1/sqrt(x) of a positive integer."""

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch.numeric import RSQRT_TABLE
from tokenpath.hw.fixed import delay, normalise
from tokenpath.hw.interpolate import Interpolate
from tokenpath.hw.reciprocal import REST_BITS, leading


class Rsqrt(wiring.Component):
    """1/sqrt(m) of ``value = m * 4**half``, m in [1, 4), exactly numeric.rsqrt of a positive value.

    value: In(width), positive. Three cycles later: mantissa: Out(17), 16 fraction bits, in [2**15,
    2**16]; half: Out. A new value each cycle.
    """

    def __init__(self, *, width: int) -> None:
        half = range((width - 1) // 2 + 1)
        super().__init__({"value": In(width), "mantissa": Out(17), "half": Out(half)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.table = table = Interpolate(nodes=RSQRT_TABLE, runs=2, rest_bits=REST_BITS)
        moved, length = normalise(m, self.value)
        mantissa = delay(m, leading(moved), 1, "normal")
        odd_power = delay(m, ~length[0], 1, "odd_power")
        m.d.comb += [
            table.index.eq(Cat(mantissa[REST_BITS:-1], odd_power)),
            table.rest.eq(mantissa[:REST_BITS]),
            self.mantissa.eq(table.value),
            self.half.eq(delay(m, (length - 1)[1:], 3, "half")),
        ]
        return m
