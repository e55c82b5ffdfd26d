"""Dequantise: elements of a beat to words, vlanes a cycle; the datapath of LOAD."""

from amaranth.hdl import Array, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch.numeric import WORD_MAX, WORD_MIN
from tokenpath.hw.beat import beat_layout, scale_exponent, scale_mantissa, words_layout
from tokenpath.hw.scale import places, places_bits, rounded, shifted


class Dequantise(wiring.Component):
    """Turns the beat of cycle t into words in the cycles t + 2 to t + 1 + lanes / vlanes.

    Members
    -------
    valid : ``In(1)``
        A new beat is at ``beat`` from this cycle t on, for lanes / vlanes cycles.
    beat : ``In(beat_layout(...))``
    frac : ``In(signed(8))``
        Fraction bits of the words, held.
    left : ``In(length_bits)``
        Elements of the row from this beat on, with ``valid``; what is behind them is dropped.
    words : ``Out(words_layout(vlanes))``, count : ``Out(range(vlanes + 1))``
        The next words; a ``count`` of 0 means none.
    """

    def __init__(
        self,
        *,
        lanes: int,
        block: int,
        vlanes: int,
        element_bits: int,
        scale_bits: int,
        mantissa_bits: int,
        length_bits: int,
    ) -> None:
        if lanes % vlanes:
            raise ValueError(f"lanes {lanes} is not a multiple of vlanes {vlanes}")
        self.lanes, self.block, self.vlanes = lanes, block, vlanes
        self.mantissa_bits, self.groups = mantissa_bits, lanes // vlanes
        self.width = element_bits + mantissa_bits + 1
        layout = beat_layout(
            lanes=lanes, block=block, element_bits=element_bits, scale_bits=scale_bits
        )
        super().__init__(
            {
                "valid": In(1),
                "beat": In(layout),
                "frac": In(signed(8)),
                "left": In(length_bits),
                "words": Out(words_layout(vlanes)),
                "count": Out(range(vlanes + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        group, remaining = Signal(range(self.groups)), Signal.like(self.left)
        now, here = Signal.like(self.left), Signal(range(self.groups))
        count = Signal.like(self.count)
        m.d.comb += [now.eq(Mux(self.valid, self.left, remaining))]
        m.d.comb += here.eq(Mux(self.valid, 0, group))
        m.d.sync += [
            count.eq(Mux(now > self.vlanes, self.vlanes, now)),
            self.count.eq(count),
            remaining.eq(Mux(now > self.vlanes, now - self.vlanes, 0)),
            group.eq(here + 1),
        ]
        with m.If(here == self.groups - 1):
            m.d.sync += remaining.eq(0)
        for i in range(self.vlanes):
            self._word(m, i, here)
        return m

    def _word(self, m: Module, i: int, group: Signal) -> None:
        """Word i of a group: multiply with the scale's mantissa, then shift, round, saturate."""
        lanes = [g * self.vlanes + i for g in range(self.groups)]
        element = Array(self.beat.elements[lane] for lane in lanes)[group]
        code = Signal(self.beat.scales[0].shape(), name=f"code{i}")
        m.d.comb += code.eq(Array(self.beat.scales[lane // self.block] for lane in lanes)[group])
        k = self.mantissa_bits
        value = Signal(signed(self.width + 1), name=f"value{i}")
        at = Signal(places_bits(self.width + 1), name=f"places{i}")
        whole = Signal(signed(34), name=f"whole{i}")
        down = k - scale_exponent(code, k) - self.frac
        m.d.sync += [
            value.eq(element * scale_mantissa(code, k)),
            at.eq(places(down, self.width + 1)),
            self.words[i].eq(
                Mux(whole > WORD_MAX, WORD_MAX, Mux(whole < WORD_MIN, WORD_MIN, whole))
            ),
        ]
        m.d.comb += whole.eq(rounded(shifted(value, at)))
