"""QUANT: words of vector memory to block-scaled elements."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch import timing
from tokenpath.hw.arch.numeric import ZERO_EXPONENT
from tokenpath.hw.beat import beat_layout, words_layout
from tokenpath.hw.fixed import WORD_BITS, clamp, delay, magnitude, normalise, wire
from tokenpath.hw.vector_blocks import BlockWalk
from tokenpath.hw.vector_memory import ReadPort
from tokenpath.hw.vector_operands import Operands

SCALE_BITS = 16
"""Width of a scale code, as numeric.py states it."""

READ_AGAIN = 3
"""Cycles from the read of a block's last words until its first ones are read again."""


class BlockWrite(wiring.Signature):
    """Blocks of one beat that are written in this cycle (writer's side).

    blocks: Out(lanes / block), one bit each, none while nothing is written; to_append: Out(1), the
    append buffer instead of operand memory; query, beat: Out, the operand memory of that query (0
    of the append buffer) and the beat in it; data: Out(beat_layout).
    """

    def __init__(
        self, *, lanes: int, block: int, element_bits: int, queries: int, beats: int
    ) -> None:
        layout = beat_layout(
            lanes=lanes, block=block, element_bits=element_bits, scale_bits=SCALE_BITS
        )
        super().__init__(
            {
                "blocks": Out(lanes // block),
                "to_append": Out(1),
                "query": Out(range(max(queries, 2))),
                "beat": Out(range(max(beats, 2))),
                "data": Out(layout),
            }
        )


class VectorQuant(wiring.Component):
    """Blocks are measured through one port, and read again through the other to be scaled.

    ``formats``: (element bits, mantissa bits of the scale) in operand memory, then in the append
    buffer.

    operands: In(Operands), held from start to done; start: In(1); done: Out(1),
    ``timing.vector_cycles`` later. words, again: Out(ReadPort). write: Out(BlockWrite), a block at
    a time; with the last block of a vector the others of its beat are written, too, as zeros.
    chain_*: the ports of the VectorChain.
    """

    def __init__(
        self, *, vlanes: int, lanes: int, block: int, queries: int, beats: int,
        formats: Sequence[tuple[int, int]], address_bits: int,
    ) -> None:  # fmt: skip
        self.vlanes, self.lanes, self.block, self.formats = vlanes, lanes, block, tuple(formats)
        self.stride = min(vlanes, block)
        self.parts = block // self.stride
        self.walk, self.again_walk = (
            BlockWalk(vlanes=vlanes, block=block, address_bits=address_bits) for _ in range(2)
        )
        self.element_bits = max(bits for bits, _ in formats)
        port = ReadPort(address_bits=address_bits, width=vlanes)
        write = BlockWrite(
            lanes=lanes, block=block, element_bits=self.element_bits, queries=queries, beats=beats
        )
        super().__init__(
            {
                "operands": In(Operands),
                "start": In(1),
                "done": Out(1),
                "words": Out(port),
                "again": Out(port),
                "write": Out(write),
                "chain_words": Out(words_layout(vlanes)),
                "chain_factor": Out(signed(WORD_BITS)),
                "chain_shift": Out(signed(8)),
                "chain_scaled": In(words_layout(vlanes)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        self._time(m)
        factor, shift, code = self._scale(m, self._measure(m))
        again, walk = self.again.data, self.again_walk
        m.d.comb += [self.chain_factor.eq(factor), self.chain_shift.eq(shift)]
        m.d.comb += [self.chain_words[i].eq(again[i]) for i in range(self.vlanes)]
        # Elements leave the chain four cycles after their read; a block is whole one cycle later.
        count, first = delay(m, walk.count, 4, "count"), delay(m, walk.first_part, 4, "first_part")
        elements = self._block(m, count, first)
        whole = delay(m, walk.active & walk.last_part, 5, "whole", reset_less=False)
        last_block = delay(m, walk.last_block, 5, "last_block")
        self._write(m, elements, delay(m, code, 4, "code"), whole, last_block)
        return m

    def _time(self, m: Module) -> None:
        """Start both walks; done comes a block and a latency behind the first one."""
        i, cycles = self.operands, self.parts + timing.QUANT_LATENCY
        for name, walk, port in (
            ("walk", self.walk, self.words),
            ("again_walk", self.again_walk, self.again),
        ):
            m.submodules[name] = walk
            m.d.comb += [walk.src.eq(i.src), walk.n.eq(i.n), walk.m.eq(i.m)]
            m.d.comb += port.address.eq(walk.address)
        something = (i.n != 0) & (i.m != 0)
        late = self.parts + READ_AGAIN - 1
        m.d.comb += self.walk.start.eq(self.start & something)
        m.d.comb += self.again_walk.start.eq(
            delay(m, self.walk.start, late, "start", reset_less=False)
        )
        wait, busy = Signal(range(cycles)), Signal()
        m.d.comb += self.done.eq(busy & ~self.walk.active & (wait == 0))
        with m.If(self.start):
            m.d.sync += [busy.eq(1), wait.eq(cycles - 1)]
        with m.Elif(~self.walk.active):
            m.d.sync += [wait.eq(wait - 1), busy.eq(busy & (wait != 0))]

    def _measure(self, m: Module) -> Signal:
        """The largest magnitude of a block, three cycles after the read of its last part."""
        count, first, last = (
            delay(m, value, 1, name)
            for name, value in (
                ("words", self.walk.count),
                ("first", self.walk.first_part),
                ("last", self.walk.last_part),
            )
        )
        values: list[Value] = []
        for lane in range(self.stride):
            word = wire(m, magnitude(m, self.words.data[lane]), f"size{lane}")
            values.append(wire(m, Mux(lane < count, word, 0), f"masked{lane}"))
        while len(values) > 1:
            values = [
                wire(m, Mux(a > b, a, b), "larger")
                for a, b in zip(values[::2], values[1::2], strict=True)
            ]
        part = delay(m, values[0], 1, "largest_of_part")
        so_far, largest = Signal(WORD_BITS), Signal(WORD_BITS, reset_less=True)
        first, last = delay(m, first, 1, "first_late"), delay(m, last, 1, "last_late")
        held = wire(m, Mux(~first & (so_far > part), so_far, part), "held")
        m.d.sync += so_far.eq(held)
        with m.If(last):
            m.d.sync += largest.eq(held)
        return largest

    def _scale(self, m: Module, largest: Signal) -> tuple[Value, Value, Value]:
        """Reciprocal of the scale's mantissa, right shift and code of a block, a cycle later."""
        moved, length = normalise(m, largest)
        results = []
        for bits, k in self.formats:
            # One more than the leading bits: all ones carry into the exponent.
            top = wire(m, moved[WORD_BITS - 1 - k :] + 1, "top")
            exponent = length - bits - self.operands.x
            code = wire(m, (exponent << k) + (top - (1 << k)) if k else exponent + top - 1, "code")
            mantissas = range(1 << k, 2 << k)
            table = Array(((1 << (16 + k)) + (man >> 1)) // man for man in mantissas)
            factor = wire(m, table[top[:k]] if k else Const(1 << 16), "factor")
            shift = wire(m, 16 + length - bits + top[-1], "shift")
            zero = wire(m, Const(ZERO_EXPONENT << k, signed(SCALE_BITS)), "zero")
            code = wire(m, Mux(largest == 0, zero, code[:SCALE_BITS].as_signed()), "code")
            results.append((factor, shift, code))
        to_append = self.operands.y[0]
        return tuple(
            delay(m, wire(m, Mux(to_append, b, a), name), 1, name)
            for name, a, b in zip(("factor", "shift", "code"), *results, strict=True)
        )

    def _block(self, m: Module, count: Value, first: Value) -> Signal:
        """The elements of a block, complete in the cycle behind its last part."""
        limits = [(1 << (bits - 1)) - 1 for bits, _ in self.formats]
        limit = wire(m, Mux(self.operands.y[0], limits[1], limits[0]), "limit")
        part = Signal(range(max(self.parts, 2)))
        here = wire(m, Mux(first, 0, part), "here")
        m.d.sync += part.eq(here + 1)
        elements = Signal(data.ArrayLayout(signed(self.element_bits), self.block), reset_less=True)
        for lane in range(self.stride):
            element = clamp(m, self.chain_scaled[lane], -limit, limit)
            kept = wire(m, Mux(lane < count, element, 0), f"element{lane}")
            for index in range(self.parts):
                with m.If(here == index):
                    m.d.sync += elements[index * self.stride + lane].eq(kept)
        return elements

    def _write(
        self, m: Module, elements: Any, code: Value, whole: Value, last_block: Value
    ) -> None:
        """One block, and zeros behind the last one of a vector; then on to the next place."""
        i, write, to_append = self.operands, self.write, self.operands.y[0]
        blocks = self.lanes // self.block
        slot = Signal(range(max(blocks, 2)))
        for index in range(blocks):
            zero = Mux(to_append, *(ZERO_EXPONENT << k for _, k in self.formats[::-1]))
            here, behind = slot == index, last_block & (slot < index if index else 0)
            m.d.comb += [
                write.blocks[index].eq(whole & (here | behind)),
                write.data.scales[index].eq(Mux(here, code, zero)),
            ]
            for n in range(self.block):
                element = write.data.elements[index * self.block + n]
                m.d.comb += element.eq(Mux(here, elements[n], 0))
        m.d.comb += write.to_append.eq(to_append)
        beat_ends = last_block | (slot == blocks - 1)
        with m.If(self.start):
            m.d.sync += [slot.eq(0), write.query.eq(0), write.beat.eq(i.dst)]
        with m.Elif(whole):
            m.d.sync += slot.eq(Mux(beat_ends, 0, slot + 1))
            with m.If(last_block & ~to_append):
                m.d.sync += [write.query.eq(write.query + 1), write.beat.eq(i.dst)]
            with m.Elif(beat_ends):
                m.d.sync += write.beat.eq(write.beat + 1)
