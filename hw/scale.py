"""Scale: shift, round half up, clamp; the one rounding rule of the house in hardware.

The functions mirror ``numeric.shift_round`` for values of at most 62 bits followed by a clamp to
at most 32 bits: what ``shift_round`` saturates before a left shift is clamped here all the same.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

LEFT = 30
"""Most places that a value moves to the left."""

KEPT_BITS = 34
"""Bits of a shifted value: a sign, 32 bits, half a unit."""


def places_bits(width: int) -> int:
    """Bits of :func:`places` for values of ``width`` bits."""
    return (LEFT + width).bit_length()


def places(down: Value, width: int) -> Value:
    """A right shift ``down`` (negative: left) limited to what changes a value of ``width`` bits,
    counted from ``LEFT`` places to the left."""
    far = down + LEFT
    top = Const(LEFT + width, places_bits(width))
    return Mux(far < 0, 0, Mux(far > LEFT + width, top, far[: places_bits(width)]))


def shifted(value: Value, at: Value) -> Value:
    """``value`` shifted by :func:`places`, with half a unit as lowest bit, saturated to 34 bits."""
    moved = Cat(Const(0, LEFT + 1), value).as_signed() >> at
    if len(moved) <= KEPT_BITS:
        return moved
    sign, top = moved[-1], moved[KEPT_BITS - 1 :]
    rail = Cat((~sign).replicate(KEPT_BITS - 1), sign)
    return Mux(top.all() | ~top.any(), moved[:KEPT_BITS], rail).as_signed()


def rounded(half_units: Value) -> Value:
    """A shifted value rounded half up to whole units."""
    return (half_units + 1) >> 1


class Scale(wiring.Component):
    """Shifts, rounds and clamps ``count`` values, those of one group by the same shift.

    Latency 2 cycles, one set of values a cycle: shift and saturate, round and clamp.

    Members
    -------
    values : ``In(ArrayLayout(signed(width), count))``
    places : ``In(ArrayLayout(unsigned(places_bits(width)), groups))``
        From :func:`places`; group g has the values from g * count / groups on.
    limit : ``In(31)``
        Largest magnitude of a term; held, it belongs to the operation.
    terms : ``Out(ArrayLayout(signed(32), count))``
    clamped : ``Out(count)``
        Which terms were clamped.
    """

    def __init__(self, *, count: int, groups: int, width: int) -> None:
        if width > 62:
            raise ValueError(f"width {width} of a value is too large to round; give at most 62")
        self.count, self.groups = count, groups
        super().__init__(
            {
                "values": In(data.ArrayLayout(signed(width), count)),
                "places": In(data.ArrayLayout(unsigned(places_bits(width)), groups)),
                "limit": In(31),
                "terms": Out(data.ArrayLayout(signed(32), count)),
                "clamped": Out(count),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for i in range(self.count):
            half_units = Signal(signed(KEPT_BITS), name=f"half_units{i}")
            group = i * self.groups // self.count
            whole = Signal(signed(KEPT_BITS), name=f"whole{i}")
            over, under = Signal(name=f"over{i}"), Signal(name=f"under{i}")
            m.d.sync += half_units.eq(shifted(self.values[i], self.places[group]))
            m.d.comb += [
                whole.eq(rounded(half_units)),
                over.eq(whole > self.limit),
                under.eq(whole < -self.limit),
            ]
            m.d.sync += [
                self.terms[i].eq(Mux(over, self.limit, Mux(under, -self.limit, whole))),
                self.clamped[i].eq(over | under),
            ]
        return m
