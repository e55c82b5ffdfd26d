"""1 / (1 + e**-x) of a word."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch.numeric import LOG2E, RECIP_TABLE
from tokenpath.hw.exp2 import Exp2
from tokenpath.hw.fixed import WORD_BITS, delay, magnitude, shift_round, wire
from tokenpath.hw.interpolate import Interpolate

FRAC_MIN, FRAC_MAX = 6, 22
LATENCY = 6
HALF = 1 << 15


class Sigmoid(wiring.Component):
    """Sigmoid of a word with ``frac`` fraction bits, exactly numeric.sigmoid.

    word: In(signed(32)); frac: In, 6..22, constant while words are on their way. value: Out(17), 16
    fraction bits, in [0, 2**16], six cycles later, at the end of a multiplier. A new word each
    cycle.
    """

    def __init__(self) -> None:
        super().__init__(
            {"word": In(signed(WORD_BITS)), "frac": In(range(FRAC_MAX + 1)), "value": Out(17)}
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.exp2 = exp2 = Exp2(frac=FRAC_MAX)
        m.submodules.inverse = inverse = Interpolate(nodes=RECIP_TABLE, rest_bits=11)
        product = delay(m, magnitude(m, self.word) * LOG2E, 1, "product")
        exponent = wire(m, -shift_round(m, product, 16), "exponent")
        # The fraction is moved left, the integer part right; 31 halvings leave nothing.
        moved = wire(m, exponent.shift_left(FRAC_MAX) >> self.frac, "moved_exponent")
        fraction = delay(m, moved[:FRAC_MAX], 1, "fraction")
        halvings = wire(m, (-(moved[FRAC_MAX:].as_signed()))[: WORD_BITS + 2], "halvings")
        few = delay(m, Mux(halvings > 31, 31, halvings)[:5], 3, "few")
        m.d.comb += exp2.fraction.eq(fraction)
        # The mantissa has 15 fraction bits: no halving is one place to the left, to 1.0 exactly.
        decay = wire(m, shift_round(m, Cat(Const(0, 1), exp2.mantissa), few)[:17], "decay")
        m.d.comb += [inverse.index.eq(decay[11:16]), inverse.rest.eq(decay[:11])]
        one = delay(m, decay[16], 2, "is_one")
        upper = wire(m, Mux(one, HALF, inverse.value), "upper")
        lower = shift_round(m, delay(m, decay, 2, "decay") * upper, 16)
        negative = delay(m, self.word[-1], LATENCY, "negative")
        m.d.comb += self.value.eq(Mux(negative, lower, upper))
        return m
