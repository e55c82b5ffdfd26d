"""BlockSum: from products of lanes to one number a row, each block rounded once."""

from amaranth.hdl import Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tokenpath.hw.beat import tree_sum
from tokenpath.hw.scale import Scale, places, places_bits


class BlockSum(wiring.Component):
    """Sums products by block, scales and rounds each sum, adds the terms of a row's beats.

    Latency ``LATENCY`` = 6 cycles from a row's last beat to its sum, one beat a cycle: half the
    tree, the other half, scale, shift, round and clamp, accumulate.

    Members
    -------
    valid, first, last : ``In(1)``
        A beat; it begins a row; it ends one.
    products : ``In(ArrayLayout(signed(product_bits), lanes))``
    mantissas : ``In(ArrayLayout(unsigned(mantissa_bits), blocks))``
        Factor of each block's sum.
    downs : ``In(ArrayLayout(signed(down_bits), blocks))``
        Right shift of each block's sum times its factor.
    limit : ``In(31)``
        Largest magnitude of a term, held.
    sum : ``Out(signed(sum_bits))``, done : ``Out(1)``
        Exact sum of a row's terms, with ``done`` in the one cycle in which it is complete.
    clamped : ``Out(range(blocks + 1))``
        How many terms of a beat were clamped, 6 cycles after it.
    """

    LATENCY = 6

    def __init__(
        self,
        *,
        lanes: int,
        block: int,
        product_bits: int,
        mantissa_bits: int,
        down_bits: int,
        row_beats: int,
    ) -> None:
        self.block, self.blocks = block, lanes // block
        self.block_bits = product_bits + ceil_log2(block)
        self.width = self.block_bits + mantissa_bits
        sum_bits = 32 + ceil_log2(self.blocks * row_beats)
        super().__init__(
            {
                "valid": In(1),
                "first": In(1),
                "last": In(1),
                "products": In(data.ArrayLayout(signed(product_bits), lanes)),
                "mantissas": In(data.ArrayLayout(unsigned(mantissa_bits), self.blocks)),
                "downs": In(data.ArrayLayout(signed(down_bits), self.blocks)),
                "limit": In(31),
                "sum": Out(signed(sum_bits)),
                "done": Out(1),
                "clamped": Out(range(self.blocks + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.scale = scale = Scale(count=self.blocks, groups=self.blocks, width=self.width)
        m.d.comb += scale.limit.eq(self.limit)
        for b in range(self.blocks):
            self._block(m, b, scale)
        valid, first, last = self.valid, self.first, self.last
        for stage in range(1, 6):
            flags = [Signal(name=f"{name}{stage}") for name in ("valid", "first", "last")]
            m.d.sync += [flags[0].eq(valid), flags[1].eq(first), flags[2].eq(last)]
            valid, first, last = flags
        total = tree_sum([scale.terms[b] for b in range(self.blocks)])
        with m.If(valid):
            m.d.sync += self.sum.eq(Mux(first, 0, self.sum) + total)
        clamped = tree_sum([scale.clamped[b] for b in range(self.blocks)])
        m.d.sync += [self.done.eq(valid & last), self.clamped.eq(Mux(valid, clamped, 0))]
        return m

    def _block(self, m: Module, b: int, scale: Scale) -> None:
        """One block: two halves of the adder tree, then the factor; its shift keeps pace."""
        products = [self.products[b * self.block + i] for i in range(self.block)]
        group = 1 << (ceil_log2(self.block) // 2)
        parts = []
        for i in range(0, self.block, group):
            part = Signal(signed(self.block_bits), name=f"part{b}_{i}")
            m.d.sync += part.eq(tree_sum(products[i : i + group]))
            parts.append(part)
        total = Signal(signed(self.block_bits), name=f"total{b}")
        factors = [Signal.like(self.mantissas[b], name=f"factor{b}_{i}") for i in range(2)]
        shifts = [Signal(places_bits(self.width), name=f"places{b}_{i}") for i in range(3)]
        m.d.sync += [
            total.eq(tree_sum(parts)),
            factors[0].eq(self.mantissas[b]),
            factors[1].eq(factors[0]),
            scale.values[b].eq(total * factors[1]),
            shifts[0].eq(places(self.downs[b], self.width)),
            shifts[1].eq(shifts[0]),
            shifts[2].eq(shifts[1]),
        ]
        m.d.comb += scale.places[b].eq(shifts[2])
