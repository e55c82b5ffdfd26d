"""Query: all that one query of the lanes owns: multipliers, operand and score memory, weights."""

from typing import Any

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.beat import beat_layout, words_layout
from tokenpath.hw.block_memory import BlockMemory
from tokenpath.hw.query_lanes import QueryLanes
from tokenpath.hw.scores import Scores
from tokenpath.hw.weights import Weights


class Query(wiring.Component):
    """One query's copy of the lanes with its memories.

    Members
    -------
    start : ``In(1)``
        Pulse of a new operation, with ``src`` and ``bux``.
    adds, scored, enabled, dot_frac, add_frac, limit, sum_frac
        What kind of operation; held. See :class:`QueryLanes` and :class:`Weights`.
    src : ``In(range(operand_beats))``, bux : ``In(range(score_rows))``
        First beat of the resident vector, first row of scores.
    taken, codes, first, last, first_row, index, elements
        The beat, see :class:`QueryLanes`.
    advance : ``In(1)``, row : ``In(range(score_rows))``, used : ``In(1)``
        AXPY's weights: stages move, row that enters, the weight at the end is used up.
    maximum : ``In(signed(32))``
        Of this query, for AXPY.
    operand_blocks, operand_address, operand_beat
        Write port of operand memory, see :class:`BlockMemory`.
    result : ``Out(signed)``, done : ``Out(1)``
        DOT: the exact sum of a row and when it is there.
    running : ``Out(signed(32))``
        SCORE: the running maximum.
    drain_index : ``In``, words : ``Out(words_layout(lanes))``, total : ``Out(signed(32))``
        AXPY: the accumulators, and the sum of p.
    clamped : ``Out``
        How many summands were clamped, at most 4 cycles ago.
    """

    def __init__(
        self,
        *,
        lanes: int,
        block: int,
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
    ) -> None:
        shape = {"lanes": lanes, "block": block, "scale_bits": scale_bits}
        shift_bits = max(scale_bits, 9) + 1  # a shift that saturates is beyond any exponent
        self.memory = BlockMemory(beats=operand_beats, element_bits=act_bits, **shape)
        self.multipliers = QueryLanes(
            element_bits=element_bits,
            act_bits=act_bits,
            weight_mantissa_bits=weight_mantissa_bits,
            kv_mantissa_bits=kv_mantissa_bits,
            act_mantissa_bits=act_mantissa_bits,
            shift_bits=shift_bits,
            operand_beats=operand_beats,
            accumulator_beats=accumulator_beats,
            **shape,
        )
        self.weights = Weights(bits=act_bits, score_frac=score_frac, shift_bits=shift_bits)
        self.scores = Scores(rows=score_rows, score_frac=score_frac)
        super().__init__(self._members(lanes, block, element_bits, act_bits, scale_bits))

    def _members(
        self, lanes: int, block: int, element_bits: int, act_bits: int, scale_bits: int
    ) -> dict[str, Any]:
        index = len(self.multipliers.index)
        operand = beat_layout(
            lanes=lanes, block=block, element_bits=act_bits, scale_bits=scale_bits
        )
        return {
            **{name: In(1) for name in ("start", "adds", "scored", "enabled")},
            **{name: In(signed(9)) for name in ("dot_frac", "add_frac")},
            "limit": In(31),
            "sum_frac": In(signed(6)),
            "src": In(len(self.memory.read_address)),
            "bux": In(len(self.scores.read_row)),
            **{name: In(1) for name in ("taken", "first", "last", "first_row")},
            "codes": In(data.ArrayLayout(signed(scale_bits), lanes // block)),
            "index": In(index),
            "elements": In(data.ArrayLayout(signed(element_bits), lanes)),
            "advance": In(1),
            "row": In(len(self.scores.read_row)),
            "used": In(1),
            "maximum": In(signed(32)),
            "operand_blocks": In(lanes // block),
            "operand_address": In(len(self.memory.write_address)),
            "operand_beat": In(operand),
            "result": Out(self.multipliers.sum.shape()),
            "done": Out(1),
            "running": Out(signed(32)),
            "drain_index": In(index),
            "words": Out(words_layout(lanes)),
            "total": Out(signed(32)),
            "clamped": Out(range(lanes + 2)),
        }

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = self.memory
        m.submodules.multipliers = lanes = self.multipliers
        self._weights(m)
        for name in ("adds", "scored", "enabled", "dot_frac", "add_frac", "limit", "drain_index"):
            m.d.comb += getattr(lanes, name).eq(getattr(self, name))
        for name in ("taken", "codes", "first", "last", "first_row", "index", "elements"):
            m.d.comb += getattr(lanes, name).eq(getattr(self, name))
        m.d.comb += [
            memory.write_blocks.eq(self.operand_blocks),
            memory.write_address.eq(self.operand_address),
            memory.write_beat.eq(self.operand_beat),
            memory.read_enable.eq(1),
            lanes.operand.eq(memory.read_beat),
            lanes.mantissa.eq(self.weights.mantissa),
            lanes.shift.eq(self.weights.shift),
            self.result.eq(lanes.sum),
            self.done.eq(lanes.done),
            self.words.eq(lanes.words),
            self.clamped.eq(lanes.clamped + (self.weights.clamped & self.enabled)),
        ]
        at = memory.read_address
        with m.If(self.start | (self.taken & self.last)):
            m.d.sync += at.eq(self.src)
        with m.Elif(self.taken):
            m.d.sync += at.eq(at + 1)
        return m

    def _weights(self, m: Module) -> None:
        """Scores go to memory in order of results, and come back in order of AXPY's rows."""
        m.submodules.weights = weights = self.weights
        m.submodules.scores = scores = self.scores
        m.d.comb += [
            weights.advance.eq(self.advance),
            weights.score.eq(scores.read_score),
            weights.maximum.eq(self.maximum),
            weights.clear.eq(self.start),
            weights.add.eq(self.used & self.adds),
            weights.sum_frac.eq(self.sum_frac),
            weights.limit.eq(self.limit),
            scores.clear.eq(self.start),
            scores.write_enable.eq(self.multipliers.done & self.scored & self.enabled),
            scores.score.eq(self.multipliers.sum),
            scores.read_enable.eq(self.advance),
            scores.read_row.eq(self.row),
            self.running.eq(scores.maximum),
            self.total.eq(weights.sum),
        ]
        row = Signal.like(scores.write_row, name="score_row")
        m.d.comb += scores.write_row.eq(row)
        with m.If(self.start):
            m.d.sync += row.eq(self.bux)
        with m.Elif(self.multipliers.done):
            m.d.sync += row.eq(row + 1)
