"""Compute: the lanes and the vector unit as one unit, the compute engine's."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from tokenpath.hw.arch.isa import STREAM_OPS, Engine, Op
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.beat import beat_layout
from tokenpath.hw.lanes import Lanes
from tokenpath.hw.load import element_bits, scale_bits
from tokenpath.hw.sequencer import operand_layout
from tokenpath.hw.vector_memory import ReadPort, WritePort
from tokenpath.hw.vector_unit import VectorUnit

COUNT_BITS = 32
_OPERANDS = ("dst", "src", "aux", "bux", "n", "m", "q", "x", "y")


class Compute(wiring.Component):
    """Executes the operations of the compute engine, one at a time.

    Members
    -------
    operands : ``In(operand_layout(Engine.COMPUTE))``
        The instruction, held from ``start`` to ``done``.
    start : ``In(1)``, instant, done : ``Out(1)``
        Pulse in the cycle of issue t; the instruction takes no cycles; pulse in t + d.
    beats : ``In(stream.Signature(beat_layout(...)))``
        The stream of :class:`StreamReader`.
    first, second : ``Out(ReadPort)``, write : ``Out(WritePort)``
        Vector memory, ``vlanes`` words wide.
    append_blocks, append_address, append_beat : ``Out``
        The append buffer's write port, see :class:`BlockMemory`.
    saturations, overflows : ``Out(32)``
        Clamped summands and words, wrapped sums since reset; complete 2 cycles after ``done``.
    """

    def __init__(self, *, arch: Arch, address_bits: int) -> None:
        numeric = arch.numeric
        self.shape = {
            "lanes": arch.lanes,
            "block": numeric.block,
            "element_bits": element_bits(arch),
            "scale_bits": scale_bits(arch),
        }
        self.lanes = Lanes(
            queries=arch.queries, vlanes=arch.vlanes, act_bits=numeric.act.bits,
            weight_mantissa_bits=numeric.weight.mantissa_bits,
            kv_mantissa_bits=numeric.kv.mantissa_bits,
            act_mantissa_bits=numeric.act.mantissa_bits, score_frac=numeric.score_frac,
            operand_beats=arch.operand_beats, score_rows=arch.score_rows,
            accumulator_beats=arch.accumulator_beats, address_bits=address_bits, **self.shape,
        )  # fmt: skip
        self.unit = VectorUnit(
            vlanes=arch.vlanes, lanes=arch.lanes, block=numeric.block, queries=arch.queries,
            beats=max(arch.operand_beats, arch.append_beats),
            formats=[(f.bits, f.mantissa_bits) for f in (numeric.act, numeric.kv)],
            address_bits=address_bits,
        )  # fmt: skip
        beat = beat_layout(**self.shape)
        port = {"address_bits": address_bits, "width": arch.vlanes}
        super().__init__(
            {
                "operands": In(operand_layout(Engine.COMPUTE)),
                "start": In(1),
                "instant": Out(1),
                "done": Out(1),
                "beats": In(stream.Signature(beat)),
                "first": Out(ReadPort(**port)),
                "second": Out(ReadPort(**port)),
                "write": Out(WritePort(**port)),
                "append_blocks": Out(arch.blocks_per_beat),
                "append_address": Out(range(arch.append_beats)),
                "append_beat": Out(beat),
                "saturations": Out(COUNT_BITS),
                "overflows": Out(COUNT_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.lanes, m.submodules.unit = lanes, unit = self.lanes, self.unit
        i, on_beats, on_words = self.operands, Signal(), Signal()
        m.d.comb += [
            on_beats.eq(Cat(i.op == op for op in STREAM_OPS).any()),
            on_words.eq(~on_beats & (i.op != Op.SYNC) & ~unit.instant),
            lanes.start.eq(self.start & on_beats),
            lanes.op.eq(i.op),
            *(getattr(lanes, name).eq(getattr(i, name)) for name in _OPERANDS),
            unit.start.eq(self.start & on_words),
            unit.op.eq(i.op),
            *(getattr(unit.operands, name).eq(getattr(i, name)) for name in _OPERANDS),
            self.instant.eq(~on_beats & ~on_words),
            self.done.eq(lanes.done | unit.done),
        ]
        connect(m, flipped(self.beats), lanes.beats)
        self._words(m, on_beats)
        self._blocks(m)
        self._counts(m)
        return m

    def _words(self, m: Module, on_beats: Signal) -> None:
        """The ports of vector memory belong to the unit of the instruction."""
        lanes, unit, write = self.lanes, self.unit, self.write
        m.d.comb += [
            self.first.address.eq(Mux(on_beats, lanes.read.address, unit.first.address)),
            self.second.address.eq(unit.second.address),
            lanes.read.data.eq(self.first.data),
            unit.first.data.eq(self.first.data),
            unit.second.data.eq(self.second.data),
            write.address.eq(Mux(on_beats, lanes.write.address, unit.write.address)),
            write.data.as_value().eq(
                Mux(on_beats, lanes.write.data.as_value(), unit.write.data.as_value())
            ),
            write.count.eq(Mux(on_beats, lanes.write.count, unit.write.count)),
        ]

    def _blocks(self, m: Module) -> None:
        """What a QUANT writes: operand memory or append buffer."""
        lanes, blocks = self.lanes, self.unit.blocks
        m.d.comb += [
            lanes.operand_query.eq(blocks.query),
            lanes.operand_address.eq(blocks.beat),
            lanes.operand_blocks.eq(Mux(blocks.to_append, 0, blocks.blocks)),
            self.append_address.eq(blocks.beat),
            self.append_blocks.eq(Mux(blocks.to_append, blocks.blocks, 0)),
        ]
        for name in ("elements", "scales"):
            for target in (lanes.operand_beat, self.append_beat):
                pairs = zip(getattr(target, name), getattr(blocks.data, name), strict=True)
                m.d.comb += [own.eq(value) for own, value in pairs]

    def _counts(self, m: Module) -> None:
        lanes, unit = self.lanes, self.unit
        railed, wrapped = Signal(COUNT_BITS), Signal(COUNT_BITS)
        m.d.sync += [railed.eq(railed + unit.railed), wrapped.eq(wrapped + unit.wrapped)]
        m.d.comb += [
            self.saturations.eq(lanes.saturations + railed),
            self.overflows.eq(lanes.overflows + wrapped),
        ]
