"""Vector memory: words in banks, of which an access takes as many as there are lanes."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from tokenpath.hw.beat import words_layout


class ReadPort(wiring.Signature):
    """``address`` in cycle t gives ``data``, the words from there on, in t + 1 (reader's side)."""

    def __init__(self, *, address_bits: int, width: int) -> None:
        super().__init__({"address": Out(address_bits), "data": In(words_layout(width))})


class WritePort(wiring.Signature):
    """The first ``count`` words of ``data`` go to ``address`` and behind (writer's side)."""

    def __init__(self, *, address_bits: int, width: int) -> None:
        super().__init__(
            {
                "address": Out(address_bits),
                "data": Out(words_layout(width)),
                "count": Out(range(width + 1)),
            }
        )


class VectorMemory(wiring.Component):
    """``words`` words of 32 bits in ``width`` banks; a word's bank is its address modulo ``width``.

    reads: array of ``reads`` In(ReadPort); each is a copy of the banks. Every word address may be
    read: words from the end of the memory on read as anything.
    write: In(WritePort); visible to reads whose address comes one cycle later. A read in the same
    cycle gives the old word, or, where synthesis is told that it doesn't happen, anything.

    ``width`` is a power of two. Banks begin with ``init``, zeros behind it. For testbenches,
    ``row(address)`` is the memory row that holds a word.
    """

    def __init__(self, *, words: int, width: int, reads: int = 2, init: Sequence[int] = ()) -> None:
        if width < 1 or width & (width - 1):
            raise ValueError(f"width {width} is not a power of two; give 1, 2, 4, 8, ...")
        if len(init) > words:
            raise ValueError(f"{len(init)} initial words don't fit; there are {words}")
        self.width = width
        self.address_bits = ceil_log2(words)
        rows = -(-words // width)
        padded = [*init, *([0] * (rows * width - len(init)))]
        self.banks = [
            Memory(shape=signed(32), depth=rows, init=padded[bank::width]) for bank in range(width)
        ]
        ports = {"address_bits": self.address_bits, "width": width}
        super().__init__(
            {"reads": In(ReadPort(**ports)).array(reads), "write": In(WritePort(**ports))}
        )

    def row(self, address: int) -> Any:
        """The row of a bank that holds the word at ``address``, for a simulator's get and set."""
        return self.banks[address % self.width].data[address // self.width]

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for index, bank in enumerate(self.banks):
            m.submodules[f"bank{index}"] = bank
            self._write(m, index, bank)
        for port in self.reads:
            self._read(m, port)
        return m

    def _split(self, address: Value) -> tuple[Value, Value]:
        """The bank of an access's first word, and its row."""
        return address[: exact_log2(self.width)], address[exact_log2(self.width) :]

    def _row_of(self, address: Value, bank: int) -> Value:
        """Row of the one word of an access that lies in ``bank``."""
        first, row = self._split(address)
        return row if bank == self.width - 1 else row + (first > bank)

    def _rotated(self, m: Module, words: list[Value], by: Value) -> list[Value]:
        """``words[(i + by) % width]`` for each i, one stage a bit of ``by``."""
        for stage in range(exact_log2(self.width)):
            turned = [Signal(words[0].shape()) for _ in words]
            for i, word in enumerate(turned):
                other = words[(i + (1 << stage)) % self.width]
                with m.If(by[stage]):
                    m.d.comb += word.eq(other)
                with m.Else():
                    m.d.comb += word.eq(words[i])
            words = list(turned)
        return words

    def _write(self, m: Module, index: int, bank: Memory) -> None:
        port, write = bank.write_port(), self.write
        first, _ = self._split(write.address)
        lane = Signal(exact_log2(self.width))
        m.d.comb += [
            lane.eq(index - first),
            port.addr.eq(self._row_of(write.address, index)),
            port.data.eq(write.data[lane] if self.width > 1 else write.data[0]),
            port.en.eq(lane < write.count),
        ]

    def _read(self, m: Module, port: Any) -> None:
        first, _ = self._split(port.address)
        late = Signal(exact_log2(self.width), reset_less=True)
        m.d.sync += late.eq(first)
        words = []
        for index, bank in enumerate(self.banks):
            read = bank.read_port()
            m.d.comb += read.addr.eq(self._row_of(port.address, index))
            words.append(read.data)
        m.d.comb += Cat(port.data[i] for i in range(self.width)).eq(
            Cat(*self._rotated(m, words, late))
        )
