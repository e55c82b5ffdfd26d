"""SUM, MAX and MERGE: slots of vector memory combined word by word."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch import timing
from tokenpath.hw.arch.isa import LENGTH_BITS, Op
from tokenpath.hw.fixed import WORD_BITS, delay, wire
from tokenpath.hw.vector_memory import ReadPort, WritePort
from tokenpath.hw.vector_operands import Operands

SUM_BITS = WORD_BITS + LENGTH_BITS
"""Wide enough for 2**LENGTH_BITS words."""

PAUSES = timing.MERGE_ALIGN - 2
"""Rounds of a query of a MERGE that read nothing; two are its sum of p and its maximum."""


class Round(enum.Enum):
    """What one round over all slots reads."""

    WORDS = 0
    SUMS = 1
    MAXIMA = 2
    PAUSE = 3


class VectorCombine(wiring.Component):
    """A round reads a beat of each slot in turn and writes the result; a slot takes a cycle.

    SUM and MAX go round once for each beat of their words. MERGE goes round for the sum of p of a
    query, for the beats of its weighted sums, then for its maximum, so that records in place
    (dst == src) keep their maximum while it's needed. The second port reads the records' maxima.

    op: In(5), SUM, MAX or MERGE; operands: In(Operands): both held from start to done.
    start: In(1); done: Out(1), ``timing.vector_cycles`` later.
    words, maxima: Out(ReadPort); write: Out(WritePort), three cycles after the last slot's read.
    wrapped: Out, how many of the words written in this cycle aren't the sum itself.
    """

    def __init__(self, *, vlanes: int, address_bits: int) -> None:
        self.vlanes = vlanes
        ports = {"address_bits": address_bits, "width": vlanes}
        super().__init__(
            {
                "op": In(5),
                "operands": In(Operands),
                "start": In(1),
                "done": Out(1),
                "words": Out(ReadPort(**ports)),
                "maxima": Out(ReadPort(**ports)),
                "write": Out(WritePort(**ports)),
                "wrapped": Out(range(vlanes + 1)),
            }
        )
        self.kind = Signal(Round)
        self.merging = Signal()
        self.slot = Signal(LENGTH_BITS + 1)  # counts the initial words, too
        self.slot_at, self.words_at, self.query = Signal(32), Signal(32), Signal(8)
        self.left = Signal(LENGTH_BITS)
        self.pause = Signal(range(max(PAUSES, 2)))
        self.wait = Signal(range(max(timing.SUM_LATENCY, timing.MERGE_LATENCY) + 1))

    def elaborate(self, platform: Any) -> Module:
        m, i = Module(), self.operands
        m.d.comb += self.merging.eq(self.op == Op.MERGE)
        initial = wire(m, ~self.merging & i.q[0], "initial")
        first, last = Signal(), Signal()
        slots = wire(m, i.m + initial, "slots")
        m.d.comb += [first.eq(self.slot == 0), last.eq(self.slot + 1 == slots)]
        active, round_ends, ends = Signal(), Signal(), Signal()
        m.d.comb += round_ends.eq(active & last)
        latency = Mux(self.merging, timing.MERGE_LATENCY, timing.SUM_LATENCY)
        nothing = Mux(self.merging, (i.m == 0) | (i.q == 0), (slots == 0) | (i.n == 0))
        with m.FSM():
            with m.State("IDLE"):
                self._begin(m, initial)
                m.d.sync += self.wait.eq(latency - 1)
                with m.If(self.start):
                    with m.If(nothing):
                        m.next = "DRAIN"
                    with m.Else():
                        m.next = "SLOTS"
            with m.State("SLOTS"):
                m.d.comb += active.eq(1)
                self._next_slot(m, initial, first, last)
                with m.If(ends):
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.sync += self.wait.eq(self.wait - 1)
                with m.If(self.wait == 0):
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"
        count = self._count(m, active)
        with m.If(round_ends):
            self._next_round(m, count, ends)
        self._combine(m, active, first, last, count)
        return m

    def _begin(self, m: Module, initial: Value) -> None:
        i = self.operands
        m.d.sync += [
            self.slot.eq(0),
            self.slot_at.eq(Mux(initial, i.bux, i.src)),
            self.query.eq(0),
            self.left.eq(i.n),
            self.words_at.eq(Mux(self.merging, i.q << 1, 0)),
            self.kind.eq(Mux(self.merging, Round.SUMS, Round.WORDS)),
            self.pause.eq(0),
        ]

    def _next_slot(self, m: Module, initial: Value, first: Value, last: Value) -> None:
        i = self.operands
        m.d.sync += [self.slot.eq(self.slot + 1), self.slot_at.eq(self.slot_at + i.aux)]
        with m.If(first & initial):
            m.d.sync += self.slot_at.eq(i.src)
        with m.If(last):
            m.d.sync += [self.slot.eq(0), self.slot_at.eq(Mux(initial, i.bux, i.src))]

    def _next_round(self, m: Module, count: Value, ends: Signal) -> None:
        i = self.operands
        with m.Switch(self.kind):
            with m.Case(Round.SUMS):
                m.d.sync += self.kind.eq(Mux(i.n == 0, Round.MAXIMA, Round.WORDS))
            with m.Case(Round.WORDS):
                m.d.sync += self.words_at.eq(self.words_at + count)
                m.d.sync += self.left.eq(self.left - count)
                with m.If(self.left <= self.vlanes):
                    m.d.sync += [self.left.eq(i.n), self.kind.eq(Round.MAXIMA)]
                    m.d.comb += ends.eq(~self.merging)
            with m.Case(Round.MAXIMA):
                m.d.sync += self.kind.eq(Round.PAUSE)
            with m.Case(Round.PAUSE):
                m.d.sync += self.pause.eq(self.pause + 1)
                with m.If(self.pause == PAUSES - 1):
                    m.d.sync += [
                        self.pause.eq(0),
                        self.query.eq(self.query + 1),
                        self.kind.eq(Round.SUMS),
                    ]
                    m.d.comb += ends.eq(self.query + 1 == i.q)

    def _count(self, m: Module, active: Value) -> Signal:
        """Words of each slot in this round."""
        count = Signal(range(self.vlanes + 1))
        with m.If(~active | (self.kind == Round.PAUSE)):
            m.d.comb += count.eq(0)
        with m.Elif(self.kind == Round.WORDS):
            m.d.comb += count.eq(Mux(self.left > self.vlanes, self.vlanes, self.left))
        with m.Else():
            m.d.comb += count.eq(1)
        return count

    def _combine(self, m: Module, active: Value, first: Value, last: Value, count: Value) -> None:
        """Addresses; words and their shifts one cycle later; accumulators; then the write."""
        i, kind = self.operands, self.kind
        offset = Signal(32)
        with m.Switch(kind):
            with m.Case(Round.SUMS):
                m.d.comb += offset.eq(i.q + self.query)
            with m.Case(Round.MAXIMA):
                m.d.comb += offset.eq(self.query)
            with m.Default():
                m.d.comb += offset.eq(self.words_at)
        target = (i.dst + offset)[: len(self.write.address)]
        m.d.comb += [
            self.words.address.eq(self.slot_at + offset),
            self.maxima.address.eq(self.slot_at + self.query),
            self.write.address.eq(delay(m, target, 3, "write_at")),
            self.write.count.eq(delay(m, Mux(last, count, 0), 3, "write_count", reset_less=False)),
        ]
        first1 = delay(m, first, 1, "first")
        down, other_down = self._shifts(m, first1)
        largest = wire(m, (self.op == Op.MAX) | (kind == Round.MAXIMA), "largest")
        largest2, first2 = delay(m, largest, 2, "largest"), delay(m, first1, 1, "first_late")
        wraps = []
        for lane in range(self.vlanes):
            word = delay(m, self.words.data[lane], 1, f"word{lane}")
            total = Signal(signed(SUM_BITS), name=f"total{lane}", reset_less=True)
            with m.If(first2):
                m.d.sync += total.eq(word)
            with m.Elif(largest2):
                m.d.sync += total.eq(Mux(total > word, total, word))
            with m.Else():
                m.d.sync += total.eq((total >> down) + (word >> other_down))
            m.d.comb += self.write.data[lane].eq(total)
            fits = total[WORD_BITS - 1 :] == total[-1].replicate(SUM_BITS - WORD_BITS + 1)
            wraps.append((lane < self.write.count) & ~fits)
        with m.If(self.op == Op.SUM):
            m.d.comb += self.wrapped.eq(sum(wraps, Const(0)))

    def _shifts(self, m: Module, first: Value) -> tuple[Signal, Signal]:
        """How far a MERGE aligns what it has and the words that come, by the running maximum."""
        other = self.maxima.data[0]
        maximum, larger = Signal(signed(WORD_BITS), reset_less=True), Signal(signed(WORD_BITS))
        m.d.comb += larger.eq(Mux(first | (other > maximum), other, maximum))
        m.d.sync += maximum.eq(larger)
        shifts = []
        for name, value, most in (("down", maximum, 55), ("other_down", other, 31)):
            gap = wire(m, (larger - value).as_unsigned(), f"{name}_gap")
            shift = Signal(range(most + 1), name=name, reset_less=True)
            with m.If(self.merging):
                m.d.sync += shift.eq(Mux(gap > most, most, gap))
            with m.Else():
                m.d.sync += shift.eq(0)
            shifts.append(shift)
        return shifts[0], shifts[1]
