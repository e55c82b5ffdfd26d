"""StreamReader: executes STREAM, reads beats ahead of the lanes under a credit rule."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.beat import beat_layout
from tokenpath.hw.row_counter import RowCounter


class StreamReader(wiring.Component):
    """Reads a beat a cycle while fewer than ``depth`` beats are on their way or waiting.

    A beat that is read in cycle I can be taken from ``beats`` from I + ``latency`` on; one that is
    taken in C makes room for a read in C + 1. The store answers in the cycle I + ``latency``.

    Members
    -------
    start : ``In(1)``
        Pulse in the cycle t of issue; the first read is in t + 1 at the earliest.
    src : ``In(address_bits)``, n, m : ``In(length_bits)``
        First beat, rows, elements a row; from ``start`` to ``done``.
    instant : ``Out(1)``
        ``n`` and ``m`` mean no beats: ``start`` does nothing and there is no ``done``.
    done : ``Out(1)``
        Pulse in the cycle of the last read.
    read_enable : ``Out(1)``, read_address : ``Out(address_bits)``, read_beat : ``In(layout)``
        The store's read port.
    full : ``Out(1)``
        A STREAM waits for room.
    beats : ``Out(stream.Signature(layout))``
        ``valid`` doesn't wait for ``ready``.
    """

    def __init__(
        self,
        *,
        depth: int,
        latency: int,
        address_bits: int,
        length_bits: int,
        lanes: int,
        block: int,
        element_bits: int,
        scale_bits: int,
    ) -> None:
        if depth <= latency:
            raise ValueError(f"stream depth {depth} can't hide a store latency of {latency} cycles")
        self.depth, self.latency, self.lanes = depth, latency, lanes
        self.layout = beat_layout(
            lanes=lanes, block=block, element_bits=element_bits, scale_bits=scale_bits
        )
        super().__init__(
            {
                "start": In(1),
                "src": In(address_bits),
                "n": In(length_bits),
                "m": In(length_bits),
                "instant": Out(1),
                "done": Out(1),
                "read_enable": Out(1),
                "read_address": Out(address_bits),
                "read_beat": In(self.layout),
                "full": Out(1),
                "beats": Out(stream.Signature(self.layout)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.rows = rows = RowCounter(
            lanes=self.lanes, length_bits=len(self.n), index_bits=1
        )
        reading = Signal()
        owed = Signal(range(self.depth + 1))  # beats on their way or waiting
        reads, taken = self.read_enable, self.beats.valid & self.beats.ready
        m.d.comb += [
            rows.load.eq(self.start),
            rows.n.eq(self.n),
            rows.m.eq(self.m),
            rows.take.eq(reads),
            self.instant.eq(rows.empty),
            reads.eq(reading & (owed != self.depth)),
            self.done.eq(reads & rows.end),
            self.full.eq(reading & ~reads),
        ]
        m.d.sync += owed.eq(owed + reads - taken)
        with m.If(self.start):
            m.d.sync += [reading.eq(~rows.empty), self.read_address.eq(self.src)]
        with m.Elif(reads):
            m.d.sync += [reading.eq(~rows.end), self.read_address.eq(self.read_address + 1)]
        arriving = reads
        for stage in range(self.latency):
            later = Signal(name=f"arriving{stage + 1}")
            m.d.sync += later.eq(arriving)
            arriving = later
        self._queue(m, arriving, taken)
        return m

    def _queue(self, m: Module, arriving: Signal, taken: Signal) -> None:
        """Beats wait in a ring; one that arrives while none waits is offered at once."""
        m.submodules.ring = ring = memory.Memory(
            shape=unsigned(self.layout.size), depth=self.depth, init=[]
        )
        write, read = ring.write_port(), ring.read_port(domain="comb")
        waiting = Signal(range(self.depth + 1))
        head, tail = Signal(range(self.depth)), Signal(range(self.depth))
        kept = arriving & ~(taken & (waiting == 0))
        freed = taken & (waiting != 0)
        m.d.comb += [
            read.addr.eq(head),
            write.addr.eq(tail),
            write.data.eq(self.read_beat.as_value()),
            write.en.eq(kept),
            self.beats.valid.eq(arriving | (waiting != 0)),
            self.beats.payload.as_value().eq(
                Mux(waiting == 0, self.read_beat.as_value(), read.data)
            ),
        ]
        m.d.sync += waiting.eq(waiting + kept - freed)
        for pointer, moves in ((head, freed), (tail, kept)):
            with m.If(moves):
                m.d.sync += pointer.eq(Mux(pointer == self.depth - 1, 0, pointer + 1))
