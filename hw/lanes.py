"""Lanes: executes DOT, SCORE, AXPY and LOAD on the beats of a stream."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tokenpath.hw.arch.isa import Op
from tokenpath.hw.arch.timing import AXPY_PROLOGUE
from tokenpath.hw.beat import beat_layout, tree_sum
from tokenpath.hw.dequantise import Dequantise
from tokenpath.hw.lane_control import LaneControl
from tokenpath.hw.maxima import Maxima
from tokenpath.hw.query import Query
from tokenpath.hw.vector_memory import ReadPort, WritePort
from tokenpath.hw.weight_queue import WeightQueue
from tokenpath.hw.weights import Weights
from tokenpath.hw.write_back import WriteBack

COUNTER_BITS = 48
WRITTEN = ("start", "op", "dst", "aux", "m", "q")
"""Members that pass to WriteBack."""

READ_PASSES = 6
"""Most cycles in which AXPY can read maxima before its first weight needs one."""

FIRST_WEIGHT = Weights.STAGES - 1
"""Cycles of the prologue that pass before the first score is read."""


class Lanes(wiring.Component):
    """``queries`` copies of ``lanes`` multipliers on one stream; the stream's operations of a tile.

    Meaning: ``sim/vector.py``. Time: ``hw/arch/timing.py``, for rows of at least one element. Holds
    operand memory, score memory and accumulators of each query.

    Members
    -------
    start : ``In(1)``
        Pulse in the cycle t of issue of one of the four operations, the one before being done.
    op : ``In(5)``; dst, src, aux, bux : ``In(32)``; n, m : ``In(24)``; q : ``In(8)``;
    x, y : ``In(signed(8))``
        The operands of ``isa.OPERANDS``, from ``start`` to ``done``; y is in 0..31.
    done : ``Out(1)``
        Pulse in cycle t + d. All words are written by then.
    beats : ``In(stream.Signature(beat_layout(...)))``
        DOT, SCORE and AXPY take one a cycle, LOAD one in lanes / vlanes cycles.
    read : ``Out(ReadPort)``, write : ``Out(WritePort)``
        Vector memory, ``vlanes`` words wide. Reads only in the prologue of an AXPY.
    operand_query, operand_blocks, operand_address, operand_beat
        QUANT's write port to the operand memory of a query; see :class:`BlockMemory`. Written
        before the ``start`` of what reads it.
    saturations, overflows : ``Out(48)``
        Clamped summands and wrapped sums since reset, visible 3 cycles after ``done``.
    """

    def __init__(
        self,
        *,
        lanes: int,
        block: int,
        queries: int,
        vlanes: int,
        element_bits: int,
        act_bits: int,
        scale_bits: int,
        weight_mantissa_bits: int,
        kv_mantissa_bits: int,
        act_mantissa_bits: int,
        score_frac: int,
        operand_beats: int,
        score_rows: int,
        accumulator_beats: int,
        address_bits: int,
    ) -> None:
        if -(-queries // vlanes) > READ_PASSES:
            raise ValueError(
                f"queries {queries} are too many for {vlanes} vlanes to read their maxima in the "
                f"prologue of an AXPY; give at most {READ_PASSES * vlanes}"
            )
        self.queries, self.vlanes = queries, vlanes
        self.k_weight, self.k_kv = weight_mantissa_bits, kv_mantissa_bits
        self.k_act, self.score_frac = act_mantissa_bits, score_frac
        self.accumulator_beats, self.score_rows = accumulator_beats, score_rows
        self.shape = {"lanes": lanes, "block": block, "scale_bits": scale_bits}
        self.copy = {
            "element_bits": element_bits,
            "act_bits": act_bits,
            "weight_mantissa_bits": weight_mantissa_bits,
            "kv_mantissa_bits": kv_mantissa_bits,
            "act_mantissa_bits": act_mantissa_bits,
            "score_frac": score_frac,
            "operand_beats": operand_beats,
            "score_rows": score_rows,
            "accumulator_beats": accumulator_beats,
        }
        port = {"address_bits": address_bits, "width": vlanes}
        super().__init__(
            {
                "start": In(1),
                "op": In(5),
                **{name: In(32) for name in ("dst", "src", "aux", "bux")},
                **{name: In(24) for name in ("n", "m")},
                "q": In(8),
                **{name: In(signed(8)) for name in ("x", "y")},
                "done": Out(1),
                "beats": In(stream.Signature(beat_layout(element_bits=element_bits, **self.shape))),
                "read": Out(ReadPort(**port)),
                "write": Out(WritePort(**port)),
                "operand_query": In(range(queries)),
                "operand_blocks": In(lanes // block),
                "operand_address": In(range(operand_beats)),
                "operand_beat": In(beat_layout(element_bits=act_bits, **self.shape)),
                "saturations": Out(COUNTER_BITS),
                "overflows": Out(COUNTER_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.control = control = LaneControl(
            lanes=self.shape["lanes"],
            vlanes=self.vlanes,
            length_bits=len(self.n),
            index_bits=ceil_log2(self.accumulator_beats),
        )
        m.d.comb += [
            *(getattr(control, name).eq(getattr(self, name)) for name in ("start", "op", "n", "m")),
            self.done.eq(control.done),
            control.valid.eq(self.beats.valid),
            self.beats.ready.eq(control.ready),
        ]
        copies = self._copies(m, control)
        self._write_back(m, control, copies)
        total = Signal(range(self.queries * (self.shape["lanes"] + 1) + 1))
        m.d.sync += [
            total.eq(tree_sum([copy.clamped for copy in copies])),
            self.saturations.eq(self.saturations + total),
        ]
        return m

    def _copies(self, m: Module, control: LaneControl) -> list[Query]:
        """The queries, all with the same beat and the same control."""
        kind = self._kind(m)
        queue = self._queue(m, control, kind["adds"])
        self.beat = beat = Signal(self.beats.payload.shape())
        with m.If(control.taken):
            m.d.sync += beat.eq(self.beats.payload)
        m.submodules.maxima = maxima = Maxima(
            queries=self.queries, vlanes=self.vlanes, address_bits=len(self.read.address)
        )
        wiring.connect(m, maxima.read, wiring.flipped(self.read))
        m.d.comb += [maxima.start.eq(self.start), maxima.src.eq(self.src)]
        copies = []
        for i in range(self.queries):
            m.submodules[f"query{i}"] = copy = Query(**self.shape, **self.copy)
            copies.append(copy)
            for name in ("first", "last", "first_row", "index"):
                m.d.comb += getattr(copy, name).eq(getattr(control, name))
            for name in ("start", "src", "bux", "operand_address", "operand_beat"):
                m.d.comb += getattr(copy, name).eq(getattr(self, name))
            for name, value in kind.items():
                m.d.comb += getattr(copy, name).eq(value)
            m.d.comb += [
                copy.taken.eq(control.taken & (self.op != Op.LOAD)),
                copy.enabled.eq(Mux(self.op == Op.DOT, i == 0, i < self.q)),
                copy.codes.eq(self.beats.payload.scales),
                copy.elements.eq(beat.elements),
                copy.advance.eq(queue.advance),
                copy.row.eq(queue.row),
                copy.used.eq(queue.used),
                copy.maximum.eq(maxima.maxima[i]),
                copy.operand_blocks.eq(Mux(self.operand_query == i, self.operand_blocks, 0)),
            ]
        return copies

    def _kind(self, m: Module) -> dict[str, Signal]:
        """What follows from the held operands; the constants one cycle behind ``start``."""
        adds, scored = Signal(), Signal()
        dot_frac, add_frac = Signal(signed(9)), Signal(signed(9))
        limit, sum_frac = Signal(31), Signal(signed(6))
        scored_frac = self.k_kv + self.k_act - self.score_frac
        m.d.comb += [adds.eq(self.op == Op.AXPY), scored.eq(self.op == Op.SCORE)]
        m.d.sync += [
            dot_frac.eq(Mux(scored, scored_frac, self.k_weight + self.k_act - self.x)),
            add_frac.eq(self.k_kv - self.x),
            limit.eq((2**31 - 1) >> self.y[:5]),
            sum_frac.eq(Mux(self.y < 14, 16, 30 - self.y)),
        ]
        return {
            "adds": adds,
            "scored": scored,
            "dot_frac": dot_frac,
            "add_frac": add_frac,
            "limit": limit,
            "sum_frac": sum_frac,
        }

    def _queue(self, m: Module, control: LaneControl, adds: Signal) -> WeightQueue:
        m.submodules.queue = queue = WeightQueue(
            stages=Weights.STAGES, length_bits=len(self.n), row_bits=ceil_log2(self.score_rows)
        )
        m.d.comb += [
            queue.start.eq(self.start & adds),
            queue.n.eq(self.n),
            queue.first_row.eq(self.bux),
            queue.go.eq(control.lead <= AXPY_PROLOGUE - FIRST_WEIGHT),
            queue.used.eq(control.taken & control.last & queue.ready),
            control.weight_ready.eq(queue.ready),
        ]
        return queue

    def _write_back(self, m: Module, control: LaneControl, copies: list[Query]) -> None:
        """Results of all kinds to the write port; DOT's sums that wrap are counted."""
        m.submodules.write_back = out = WriteBack(
            lanes=self.shape["lanes"],
            queries=self.queries,
            vlanes=self.vlanes,
            accumulator_beats=self.accumulator_beats,
            address_bits=len(self.write.address),
            length_bits=len(self.m),
        )
        loaded = self._dequantise(m, control)
        result, sums = copies[0].result, (copies[0].done & (self.op == Op.DOT))
        m.d.comb += [
            *(getattr(out, name).eq(getattr(self, name)) for name in WRITTEN),
            out.empty.eq(control.empty),
            out.drain_start.eq(control.drain_start),
            control.drain_last.eq(out.drain_last),
            out.done.eq(sums),
            out.result.eq(result),
            out.count.eq(loaded.count),
            out.words.eq(loaded.words),
        ]
        wiring.connect(m, out.write, wiring.flipped(self.write))
        for i, copy in enumerate(copies):
            m.d.comb += [
                copy.drain_index.eq(out.drain_index),
                out.sums[i].eq(copy.words),
                out.maxima[i].eq(copy.running),
                out.totals[i].eq(copy.total),
            ]
        fits = result[31:].all() | ~result[31:].any()
        m.d.sync += self.overflows.eq(self.overflows + (sums & ~fits))

    def _dequantise(self, m: Module, control: LaneControl) -> Dequantise:
        """LOAD: the words of a beat."""
        m.submodules.dequantise = dequantise = Dequantise(
            vlanes=self.vlanes,
            element_bits=self.copy["element_bits"],
            mantissa_bits=self.k_weight,
            length_bits=len(self.m),
            **self.shape,
        )
        m.d.sync += [
            dequantise.valid.eq(control.taken & (self.op == Op.LOAD)),
            dequantise.left.eq(control.left),
        ]
        m.d.comb += [dequantise.beat.eq(self.beat), dequantise.frac.eq(self.x)]
        return dequantise
