"""Piecewise linear tables: nodes in a ROM, the point between two of them by one multiplication."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tokenpath.hw.fixed import shift_round


class Interpolate(wiring.Component):
    """The point ``rest / 2**rest_bits`` of the way from node ``index`` to the next one.

    ``nodes``: positive, one or more runs of 2**k + 1 (``runs`` tells how many); segments are
    counted through all runs. Exactly :func:`tokenpath.hw.arch.numeric.interpolate`.

    index: In(log2 of the segments), rest: In(rest_bits); value: Out(bits of the largest node).
    ``value`` follows two cycles later; a new point each cycle.
    """

    def __init__(self, *, nodes: Sequence[int], runs: int = 1, rest_bits: int) -> None:
        size = len(nodes) // runs
        starts = [i for i in range(len(nodes)) if i % size < size - 1]
        self.segments = [(nodes[i], nodes[i + 1] - nodes[i]) for i in starts]
        self.node_bits = max(nodes).bit_length()
        self.step_bits = max(abs(step) for _, step in self.segments).bit_length() + 1
        super().__init__(
            {
                "index": In(range(len(self.segments))),
                "rest": In(rest_bits),
                "value": Out(self.node_bits),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        mask = (1 << self.step_bits) - 1
        words = [low | (step & mask) << self.node_bits for low, step in self.segments]
        width = self.node_bits + self.step_bits
        m.submodules.rom = rom = Memory(shape=width, depth=len(words), init=words)
        node = rom.read_port(domain="comb")
        m.d.comb += node.addr.eq(self.index)
        step = node.data[self.node_bits :].as_signed()
        low = Signal(self.node_bits, reset_less=True)
        product = Signal(signed(self.step_bits + len(self.rest)), reset_less=True)
        m.d.sync += [
            low.eq(node.data[: self.node_bits]),
            product.eq(step * Cat(self.rest, 0).as_signed()),
            self.value.eq(low + shift_round(m, product, len(self.rest))),
        ]
        return m
