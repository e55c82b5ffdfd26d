"""The factor of RMSNorm: sum of squares, 1/sqrt, root."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch.numeric import SQUARE_SHIFT
from tokenpath.hw.beat import tree_sum, words_layout
from tokenpath.hw.fixed import WORD_BITS, clamp, delay, shift_round, wire
from tokenpath.hw.rsqrt import Rsqrt
from tokenpath.hw.vector_chain import SHIFT_LEFT_MAX, SHIFT_RIGHT_MAX

SQUARES_MAX = 1 << 48
ROOT_BITS = 17


class RmsFactor(wiring.Component):
    """What a vector's words are multiplied with and shifted by: numeric.rms_factor, rms_shift.

    squares: In(array of signed(64)), words squared, the first ``count`` of which are summed.
    load: In(1): forget the sum; ``constants``: In(array of words) holds n * eps and the root (its
    low 17 bits are used). load_exponent: In(1): constants[0] is the exponent of the root.
    frac_out: In(signed(8)), fraction bits of the results.

    factor: Out(18), at the end of a multiplier; shift: Out(signed(8)), -30..63: of all squares that
    came until five cycles before, of the root and of the exponent that came until one before.
    """

    def __init__(self, *, vlanes: int) -> None:
        super().__init__(
            {
                "squares": In(data.ArrayLayout(signed(2 * WORD_BITS), vlanes)),
                "count": In(range(vlanes + 1)),
                "constants": In(words_layout(vlanes)),
                "load": In(1),
                "load_exponent": In(1),
                "frac_out": In(signed(8)),
                "factor": Out(ROOT_BITS + 1),
                "shift": Out(signed(8)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        root = Signal(ROOT_BITS, reset_less=True)
        exponent = Signal(signed(WORD_BITS), reset_less=True)
        total = Signal(signed(2 * WORD_BITS), reset_less=True)
        m.d.sync += total.eq(total + self._beat(m))
        with m.If(self.load):
            m.d.sync += [total.eq(self.constants[0]), root.eq(self.constants[1])]
        with m.If(self.load_exponent):
            m.d.sync += exponent.eq(self.constants[0])
        m.submodules.rsqrt = rsqrt = Rsqrt(width=2 * WORD_BITS - 1)
        shift = 16 + (SQUARE_SHIFT >> 1) + rsqrt.half - self.frac_out - exponent
        clamped = clamp(m, wire(m, shift, "any_shift"), -SHIFT_LEFT_MAX, SHIFT_RIGHT_MAX)
        m.d.comb += [
            rsqrt.value.eq(Mux(total < 1, 1, total)),
            self.factor.eq(shift_round(m, wire(m, rsqrt.mantissa * root, "product"), 16)),
            self.shift.eq(clamped),
        ]
        return m

    def _beat(self, m: Module) -> Signal:
        """The sum of this cycle's squares, a cycle later."""
        terms: list[Value] = []
        for lane, product in enumerate(self.squares):
            square = shift_round(m, product.as_unsigned(), SQUARE_SHIFT)
            kept = wire(m, Mux(square < SQUARES_MAX, square, SQUARES_MAX)[:49], f"square{lane}")
            terms.append(Mux(lane < self.count, kept, 0))
        return delay(m, tree_sum(terms), 1, "beat")
