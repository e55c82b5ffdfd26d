"""WeightQueue: keeps the rows of an AXPY ahead of its beats."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class WeightQueue(wiring.Component):
    """Walks the rows of score memory and tracks which stage of :class:`Weights` holds one.

    The first weight is ready ``stages`` + 1 cycles after the first cycle with ``go``.

    Members
    -------
    start : ``In(1)``
        Pulse: ``n`` rows from ``first_row`` on.
    n : ``In(length_bits)``, first_row : ``In(row_bits)``
        With ``start``.
    go : ``In(1)``
        Rows may enter.
    row : ``Out(row_bits)``
        Row to read from score memory, whenever ``advance``.
    advance : ``Out(1)``
        All stages move.
    ready : ``Out(1)``
        The weight at the end is that of the row whose turn it is.
    used : ``In(1)``
        With ``ready``: it isn't needed any more.
    """

    def __init__(self, *, stages: int, length_bits: int, row_bits: int) -> None:
        self.stages = stages
        super().__init__(
            {
                "start": In(1),
                "n": In(length_bits),
                "first_row": In(row_bits),
                "go": In(1),
                "row": Out(row_bits),
                "advance": Out(1),
                "ready": Out(1),
                "used": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        left, held = Signal.like(self.n), Signal(self.stages + 1)
        enters = self.go & (left != 0)
        m.d.comb += [self.ready.eq(held[-1]), self.advance.eq(~self.ready | self.used)]
        with m.If(self.start):
            m.d.sync += [left.eq(self.n), self.row.eq(self.first_row), held.eq(0)]
        with m.Elif(self.advance):
            m.d.sync += held.eq((held << 1) | enters)
            with m.If(enters):
                m.d.sync += [left.eq(left - 1), self.row.eq(self.row + 1)]
        return m
