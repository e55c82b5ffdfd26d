"""QueryLanes: the multipliers of one query, with what DOT and AXPY do to their products."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.accumulators import Accumulators
from tokenpath.hw.beat import (
    beat_layout,
    scale_exponent,
    scale_mantissa,
    tree_sum,
    words_layout,
)
from tokenpath.hw.block_sum import BlockSum
from tokenpath.hw.scale import Scale, places


class QueryLanes(wiring.Component):
    """One array of ``lanes`` multipliers, a beat a cycle.

    DOT and SCORE: elements times the operand's elements, summed by block; the sum of a row whose
    last beat is taken in cycle C is at ``sum`` in C + 8. AXPY: elements times (weight times scale
    mantissa), accumulated; complete for a drain address in C + 5.

    Members
    -------
    taken : ``In(1)``
        A beat is consumed in this cycle C, with its
    codes : ``In(ArrayLayout(signed(scale_bits), blocks))``, first, last, first_row : ``In(1)``,
    index : ``In(range(accumulator_beats))``, mantissa : ``In(act_bits)``, shift : ``In(signed)``
        scales, place in the rows and weight, and in C + 1 its
    elements : ``In(ArrayLayout(signed(element_bits), lanes))``, operand : ``In(layout)``
        elements and the beat of the resident vector.
    adds, scored, enabled : ``In(1)``
        AXPY; SCORE (the mantissa bits of the KV cache); clamped terms count. Held.
    dot_frac, add_frac : ``In(signed(9))``
        Fraction bits of the result: mantissa bits less those of the instruction. Held.
    limit : ``In(31)``
        Largest magnitude of a term, held.
    sum : ``Out(signed)``, done : ``Out(1)``
        See :class:`BlockSum`.
    clamped : ``Out(range(lanes + 1))``
        How many terms were clamped in a beat, some cycles ago.
    drain_index : ``In(range(accumulator_beats))``, words : ``Out(words_layout(lanes))``
        See :class:`Accumulators`.
    """

    def __init__(
        self,
        *,
        lanes: int,
        block: int,
        element_bits: int,
        act_bits: int,
        scale_bits: int,
        weight_mantissa_bits: int,
        kv_mantissa_bits: int,
        act_mantissa_bits: int,
        shift_bits: int,
        operand_beats: int,
        accumulator_beats: int,
    ) -> None:
        self.lanes, self.block, self.blocks = lanes, block, lanes // block
        self.element_bits, self.act_bits, self.accumulator_beats = (
            element_bits,
            act_bits,
            accumulator_beats,
        )
        self.k_weight, self.k_kv, self.k_act = (
            weight_mantissa_bits,
            kv_mantissa_bits,
            act_mantissa_bits,
        )
        self.k_row = max(weight_mantissa_bits, kv_mantissa_bits)
        self.factor_bits = act_bits + kv_mantissa_bits + 1
        self.down_bits = max(shift_bits, scale_bits) + 3
        self.block_sum = BlockSum(
            lanes=lanes,
            block=block,
            product_bits=element_bits + act_bits,
            mantissa_bits=self.k_row + 1 + act_mantissa_bits + 1,
            down_bits=self.down_bits,
            row_beats=operand_beats,
        )
        operand = beat_layout(
            lanes=lanes, block=block, element_bits=act_bits, scale_bits=scale_bits
        )
        super().__init__(
            {
                "taken": In(1),
                "codes": In(data.ArrayLayout(signed(scale_bits), self.blocks)),
                "first": In(1),
                "last": In(1),
                "first_row": In(1),
                "index": In(range(accumulator_beats)),
                "mantissa": In(act_bits),
                "shift": In(signed(shift_bits)),
                "elements": In(data.ArrayLayout(signed(element_bits), lanes)),
                "operand": In(operand),
                "adds": In(1),
                "scored": In(1),
                "enabled": In(1),
                "dot_frac": In(signed(9)),
                "add_frac": In(signed(9)),
                "limit": In(31),
                "sum": Out(self.block_sum.sum.shape()),
                "done": Out(1),
                "clamped": Out(range(lanes + 1)),
                "drain_index": In(range(accumulator_beats)),
                "words": Out(words_layout(lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        factor_bits = self.factor_bits
        multiplier = signed(max(self.act_bits, factor_bits + 1))
        products = [
            Signal(signed(self.element_bits + multiplier.width), name=f"product{lane}")
            for lane in range(self.lanes)
        ]
        factors = [Signal(factor_bits, name=f"factor{b}") for b in range(self.blocks)]
        for lane, product in enumerate(products):
            other = Signal(multiplier, name=f"multiplier{lane}")
            factor = factors[lane // self.block]
            m.d.comb += other.eq(Mux(self.adds, factor, self.operand.elements[lane]))
            m.d.sync += product.eq(self.elements[lane] * other)
        taken = self._delayed(m, self.taken, 3, "taken")
        summed = self._sums(m, products, taken)
        added = self._additions(m, products, factors, taken)
        m.d.sync += self.clamped.eq(Mux(self.enabled, Mux(self.adds, added, summed), 0))
        return m

    @staticmethod
    def _delayed(m: Module, value: Signal, cycles: int, name: str) -> list[Signal]:
        """``value`` as it is, one cycle later and so on."""
        stages = [value]
        for cycle in range(cycles):
            later = Signal.like(value, name=f"{name}{cycle + 1}")
            m.d.sync += later.eq(stages[-1])
            stages.append(later)
        return stages

    def _sums(self, m: Module, products: list[Signal], taken: list[Signal]) -> Signal:
        """DOT and SCORE: products by block, times both scales."""
        m.submodules.block_sum = blocks = self.block_sum
        m.d.comb += [
            blocks.valid.eq(taken[2] & ~self.adds),
            blocks.first.eq(self._delayed(m, self.first, 2, "first")[2]),
            blocks.last.eq(self._delayed(m, self.last, 2, "last")[2]),
            blocks.limit.eq(self.limit),
            self.sum.eq(blocks.sum),
            self.done.eq(blocks.done),
            *(blocks.products[i].eq(product) for i, product in enumerate(products)),
        ]
        for b in range(self.blocks):
            code, other = self.codes[b], self.operand.scales[b]
            mantissa = Signal(self.k_row + 1, name=f"mantissa{b}")
            exponent = Signal.like(code, name=f"exponent{b}")
            choices = [(scale_mantissa(code, k), scale_exponent(code, k)) for k in self._row_bits()]
            m.d.sync += [
                mantissa.eq(Mux(self.scored, choices[1][0], choices[0][0])),
                exponent.eq(Mux(self.scored, choices[1][1], choices[0][1])),
                blocks.mantissas[b].eq(mantissa * scale_mantissa(other, self.k_act)),
                blocks.downs[b].eq(self.dot_frac - exponent - scale_exponent(other, self.k_act)),
            ]
        return blocks.clamped

    def _row_bits(self) -> tuple[int, int]:
        """Mantissa bits of the scales of DOT's and of SCORE's rows."""
        return self.k_weight, self.k_kv

    def _additions(
        self, m: Module, products: list[Signal], factors: list[Signal], taken: list[Signal]
    ) -> Signal:
        """AXPY: products on the grid of the weighted sums, added to the accumulators."""
        width = len(products[0])
        m.submodules.scale = scale = Scale(count=self.lanes, groups=self.blocks, width=width)
        m.submodules.accumulators = accumulators = Accumulators(
            lanes=self.lanes, beats=self.accumulator_beats
        )
        for b in range(self.blocks):
            code, k = self.codes[b], self.k_kv
            down = Signal(signed(self.down_bits), name=f"down{b}")
            m.d.sync += [
                factors[b].eq(self.mantissa * scale_mantissa(code, k)),
                down.eq(self.shift + self.add_frac - scale_exponent(code, k)),
                scale.places[b].eq(places(down, width)),
            ]
        adding = taken[3] & self.adds
        m.d.comb += [
            *(scale.values[i].eq(product) for i, product in enumerate(products)),
            scale.limit.eq(self.limit),
            accumulators.valid.eq(adding),
            accumulators.index.eq(self._delayed(m, self.index, 3, "index")[3]),
            accumulators.fresh.eq(self._delayed(m, self.first_row, 3, "first_row")[3]),
            accumulators.terms.eq(scale.terms),
            accumulators.drain_index.eq(self.drain_index),
            self.words.eq(accumulators.words),
        ]
        scaled = Signal()
        m.d.sync += scaled.eq(adding)
        return Mux(scaled, tree_sum([scale.clamped[i] for i in range(self.lanes)]), 0)
