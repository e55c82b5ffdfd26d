"""Two multipliers a lane with a rounding shift behind each: the arithmetic of the vector unit."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch.numeric import ROPE_FRAC
from tokenpath.hw.beat import words_layout
from tokenpath.hw.fixed import WORD_BITS, delay, saturate, shift_round, wire

PRODUCT_BITS = 50
"""Width of the products that are shifted by a variable; a factor of them has at most 18 bits."""

SHIFT_LEFT_MAX, SHIFT_RIGHT_MAX = 30, 63
GAIN_SHIFT_MAX = 31


class VectorChain(wiring.Component):
    """Scale words, or turn pairs of them; a pipeline with an input each cycle, in order.

    Without ``rotate``, scaled = sat(round(words * factors / 2**shift)) in three cycles and result =
    sat(round(scaled * gains / 2**gain_shift)) in five; words * factors must be below 2**49. With
    ``rotate``, lane 2i holds a, lane 2i + 1 holds b, factors are their cosine, gains their sine:
    scaled = (a cos - b sin, a sin + b cos) with numeric.ROPE_FRAC bits less, saturated.

    words, factors, gains: In(array of words); shift: In(signed(8)), -30..63.
    rotate: In(1), gain_shift: In(5): constant while words are on their way.
    products: Out(array of signed(64)), words * factors, two cycles later.
    scaled: Out(array of words), three cycles later; result: Out(array of words), five.
    """

    def __init__(self, *, vlanes: int) -> None:
        self.vlanes, words = vlanes, words_layout(vlanes)
        super().__init__(
            {
                "words": In(words),
                "factors": In(words),
                "gains": In(words),
                "shift": In(signed(8)),
                "rotate": In(1),
                "gain_shift": In(range(GAIN_SHIFT_MAX + 1)),
                "products": Out(data.ArrayLayout(signed(2 * WORD_BITS), vlanes)),
                "scaled": Out(words),
                "result": Out(words),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shift = delay(m, self.shift, 2, "shift")
        words = [delay(m, self.words[i], 1, f"word{i}") for i in range(self.vlanes)]
        for lane in range(self.vlanes):
            self._lane(m, lane, words, shift)
        return m

    def _lane(self, m: Module, lane: int, words: list[Any], shift: Any) -> None:
        factor = delay(m, self.factors[lane], 1, f"factor{lane}")
        gain = delay(m, self.gains[lane], 1, f"gain{lane}")
        late_gain = delay(m, gain, 2, f"late_gain{lane}")
        scaled = Signal(signed(WORD_BITS), name=f"scaled{lane}", reset_less=True)
        first = Signal(signed(2 * WORD_BITS), name=f"first{lane}", reset_less=True)
        second = Signal(signed(2 * WORD_BITS), name=f"second{lane}", reset_less=True)
        # The second multiplier turns pairs beside the first one, or else works behind it.
        left = wire(m, Mux(self.rotate, words[lane ^ 1], scaled), f"left{lane}")
        right = wire(m, Mux(self.rotate, gain, late_gain), f"right{lane}")
        m.d.sync += [first.eq(words[lane] * factor), second.eq(left * right)]
        turned = wire(m, first + second if lane % 2 else first - second, f"turned{lane}")
        turned = saturate(m, shift_round(m, turned, ROPE_FRAC))
        narrow = first[:PRODUCT_BITS].as_signed()
        straight = saturate(m, shift_round(m, narrow, shift, left=SHIFT_LEFT_MAX))
        result = saturate(m, shift_round(m, second, self.gain_shift))
        m.d.sync += [scaled.eq(Mux(self.rotate, turned, straight)), self.result[lane].eq(result)]
        m.d.comb += [self.products[lane].eq(first), self.scaled[lane].eq(scaled)]
