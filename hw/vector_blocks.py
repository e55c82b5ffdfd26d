"""A walk over vectors block by block."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch.isa import LENGTH_BITS


class BlockWalk(wiring.Component):
    """Addresses of the words of ``m`` vectors of ``n`` words, which lie back to back.

    Each block of a vector takes max(1, block / vlanes) parts, a part a cycle; ``block`` and
    ``vlanes`` are powers of two.

    start: In(1); src: In(address_bits), n, m: In(24), held from start on, at least 1.
    From the cycle behind start to the one of ``last_part``: active: Out(1); address: Out;
    count: Out, words of this part, perhaps none; first_part, last_part: Out(1), of the block;
    last_block: Out(1), of the vector; ends: Out(1), the very last part.
    """

    def __init__(self, *, vlanes: int, block: int, address_bits: int) -> None:
        self.stride = min(vlanes, block)
        self.parts = block // self.stride
        super().__init__(
            {
                "start": In(1),
                "src": In(address_bits),
                "n": In(LENGTH_BITS),
                "m": In(LENGTH_BITS),
                "active": Out(1),
                "address": Out(address_bits),
                "count": Out(range(self.stride + 1)),
                "first_part": Out(1),
                "last_part": Out(1),
                "last_block": Out(1),
                "ends": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        part = Signal(range(max(self.parts, 2)))
        left, vector = Signal(LENGTH_BITS), Signal(LENGTH_BITS)
        rest = Signal(LENGTH_BITS)
        m.d.comb += [
            self.count.eq(Mux(left > self.stride, self.stride, left)),
            rest.eq(left - self.count),
            self.first_part.eq(part == 0),
            self.last_part.eq(part == self.parts - 1),
            self.last_block.eq(left <= (self.parts - part) * self.stride),
            self.ends.eq(self.last_part & self.last_block & (vector + 1 == self.m)),
        ]
        with m.If(self.start):
            m.d.sync += [
                self.active.eq(1),
                self.address.eq(self.src),
                part.eq(0),
                left.eq(self.n),
                vector.eq(0),
            ]
        with m.Elif(self.active):
            m.d.sync += [
                self.address.eq(self.address + self.count),
                part.eq(Mux(self.last_part, 0, part + 1)),
                left.eq(rest),
            ]
            with m.If(self.last_part & self.last_block):
                m.d.sync += [left.eq(self.n), vector.eq(vector + 1)]
            with m.If(self.ends):
                m.d.sync += self.active.eq(0)
        return m
