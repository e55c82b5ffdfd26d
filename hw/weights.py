"""Weights: p = 2**(score - maximum) of each row, and the sum of p, for one query of AXPY."""

from amaranth.hdl import EnableInserter, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.exp2 import Exp2
from tokenpath.hw.scale import Scale, places


class Weights(wiring.Component):
    """2**x by a table of 32 segments with interpolation, one weight a cycle.

    ``STAGES`` = 4 cycles of ``advance`` from a score to its weight: hold, look up and multiply,
    add, round.
    The integer part of the score only moves the shift: p = mantissa / 2**shift.

    Members
    -------
    advance : ``In(1)``
        All stages move; without it all stay.
    score : ``In(signed(32))``
        Score with ``score_frac`` fraction bits.
    maximum : ``In(signed(32))``
        The query's maximum, an integer; held from the last stage of the first weight on.
    mantissa : ``Out(bits)``, shift : ``Out(signed(shift_bits))``
        The weight. A shift beyond ``shift_bits`` saturates, which no later result can show.
    clear : ``In(1)``
        Begin a new sum.
    add : ``In(1)``
        Add the weight that is at the output now; seen in ``sum`` 4 cycles later.
    sum_frac : ``In(signed(6))``, limit : ``In(31)``
        Binary point of the sum and largest magnitude of a summand, held.
    sum : ``Out(signed(32))``
    clamped : ``Out(1)``
        A summand was clamped: 3 cycles after its ``add``.
    """

    STAGES = 4

    def __init__(self, *, bits: int, score_frac: int, shift_bits: int) -> None:
        self.bits, self.score_frac, self.shift_bits = bits, score_frac, shift_bits
        super().__init__(
            {
                "advance": In(1),
                "score": In(signed(32)),
                "maximum": In(signed(32)),
                "mantissa": Out(bits),
                "shift": Out(signed(shift_bits)),
                "clear": In(1),
                "add": In(1),
                "sum_frac": In(signed(6)),
                "limit": In(31),
                "sum": Out(signed(32)),
                "clamped": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        exponent = self._mantissa(m)
        shift = self.bits - 1 + self.maximum - exponent
        high, low = (1 << (self.shift_bits - 1)) - 1, -(1 << (self.shift_bits - 1))
        with m.If(self.advance):
            m.d.sync += self.shift.eq(Mux(shift > high, high, Mux(shift < low, low, shift)))
        self._sum(m)
        return m

    def _mantissa(self, m: Module) -> Signal:
        """The fraction's way through the stages; returns the integer part before the last."""
        exp2 = Exp2(frac=self.score_frac)
        m.submodules.exp2 = EnableInserter(self.advance)(exp2)
        exponents = [Signal(signed(32 - self.score_frac), name=f"exponent{i}") for i in range(3)]
        drop = 16 - self.bits
        kept = ((exp2.mantissa >> (drop - 1)) + 1) >> 1 if drop else exp2.mantissa
        limit = (1 << self.bits) - 1
        with m.If(self.advance):
            m.d.sync += [
                exp2.fraction.eq(self.score[: self.score_frac]),
                exponents[0].eq(self.score[self.score_frac :].as_signed()),
                exponents[1].eq(exponents[0]),
                exponents[2].eq(exponents[1]),
                self.mantissa.eq(Mux(kept > limit, limit, kept)),
            ]
        return exponents[2]

    def _sum(self, m: Module) -> None:
        """Clamp and add the weights that are used, on their binary point."""
        width = self.bits + 1
        m.submodules.scale = scale = Scale(count=1, groups=1, width=width)
        added = [Signal(name=f"added{i}") for i in range(3)]
        m.d.comb += [scale.limit.eq(self.limit), self.clamped.eq(0)]
        m.d.sync += [
            scale.values[0].eq(self.mantissa),
            scale.places[0].eq(places(self.shift - self.sum_frac, width)),
            added[0].eq(self.add),
            added[1].eq(added[0]),
            added[2].eq(added[1]),
        ]
        with m.If(self.clear):
            m.d.sync += self.sum.eq(0)
        with m.Elif(added[2]):
            m.d.sync += self.sum.eq(self.sum + scale.terms[0])
            m.d.comb += self.clamped.eq(scale.clamped[0])
