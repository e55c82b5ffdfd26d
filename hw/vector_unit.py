"""The vector unit: the operations of the compute engine on words of vector memory."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from tokenpath.hw.arch.isa import Op
from tokenpath.hw.vector_best import VectorBest
from tokenpath.hw.vector_chain import VectorChain
from tokenpath.hw.vector_combine import VectorCombine
from tokenpath.hw.vector_memory import ReadPort, WritePort
from tokenpath.hw.vector_operands import Operands
from tokenpath.hw.vector_quant import VectorQuant
from tokenpath.hw.vector_scale import VectorScale

COMBINE_OPS = (Op.SUM, Op.MAX, Op.MERGE)
SCALE_OPS = (Op.RMS, Op.ROPE, Op.SILU, Op.DIV)
BEST_OPS = (Op.ARGMAX, Op.ARGPAIR)
OPS = (*COMBINE_OPS, *SCALE_OPS, *BEST_OPS, Op.QUANT)
"""What the unit executes."""


class VectorUnit(wiring.Component):
    """Executes :data:`OPS`, one at a time, as sim/vector.py says and ``timing.vector_cycles`` long.

    ``vlanes`` and ``block`` are powers of two from 2 on; ``formats``: (element bits, mantissa bits)
    of operand memory and of the append buffer; ``beats``: the larger of the two's beats.

    op: In(5), operands: In(Operands): held from start until done.
    start: In(1), in cycle t, one of OPS and not ``instant``; done: Out(1), in cycle t + d, from
    when on (start in t + d + 1) the next operation may read what this one wrote.
    instant: Out(1), of op and operands: takes no cycles and does nothing (an RMS of no vectors).
    first, second: Out(ReadPort) to vector memory, from t + 1 on; write: Out(WritePort), scratch.
    blocks: Out(BlockWrite) of a QUANT.
    railed, wrapped: Out, how many words written in this cycle are at the rails, don't hold their
    sum; together sim/vector.py's saturations and overflows.

    A beat is read before it's written, so an operation may write where it reads as long as both
    walk alike: dst == bux, dst == src with m = 1 or any slot with words at least ``n`` apart (SUM,
    MAX); dst == src (RMS, ROPE, SILU, DIV, MERGE with records apart); dst == aux (SILU). ARGMAX
    and ARGPAIR may overlap in any way. Other overlaps aren't the golden model's: in RMS, ROPE and
    DIV the constants, gains, angles and denominators must not be where the words are written.
    A SILU has 6 to 22 fraction bits, the root of an RMS is below 2**17.
    """

    def __init__(
        self, *, vlanes: int, lanes: int, block: int, queries: int, beats: int,
        formats: Sequence[tuple[int, int]], address_bits: int,
    ) -> None:  # fmt: skip
        if vlanes < 2 or vlanes & (vlanes - 1):
            raise ValueError(f"vlanes {vlanes} is not a power of two; give 2, 4, 8, ...")
        if address_bits > 32:
            raise ValueError(f"address_bits {address_bits} is too wide; give at most 32")
        size: dict[str, int] = {"vlanes": vlanes, "address_bits": address_bits}
        self.vlanes = vlanes
        self.combine, self.scale = VectorCombine(**size), VectorScale(**size)
        self.best, self.chain = VectorBest(**size), VectorChain(vlanes=vlanes)
        self.quant = VectorQuant(
            **size, lanes=lanes, block=block, queries=queries, beats=beats, formats=formats
        )
        port = {"address_bits": address_bits, "width": vlanes}
        super().__init__(
            {
                "op": In(5),
                "operands": In(Operands),
                "start": In(1),
                "done": Out(1),
                "instant": Out(1),
                "first": Out(ReadPort(**port)),
                "second": Out(ReadPort(**port)),
                "write": Out(WritePort(**port)),
                "blocks": Out(self.quant.write.signature),
                "railed": Out(range(vlanes + 1)),
                "wrapped": Out(range(vlanes + 1)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        combine, scale, best, quant = self.combine, self.scale, self.best, self.quant
        m.submodules.chain = self.chain
        self._part(m, "combine", COMBINE_OPS, combine.words, combine.maxima, combine.write)
        self._part(m, "scale", SCALE_OPS, scale.words, scale.others, scale.write)
        self._part(m, "best", BEST_OPS, best.words, None, best.write)
        self._part(m, "quant", (Op.QUANT,), quant.words, quant.again, None)
        connect(m, quant.write, flipped(self.blocks))
        m.d.comb += [
            self.done.eq(combine.done | scale.done | best.done | quant.done),
            self.instant.eq((self.op == Op.RMS) & (self.operands.m == 0)),
            self.railed.eq(scale.railed),
            self.wrapped.eq(combine.wrapped),
        ]
        self._share_chain(m)
        return m

    def _part(
        self, m: Module, name: str, ops: Sequence[Op], first: Any, second: Any, write: Any
    ) -> None:
        """A part runs its operations and has the memory's ports meanwhile."""
        part = getattr(self, name)
        m.submodules[name] = part
        m.d.comb += part.operands.eq(self.operands)
        if len(ops) > 1:
            m.d.comb += part.op.eq(self.op)
        for port, own in ((first, self.first), (second, self.second)):
            if port is not None:
                m.d.comb += port.data.eq(own.data)
        with m.Switch(self.op), m.Case(*ops):
            m.d.comb += [part.start.eq(self.start), self.first.address.eq(first.address)]
            if second is not None:
                m.d.comb += self.second.address.eq(second.address)
            if write is not None:
                m.d.comb += [
                    self.write.address.eq(write.address),
                    self.write.data.eq(write.data),
                    self.write.count.eq(write.count),
                ]

    def _share_chain(self, m: Module) -> None:
        """A QUANT scales by the block; the other operations that multiply belong to one part."""
        chain, scale, quant = self.chain, self.scale, self.quant
        m.d.comb += [
            scale.chain_products.eq(chain.products),
            scale.chain_scaled.eq(chain.scaled),
            scale.chain_result.eq(chain.result),
            quant.chain_scaled.eq(chain.scaled),
            chain.rotate.eq(scale.chain_rotate),
            chain.gain_shift.eq(scale.chain_gain_shift),
            chain.gains.eq(scale.chain_gains),
        ]
        quants = self.op == Op.QUANT
        m.d.comb += chain.shift.eq(Mux(quants, quant.chain_shift, scale.chain_shift))
        for lane in range(self.vlanes):
            own, other = scale.chain_words[lane], quant.chain_words[lane]
            m.d.comb += chain.words[lane].eq(Mux(quants, other, own))
            own, other = scale.chain_factors[lane], quant.chain_factor
            m.d.comb += chain.factors[lane].eq(Mux(quants, other, own))
