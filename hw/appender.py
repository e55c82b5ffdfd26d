"""Appender: executes APPEND, copies beats of the append buffer to the store."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.beat import beat_layout
from tokenpath.hw.block_memory import BlockMemory


class Appender(wiring.Component):
    """Holds the append buffer; writes ``n`` beats of it to the store, one a cycle from t + 1 on.

    Members
    -------
    start : ``In(1)``
        Pulse in the cycle t of issue.
    dst : ``In(address_bits)``, src : ``In(range(append_beats))``, n : ``In(length_bits)``
        Store beat, append-buffer beat, beats; from ``start`` to ``done``.
    instant : ``Out(1)``
        ``n`` is 0: ``start`` does nothing and there is no ``done``.
    done : ``Out(1)``
        Pulse in the cycle of the last write, t + n.
    write_blocks, write_address, write_beat
        The append buffer's write port, see :class:`BlockMemory`.
    append_enable : ``Out(1)``, append_address : ``Out(address_bits)``,
    append_beat : ``Out(beat_layout(...))``
        The store's write port.
    """

    def __init__(
        self,
        *,
        append_beats: int,
        address_bits: int,
        length_bits: int,
        lanes: int,
        block: int,
        element_bits: int,
        scale_bits: int,
    ) -> None:
        shape = {
            "lanes": lanes,
            "block": block,
            "element_bits": element_bits,
            "scale_bits": scale_bits,
        }
        self.append_beats, self.shape = append_beats, shape
        layout = beat_layout(**shape)
        super().__init__(
            {
                "start": In(1),
                "dst": In(address_bits),
                "src": In(range(append_beats)),
                "n": In(length_bits),
                "instant": Out(1),
                "done": Out(1),
                "write_blocks": In(lanes // block),
                "write_address": In(range(append_beats)),
                "write_beat": In(layout),
                "append_enable": Out(1),
                "append_address": Out(address_bits),
                "append_beat": Out(layout),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.buffer = buffer = BlockMemory(beats=self.append_beats, **self.shape)
        left, following = Signal.like(self.n), Signal.like(self.src)
        source = Mux(self.start, self.src, following)
        m.d.comb += [
            self.instant.eq(self.n == 0),
            self.append_enable.eq(left != 0),
            self.done.eq(left == 1),
            buffer.write_blocks.eq(self.write_blocks),
            buffer.write_address.eq(self.write_address),
            buffer.write_beat.eq(self.write_beat),
            buffer.read_enable.eq(1),
            buffer.read_address.eq(source),
            self.append_beat.eq(buffer.read_beat),
        ]
        m.d.sync += following.eq(source + 1)
        with m.If(self.start):
            m.d.sync += [left.eq(self.n), self.append_address.eq(self.dst)]
        with m.Elif(left != 0):
            m.d.sync += [left.eq(left - 1), self.append_address.eq(self.append_address + 1)]
        return m
