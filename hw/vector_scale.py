"""RMS, ROPE, SILU and DIV: words of vector memory through the chain of multipliers."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch import timing
from tokenpath.hw.arch.isa import LENGTH_BITS, Op
from tokenpath.hw.beat import words_layout
from tokenpath.hw.fixed import WORD_BITS, at_rail, clamp, delay, wire
from tokenpath.hw.reciprocal import Reciprocal
from tokenpath.hw.sigmoid import LATENCY, Sigmoid
from tokenpath.hw.vector_chain import SHIFT_LEFT_MAX, SHIFT_RIGHT_MAX
from tokenpath.hw.vector_memory import ReadPort, WritePort
from tokenpath.hw.vector_operands import Operands
from tokenpath.hw.vector_rms import RmsFactor

RMS_GAP = 6
"""Cycles between the reads of the last squares and of the first words to be scaled."""
DIV_GAP = 3
"""Cycles from the read of a denominator until the first numerators are read."""
RMS_TAIL, DIV_TAIL = timing.RMS_LATENCY - RMS_GAP, timing.DIV_RECIPROCAL - DIV_GAP

WRITE_AFTER = {Op.ROPE: 4, Op.RMS: 6, Op.DIV: 6, Op.SILU: 6 + LATENCY}
"""Cycles from the read of a beat until its results are written."""


class State(enum.Enum):
    """What the walk over the vectors does."""

    IDLE = 0
    SQUARE = 1
    GAP = 2
    READ = 3
    TAIL = 4
    DRAIN = 5


class VectorScale(wiring.Component):
    """Vectors in turn, a beat of each in a cycle; the arithmetic is a VectorChain's.

    op: In(5), RMS, ROPE, SILU or DIV; operands: In(Operands): both held from start to done. SILU
    has 6 to 22 fraction bits; the root of RMS is in 0..2**17 - 1.
    start: In(1); done: Out(1), ``timing.vector_cycles`` later (never for an RMS of no vectors).
    words, others: Out(ReadPort): numbers, and what they are scaled with; write: Out(WritePort).
    railed: Out, how many of the words written in this cycle are at the rails.
    chain_*: the ports of the VectorChain.
    """

    def __init__(self, *, vlanes: int, address_bits: int) -> None:
        self.vlanes, words = vlanes, words_layout(vlanes)
        ports = {"address_bits": address_bits, "width": vlanes}
        super().__init__(
            {
                "op": In(5),
                "operands": In(Operands),
                "start": In(1),
                "done": Out(1),
                "words": Out(ReadPort(**ports)),
                "others": Out(ReadPort(**ports)),
                "write": Out(WritePort(**ports)),
                "railed": Out(range(vlanes + 1)),
                "chain_words": Out(words),
                "chain_factors": Out(words),
                "chain_gains": Out(words),
                "chain_shift": Out(signed(8)),
                "chain_rotate": Out(1),
                "chain_gain_shift": Out(5),
                "chain_products": In(data.ArrayLayout(signed(2 * WORD_BITS), vlanes)),
                "chain_scaled": In(words),
                "chain_result": In(words),
            }
        )
        # The walk: words left in this pass over a vector, where they are, and which vector it is.
        self.left, self.vector = Signal(LENGTH_BITS), Signal(LENGTH_BITS)
        self.at, self.row, self.offset, self.to = (Signal(32) for _ in range(4))
        self.state, self.fresh = Signal(State), Signal()
        self.wait = Signal(range(max(timing.SILU_LATENCY, timing.RMS_LATENCY) + 1))
        self.squaring, self.reading = Signal(), Signal()
        self.count = Signal(range(vlanes + 1))
        self.is_op = {op: Signal(name=f"is_{op.name.lower()}") for op in WRITE_AFTER}

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.d.comb += [signal.eq(self.op == op) for op, signal in self.is_op.items()]
        self._walk(m)
        self._addresses(m)
        rms_factor, rms_shift = self._root_mean_square(m)
        quotient, quotient_shift = self._quotient(m)
        sigmoids, gates, ups = self._sigmoids(m)
        factor, shift = Mux(self.is_op[Op.RMS], rms_factor, quotient), Signal(signed(8))
        m.d.comb += shift.eq(Mux(self.is_op[Op.RMS], rms_shift, quotient_shift))
        self._feed(m, factor, sigmoids, gates, ups)
        m.d.comb += [
            self.chain_rotate.eq(self.is_op[Op.ROPE]),
            self.chain_shift.eq(Mux(self.is_op[Op.SILU], 16, shift)),
        ]
        with m.If(self.is_op[Op.SILU]):
            m.d.comb += self.chain_gain_shift.eq(self.operands.x)
        with m.Elif(self.is_op[Op.RMS] & self.operands.q[0]):
            m.d.comb += self.chain_gain_shift.eq(16)
        self._write(m)
        return m

    # --- the walk ---

    def _walk(self, m: Module) -> None:
        i, state, is_op = self.operands, self.state, self.is_op
        last_beat, vector_ends = Signal(), Signal()
        m.d.comb += [
            self.squaring.eq(state == State.SQUARE),
            self.reading.eq(state == State.READ),
            last_beat.eq(self.left <= self.vlanes),
        ]
        with m.If(self.squaring | self.reading):
            m.d.comb += self.count.eq(Mux(last_beat, self.left, self.vlanes))
        m.d.sync += [self.fresh.eq(0), self.wait.eq(self.wait - 1)]
        with m.Switch(state):
            with m.Case(State.IDLE), m.If(self.start):
                self._begin(m)
            with m.Case(State.SQUARE), m.If(last_beat):
                m.d.sync += [state.eq(State.GAP), self.wait.eq(RMS_GAP - 1)]
            with m.Case(State.GAP), m.If(self.wait == 0):
                m.d.sync += state.eq(State.READ)
                with m.If(i.n == 0):
                    self._tail(m)
            with m.Case(State.READ):
                with m.If(last_beat & (is_op[Op.RMS] | is_op[Op.DIV])):
                    self._tail(m)
                with m.Elif(last_beat):
                    m.d.comb += vector_ends.eq(1)
            with m.Case(State.TAIL):
                m.d.comb += vector_ends.eq(self.wait == 0)
            with m.Case(State.DRAIN), m.If(self.wait == 0):
                m.d.sync += state.eq(State.IDLE)
                m.d.comb += self.done.eq(1)
        with m.If(vector_ends):
            self._next_vector(m)
        self._advance(m, last_beat)

    def _begin(self, m: Module) -> None:
        i, is_op = self.operands, self.is_op
        m.d.sync += [
            self.left.eq(i.n),
            self.vector.eq(0),
            self.offset.eq(0),
            self.at.eq(i.src),
            self.row.eq(i.src),
            self.to.eq(i.dst),
        ]
        takes_n, takes_m = is_op[Op.ROPE] | is_op[Op.SILU], ~is_op[Op.SILU]
        with m.If((takes_n & (i.n == 0)) | (takes_m & (i.m == 0))):
            self._drain(m)
        with m.Else():
            self._enter(m)

    def _enter(self, m: Module) -> None:
        """The next cycle is the first one of a vector."""
        m.d.sync += self.fresh.eq(1)
        with m.If(self.is_op[Op.RMS]):
            squares = Mux(self.operands.n == 0, State.GAP, State.SQUARE)
            m.d.sync += [self.state.eq(squares), self.wait.eq(RMS_GAP - 1)]
        with m.Elif(self.is_op[Op.DIV]):
            m.d.sync += [self.state.eq(State.GAP), self.wait.eq(DIV_GAP - 1)]
        with m.Else():
            m.d.sync += self.state.eq(State.READ)

    def _tail(self, m: Module) -> None:
        cycles = Mux(self.is_op[Op.RMS], RMS_TAIL - 1, DIV_TAIL - 1)
        m.d.sync += [self.state.eq(State.TAIL), self.wait.eq(cycles)]

    def _drain(self, m: Module) -> None:
        """The last results are on their way; those of an RMS are there with its tail."""
        cycles = Mux(self.is_op[Op.ROPE], timing.ROPE_LATENCY - 1, timing.DIV_LATENCY - 1)
        cycles = Mux(self.is_op[Op.SILU], timing.SILU_LATENCY - 1, cycles)
        m.d.sync += [self.wait.eq(cycles), self.state.eq(State.DRAIN)]
        with m.If(self.is_op[Op.RMS]):
            m.d.sync += self.state.eq(State.IDLE)

    def _next_vector(self, m: Module) -> None:
        m.d.sync += self.vector.eq(self.vector + 1)
        with m.If(self.is_op[Op.SILU] | (self.vector + 1 == self.operands.m)):
            self._drain(m)
            m.d.comb += self.done.eq(self.is_op[Op.RMS])
        with m.Else():
            self._enter(m)

    def _advance(self, m: Module, last_beat: Value) -> None:
        with m.If(self.squaring | self.reading):
            m.d.sync += [self.at.eq(self.at + self.count), self.left.eq(self.left - self.count)]
            with m.If(last_beat):
                m.d.sync += self.left.eq(self.operands.n)
        with m.If(self.squaring & last_beat):
            m.d.sync += self.at.eq(self.row)
        with m.If(self.reading):
            m.d.sync += self.offset.eq(Mux(last_beat, 0, self.offset + self.vlanes))
            with m.If(last_beat):
                m.d.sync += self.row.eq(self.at + self.count)

    def _addresses(self, m: Module) -> None:
        """Constants of an RMS are read in the first two cycles of each vector."""
        i = self.operands
        base, offset = Signal(32), Signal(32)
        m.d.comb += [base.eq(i.aux), offset.eq(self.offset)]
        with m.If(self.is_op[Op.DIV]):
            m.d.comb += offset.eq(self.vector)
        with m.Elif(self.is_op[Op.RMS] & self.reading):
            m.d.comb += base.eq(i.bux)
        with m.Elif(self.is_op[Op.RMS]):
            m.d.comb += offset.eq(delay(m, self.fresh, 1, "fresh") << 1)
        m.d.comb += [self.words.address.eq(self.at), self.others.address.eq(base + offset)]

    # --- factors ---

    def _root_mean_square(self, m: Module) -> tuple[Value, Value]:
        """Factor and shift of the words of a vector, ``RMS_GAP`` cycles behind its squares."""
        m.submodules.rms = rms = RmsFactor(vlanes=self.vlanes)
        load = delay(m, self.fresh, 1, "load")
        squares = Mux(self.squaring, self.count, 0)
        m.d.comb += [
            rms.squares.eq(self.chain_products),
            rms.count.eq(delay(m, squares, 3, "squares", reset_less=False)),
            rms.constants.eq(self.others.data),
            rms.load.eq(load),
            rms.load_exponent.eq(delay(m, load, 1, "load_exponent")),
            rms.frac_out.eq(self.operands.y),
        ]
        return rms.factor, rms.shift

    def _quotient(self, m: Module) -> tuple[Value, Value]:
        """Factor and shift of a DIV, three cycles behind the denominator; factor 0 of 0."""
        i, denominator = self.operands, self.others.data[0]
        m.submodules.reciprocal = reciprocal = Reciprocal(width=WORD_BITS - 1)
        m.d.comb += reciprocal.value.eq(denominator)
        positive = delay(m, denominator > 0, 3, "positive")
        shift = 15 + i.x - i.y - i.q + reciprocal.length
        clamped = clamp(m, wire(m, shift, "div_shift"), -SHIFT_LEFT_MAX, SHIFT_RIGHT_MAX)
        return Mux(positive, reciprocal.mantissa, 0), clamped

    def _sigmoids(self, m: Module) -> tuple[list[Value], list[Value], list[Value]]:
        """Each lane's sigmoid, the gate that it is of and what goes with it, at the same time."""
        sigmoids, gates, ups = [], [], []
        for lane in range(self.vlanes):
            m.submodules[f"sigmoid{lane}"] = sigmoid = Sigmoid()
            gate, up = self.words.data[lane], self.others.data[lane]
            m.d.comb += [sigmoid.word.eq(gate), sigmoid.frac.eq(self.operands.x)]
            sigmoids.append(sigmoid.value)
            gates.append(delay(m, gate, LATENCY, f"gate{lane}"))
            ups.append(delay(m, up, LATENCY, f"up{lane}"))
        return sigmoids, gates, ups

    # --- the chain ---

    def _feed(self, m: Module, factor: Value, sigmoids: Any, gates: Any, ups: Any) -> None:
        words, others = self.words.data, self.others.data
        squaring = delay(m, self.squaring, 1, "squaring")
        for lane in range(self.vlanes):
            word, by, gain = (
                port[lane] for port in (self.chain_words, self.chain_factors, self.chain_gains)
            )
            m.d.comb += [word.eq(words[lane]), by.eq(factor), gain.eq(1)]
            with m.If(self.is_op[Op.SILU]):
                m.d.comb += [word.eq(gates[lane]), by.eq(sigmoids[lane]), gain.eq(ups[lane])]
            with m.Elif(self.is_op[Op.ROPE]):
                m.d.comb += [by.eq(others[lane & ~1]), gain.eq(others[lane | 1])]
            with m.Elif(self.is_op[Op.RMS]):
                with m.If(squaring):
                    m.d.comb += by.eq(words[lane])
                with m.If(self.operands.q[0]):
                    m.d.comb += gain.eq(others[lane])

    def _write(self, m: Module) -> None:
        """Results in order, from dst on. What is counted is forgotten when the operation ends."""
        counts: list[Value] = [Mux(self.reading, self.count, 0)]
        for stage in range(1, max(WRITE_AFTER.values()) + 1):
            late = Signal(range(self.vlanes + 1), name=f"count_{stage}")
            m.d.sync += late.eq(Mux(self.done, 0, counts[-1]))
            counts.append(late)
        count = self.write.count
        for op, cycles in WRITE_AFTER.items():
            with m.If(self.is_op[op]):
                m.d.comb += count.eq(counts[cycles])
        with m.If(self.state != State.IDLE):
            m.d.sync += self.to.eq(self.to + count)
        m.d.comb += self.write.address.eq(self.to)
        railed: Value = Const(0)
        for lane in range(self.vlanes):
            result = self.write.data[lane]
            with m.If(self.is_op[Op.ROPE]):
                m.d.comb += result.eq(self.chain_scaled[lane])
            with m.Else():
                m.d.comb += result.eq(self.chain_result[lane])
            railed = railed + ((lane < count) & at_rail(result))
        m.d.comb += self.railed.eq(railed)
