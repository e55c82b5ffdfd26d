"""LaneControl: when an operation on a stream takes its beats and when it is done."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch.isa import Op
from tokenpath.hw.arch.timing import AXPY_PROLOGUE, DOT_LATENCY, FILL_LATENCY, beats
from tokenpath.hw.row_counter import RowCounter

LOAD_STAGES = 2
"""Cycles from the one that takes a LOAD's beat until the one before its first words are written."""

DRAIN_STAGES = 2
"""Cycles from the address of an accumulator until its words are written."""


class LaneControl(wiring.Component):
    """Durations of DOT, SCORE, AXPY and LOAD, exactly those of ``hw/arch/timing.py``.

    A LOAD's words are written in ``interval`` cycles; where that is more than the fill latency
    allows (more than 4), a LOAD takes as much longer.

    Members
    -------
    start : ``In(1)``, op : ``In(5)``, n, m : ``In(length_bits)``
        Pulse in the cycle of issue; operation, rows, elements a row, held until ``done``.
    done : ``Out(1)``
        Pulse in the last cycle of the operation.
    valid : ``In(1)``, ready : ``Out(1)``, weight_ready : ``In(1)``
        The handshake of the beats; AXPY's weight of the row is there.
    taken : ``Out(1)``
        A beat is consumed, with its place in the rows:
    first, last, first_row : ``Out(1)``, left : ``Out(length_bits)``, index : ``Out(index_bits)``
        See :class:`RowCounter`.
    empty : ``Out(1)``
        The operation has no rows.
    lead : ``Out(range(AXPY_PROLOGUE + 1))``
        Cycles of an AXPY's prologue that are left; 0 without.
    drain_start : ``Out(1)``, drain_last : ``In(1)``
        See :class:`Drain`.
    """

    def __init__(self, *, lanes: int, vlanes: int, length_bits: int, index_bits: int) -> None:
        self.lanes, self.index_bits = lanes, index_bits
        self.interval = beats(lanes, vlanes)
        self.load_cycles = max(FILL_LATENCY, LOAD_STAGES + self.interval)
        super().__init__(
            {
                "start": In(1),
                "op": In(5),
                "n": In(length_bits),
                "m": In(length_bits),
                "done": Out(1),
                "valid": In(1),
                "ready": Out(1),
                "weight_ready": In(1),
                "taken": Out(1),
                "first": Out(1),
                "last": Out(1),
                "first_row": Out(1),
                "left": Out(length_bits),
                "index": Out(index_bits),
                "empty": Out(1),
                "lead": Out(range(AXPY_PROLOGUE + 1)),
                "drain_start": Out(1),
                "drain_last": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.rows = rows = RowCounter(
            lanes=self.lanes, length_bits=len(self.n), index_bits=self.index_bits
        )
        adds, loads = self.op == Op.AXPY, self.op == Op.LOAD
        taking, pause = Signal(), Signal(range(self.interval))
        begins = Mux(adds, self.lead == 1, self.start)  # the next cycle may take a beat
        ends = self.taken & rows.end
        m.d.comb += [
            rows.load.eq(self.start),
            rows.n.eq(self.n),
            rows.m.eq(self.m),
            rows.take.eq(self.taken),
            self.ready.eq(taking & (pause == 0) & (~adds | self.weight_ready)),
            self.taken.eq(self.valid & self.ready),
            *(
                getattr(self, name).eq(getattr(rows, name))
                for name in ("first", "last", "first_row", "left", "index", "empty")
            ),
        ]
        with m.If(begins):
            m.d.sync += taking.eq(~rows.empty)
        with m.Elif(ends):
            m.d.sync += taking.eq(0)
        with m.If(self.taken & loads):
            m.d.sync += pause.eq(self.interval - 1)
        with m.Elif(pause != 0):
            m.d.sync += pause.eq(pause - 1)
        with m.If(self.start):
            m.d.sync += self.lead.eq(Mux(adds, AXPY_PROLOGUE, 0))
        with m.Elif(self.lead != 0):
            m.d.sync += self.lead.eq(self.lead - 1)
        self._end(m, ends | (begins & rows.empty))
        return m

    def _end(self, m: Module, over: Signal) -> None:
        """Count the epilogue from the last beat on, or from where a beat would have been."""
        ages = Signal(max(DOT_LATENCY, self.load_cycles) + 1)  # bit i: i + 1 cycles ago
        m.d.sync += ages.eq(Mux(self.done, 0, (ages << 1) | over))
        drained = Signal(DRAIN_STAGES)
        m.d.sync += drained.eq((drained << 1) | (self.drain_last & (self.op == Op.AXPY)))
        scored, summed = ages[DOT_LATENCY - 1], ages[FILL_LATENCY - DRAIN_STAGES - 1]
        with m.Switch(self.op):
            with m.Case(Op.DOT):
                m.d.comb += self.done.eq(ages[DOT_LATENCY - 1])
            with m.Case(Op.SCORE):
                m.d.comb += [self.drain_start.eq(scored), self.done.eq(self.drain_last)]
            with m.Case(Op.AXPY):
                m.d.comb += [self.drain_start.eq(summed), self.done.eq(drained[-1])]
            with m.Case(Op.LOAD):
                m.d.comb += self.done.eq(ages[self.load_cycles - 1])
