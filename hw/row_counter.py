"""RowCounter: where a stream of rows is, beat by beat."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class RowCounter(wiring.Component):
    """Counts ``n`` rows of ``m`` elements in beats of ``lanes`` elements, without a division.

    Members
    -------
    load : ``In(1)``
        Begin: the first beat is the current one from the next cycle on.
    n, m : ``In(length_bits)``
        Rows, elements a row; held from ``load`` to the last beat.
    take : ``In(1)``
        Go to the next beat.
    empty : ``Out(1)``
        There are no beats, from ``n`` and ``m`` in the same cycle.
    first, last : ``Out(1)``
        The current beat begins or ends a row.
    first_row, end : ``Out(1)``
        The current beat belongs to the first row, is the last beat of the last row.
    left : ``Out(length_bits)``
        Elements of the row from the current beat on.
    index : ``Out(index_bits)``
        Beat within the row, modulo ``2**index_bits``.
    """

    def __init__(self, *, lanes: int, length_bits: int, index_bits: int) -> None:
        self.lanes = lanes
        super().__init__(
            {
                "load": In(1),
                "n": In(length_bits),
                "m": In(length_bits),
                "take": In(1),
                "empty": Out(1),
                "first": Out(1),
                "last": Out(1),
                "first_row": Out(1),
                "end": Out(1),
                "left": Out(length_bits),
                "index": Out(index_bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rows, elements = Signal.like(self.n), self.left
        m.d.comb += [
            self.empty.eq((self.n == 0) | (self.m == 0)),
            self.last.eq(elements <= self.lanes),
            self.end.eq(self.last & (rows == 1)),
        ]
        with m.If(self.load):
            m.d.sync += [
                rows.eq(self.n),
                elements.eq(self.m),
                self.index.eq(0),
                self.first.eq(1),
                self.first_row.eq(1),
            ]
        with m.Elif(self.take):
            m.d.sync += [
                elements.eq(Mux(self.last, self.m, elements - self.lanes)),
                self.index.eq(Mux(self.last, 0, self.index + 1)),
                self.first.eq(self.last),
            ]
            with m.If(self.last):
                m.d.sync += [rows.eq(rows - 1), self.first_row.eq(0)]
        return m
