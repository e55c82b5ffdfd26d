"""Store: weights and KV cache of a tile in one on-tile memory."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tokenpath.hw.beat import beat_layout


class Store(wiring.Component):
    """``beats`` beats behind one synchronous read port and one write port.

    The write port belongs to ``append``; the host writes in the cycles that it leaves free.

    Members
    -------
    read_enable : ``In(1)``, read_address : ``In(range(beats))``
        A read, one a cycle.
    read_beat : ``Out(beat_layout(...))``
        In cycle t + ``latency`` the beat of a read in t; ``latency`` is at least 1.
    append_enable : ``In(1)``, append_address : ``In(range(beats))``, append_beat : ``In(...)``
        A write, visible to reads from the next cycle on.
    host : ``In(stream.Signature({address, beat}))``
        Writes of the host, ready whenever ``append_enable`` is low.
    """

    def __init__(
        self,
        *,
        beats: int,
        latency: int,
        lanes: int,
        block: int,
        element_bits: int,
        scale_bits: int,
    ) -> None:
        if latency < 1:
            raise ValueError(f"store latency {latency} is not possible; give at least 1 cycle")
        self.beats, self.latency = beats, latency
        self.layout = beat_layout(
            lanes=lanes, block=block, element_bits=element_bits, scale_bits=scale_bits
        )
        address = ceil_log2(beats)
        host = data.StructLayout({"address": unsigned(address), "beat": self.layout})
        super().__init__(
            {
                "read_enable": In(1),
                "read_address": In(address),
                "read_beat": Out(self.layout),
                "append_enable": In(1),
                "append_address": In(address),
                "append_beat": In(self.layout),
                "host": In(stream.Signature(host)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self.memory = memory.Memory(shape=unsigned(self.layout.size), depth=self.beats, init=[])
        m.submodules.memory = self.memory
        read, write = self.memory.read_port(), self.memory.write_port()
        appends, host = self.append_enable, self.host
        m.d.comb += [
            read.en.eq(self.read_enable),
            read.addr.eq(self.read_address),
            host.ready.eq(~appends),
            write.en.eq(appends | host.valid),
            write.addr.eq(Mux(appends, self.append_address, host.payload.address)),
            write.data.eq(Mux(appends, self.append_beat.as_value(), host.payload.beat.as_value())),
        ]
        beat = read.data
        for stage in range(1, self.latency):
            later = Signal.like(read.data, name=f"beat{stage}")
            m.d.sync += later.eq(beat)
            beat = later
        m.d.comb += self.read_beat.as_value().eq(beat)
        return m
