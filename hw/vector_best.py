"""ARGMAX and ARGPAIR: the largest word and where it is."""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from tokenpath.hw.arch import timing
from tokenpath.hw.arch.isa import LENGTH_BITS, Op
from tokenpath.hw.arch.numeric import WORD_MIN
from tokenpath.hw.fixed import WORD_BITS, delay
from tokenpath.hw.vector_memory import ReadPort, WritePort
from tokenpath.hw.vector_operands import Operands

POSITION_BITS = LENGTH_BITS + 1
"""Bits of the number of a word among those that are read: there are two a pair."""

TREE_CYCLES = timing.ARG_LATENCY - 2
"""Cycles from the lanes' results to the tree's."""


class Best(data.Struct):
    """The first of the largest words so far; ``found`` tells whether there was any."""

    found: 1
    value: signed(WORD_BITS)
    position: POSITION_BITS


class VectorBest(wiring.Component):
    """Each lane keeps the best of its words; a tree of at most four stages compares the lanes.

    op: In(5), ARGMAX or ARGPAIR; operands: In(Operands): both held from start to done.
    start: In(1); done: Out(1), ``timing.vector_cycles`` later, the cycle of the one write.
    words: Out(ReadPort), a beat each cycle; write: Out(WritePort).
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
                "write": Out(WritePort(**ports)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m, i = Module(), self.operands
        pairs = Signal()
        size, position = Signal(POSITION_BITS), Signal(POSITION_BITS)
        wait = Signal(range(timing.ARG_LATENCY))
        m.d.comb += [
            pairs.eq(self.op == Op.ARGPAIR),
            size.eq(Mux(pairs, i.n << 1, i.n)),
            self.words.address.eq(i.src + position),
        ]
        reading = Signal()
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [position.eq(0), wait.eq(timing.ARG_LATENCY - 1)]
                with m.If(self.start):
                    m.next = "DRAIN"
                    with m.If(i.n != 0):
                        m.next = "READ"
            with m.State("READ"):
                m.d.comb += reading.eq(1)
                m.d.sync += position.eq(position + self.vlanes)
                with m.If(size - position <= self.vlanes):
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 0):
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"
        words_left = Mux(reading, size - position, 0)
        count = Mux(words_left > self.vlanes, self.vlanes, words_left)
        best, seconds = self._lanes(
            m, pairs, delay(m, count, 1, "count", reset_less=False), delay(m, position, 1, "at")
        )
        self._write(m, pairs, self._tree(m, best), seconds)
        return m

    def _lanes(self, m: Module, pairs: Value, count: Value, position: Value) -> tuple[Any, Any]:
        """The best of each lane, and the word behind it (of the even lanes: the pairs' second)."""
        best, seconds = [], []
        for lane in range(self.vlanes):
            word, kept = self.words.data[lane], Signal(Best, name=f"best{lane}")
            candidate = (lane < count) & (~pairs if lane % 2 else 1)
            better = candidate & (~kept.found | (word > kept.value))
            with m.If(self.start):
                m.d.sync += kept.found.eq(0)
            with m.Elif(better):
                m.d.sync += [
                    kept.found.eq(1),
                    kept.value.eq(word),
                    kept.position.eq(position | lane),
                ]
            best.append(kept)
            if lane % 2 == 0:
                second = Signal(signed(WORD_BITS), name=f"second{lane}", reset_less=True)
                with m.If(better):
                    m.d.sync += second.eq(self.words.data[lane + 1])
                seconds.append(second)
        return best, seconds

    def _tree(self, m: Module, nodes: list[Any]) -> Any:
        """Winner of all lanes, ``TREE_CYCLES`` later or earlier: lanes don't change after reads."""
        levels = exact_log2(self.vlanes)
        per_stage = -(-levels // TREE_CYCLES)
        for level in range(levels):
            domain = m.d.sync if level % per_stage == per_stage - 1 else m.d.comb
            winners = []
            for index, (a, b) in enumerate(zip(nodes[::2], nodes[1::2], strict=True)):
                earlier = a.position < b.position
                first = Mux(a.value == b.value, earlier, a.value > b.value)
                winner = Signal(Best, name=f"winner{level}_{index}")
                chosen = Mux(a.found & (~b.found | first), a.as_value(), b.as_value())
                domain += winner.as_value().eq(chosen)
                winners.append(winner)
            nodes = winners
        return nodes[0]

    def _write(self, m: Module, pairs: Value, best: Any, seconds: list[Value]) -> None:
        i, lane = self.operands, best.position[: exact_log2(self.vlanes)]
        index = Mux(best.found, i.aux + best.position, -1)
        second = Array(seconds)[lane[1:]] if len(seconds) > 1 else seconds[0]
        m.d.comb += [
            self.write.address.eq(i.dst),
            self.write.data[0].eq(Mux(best.found, best.value, WORD_MIN)),
            self.write.data[1].eq(Mux(pairs, second, index)),
            self.write.count.eq(Mux(self.done & (best.found | ~pairs), 2, 0)),
        ]
