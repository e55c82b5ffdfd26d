"""Tile: three engines, their memories, the network interface and the router."""

from enum import IntEnum
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Member, Out, connect, flipped
from amaranth.utils import ceil_log2

from tokenpath.hw.appender import Appender
from tokenpath.hw.arch.isa import LENGTH_BITS, SEMAPHORES, Engine, Op
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.compute import Compute
from tokenpath.hw.counters import Counters
from tokenpath.hw.flit import DESCRIPTOR, channel
from tokenpath.hw.load import SLOTS, element_bits, scale_bits
from tokenpath.hw.reader import StreamReader
from tokenpath.hw.routers import make_injector, router_of
from tokenpath.hw.semaphores import Semaphores
from tokenpath.hw.sequencer import Sequencer, row_layout
from tokenpath.hw.sink import Sink
from tokenpath.hw.store import Store
from tokenpath.hw.words import ADDRESS_BITS as WORD_ADDRESS_BITS
from tokenpath.hw.words import Words


class Space(IntEnum):
    """What the host writes (and reads, VECTOR and COUNTS): ``host_space``, with its addresses."""

    MEMORY_CODE = 0  # rows of hw.load.Images.code
    COMPUTE_CODE = 1
    NETWORK_CODE = 2
    LENGTHS = 3  # instructions, by Engine
    SLOTS = 4  # registers of the step, from slot 1 on
    DESCRIPTORS = 5
    VECTOR = 6  # words; only scratch can be written
    STORE = 7  # beats
    COUNTS = 8  # the numbers of COUNTS, since reset, modulo 2**32


EVENTS = (
    "beats_read", "full_cycles", "starved_cycles", "injected_flits", "blocked_cycles",
    "running_cycles",
)  # fmt: skip
"""What a tile counts: beats that STREAMs read; cycles in which a STREAM waits for room, the lanes
for a beat; flits sent; cycles in which one waits for a credit, in which an engine isn't done."""

COUNTS = ("saturations", "overflows", *EVENTS)
"""Words and terms clamped, sums wrapped; then the events."""


def host_members(arch: Arch) -> dict[str, Member]:
    """The members of a tile that belong to the host."""
    rows = [row_layout(engine).size for engine in Engine]
    beat = arch.lanes * element_bits(arch) + arch.blocks_per_beat * scale_bits(arch)
    return {
        "host_write": In(1),
        "host_space": In(Space),
        "host_address": In(32),
        "host_data": In(max(*rows, beat, DESCRIPTOR.size)),
        "host_word": Out(32),
    }


class Tile(wiring.Component):
    """One tile of an Arch; all tiles of an array are the same but for ``position``.

    Members
    -------
    position : ``In``
        Packed coordinates, see :func:`tokenpath.hw.flit.destination`; constant.
    routes : ``In``
        Only with a routing table: its outputs (:func:`tokenpath.hw.routers.constants_of`).
    i1, i2 ..., o1, o2 ... : channels
        Links by port number; those without a link are left alone.
    go : ``In(1)``
        Pulse: a step begins; only while ``idle`` and without packets under way.
    idle : ``Out(1)``
        All three engines have ended.
    sent, received : ``Out(1)``
        Pulse: the last flit of a packet leaves for the router; a packet is visible from the next
        cycle on.
    host_write, host_space, host_address, host_data : ``In``
        A row of a memory in each cycle with ``host_write``; only while ``idle``.
    host_word : ``Out(32)``
        The word of VECTOR or COUNTS that was addressed in the cycle before; only while ``idle``.
    """

    def __init__(self, *, arch: Arch) -> None:
        self.arch = arch
        arch.router.check_programs()
        self.router = router_of(arch)
        members: dict[str, Any] = {
            name: In(getattr(self.router, name).shape()) for name in self.router.constants
        }
        for port in self.router.ports.inputs[1:]:
            lanes = self.router.ports.lanes(port)
            link = channel(flit_words=arch.flit_words, vcs=self.router.vcs, lanes=lanes)
            members |= {f"i{port}": In(link), f"o{port}": Out(link)}
        members |= {"go": In(1), "idle": Out(1), "sent": Out(1), "received": Out(1)}
        super().__init__(members | host_members(arch))
        self._make()

    def _make(self) -> None:
        """The parts."""
        arch = self.arch
        self.sequencers = [Sequencer(engine=e, words=arch.code_words) for e in Engine]
        self.semaphores = Semaphores(count=SEMAPHORES, bits=LENGTH_BITS, waiters=3, posts=4)
        shape = {
            "lanes": arch.lanes,
            "block": arch.numeric.block,
            "element_bits": element_bits(arch),
            "scale_bits": scale_bits(arch),
        }
        address = {"address_bits": ceil_log2(arch.store_beats), "length_bits": LENGTH_BITS}
        self.store = Store(beats=arch.store_beats, latency=arch.store_latency, **shape)
        self.reader = StreamReader(
            depth=arch.stream_depth, latency=arch.store_latency, **address, **shape
        )
        self.appender = Appender(append_beats=arch.append_beats, **address, **shape)
        width = 1 << ceil_log2(max(arch.vlanes, arch.flit_words))
        self.words = Words(
            scratch_words=arch.scratch_words, inbox_words=arch.inbox_words, width=width, reads=3
        )
        self.compute = Compute(arch=arch, address_bits=WORD_ADDRESS_BITS)
        self.descriptors = memory.Memory(
            shape=unsigned(DESCRIPTOR.size), depth=arch.descriptors, init=[]
        )
        network: dict[str, Any] = {"flit_words": arch.flit_words, "vcs": self.router.vcs}
        network["lanes"] = arch.router.local
        self.injector = make_injector(
            arch=arch, flit_words=arch.flit_words, descriptors=arch.descriptors
        )
        self.sink = Sink(**network)
        self.counters = Counters(events=EVENTS)
        self.counts = [Signal(32, name=name) for name in COUNTS[:2]] + self.counters.totals
        self.slots = [Signal(32, name=f"slot{i}") for i in range(1, SLOTS + 1)]

    def elaborate(self, platform: object) -> Module:
        m, router = Module(), self.router
        m.submodules.core = self._core()
        m.submodules.router = router
        for name in router.constants:
            m.d.comb += getattr(router, name).eq(getattr(self, name))
        for port in router.ports.inputs[1:]:
            connect(m, flipped(getattr(self, f"i{port}")), router.input(port))
            connect(m, router.output(port), flipped(getattr(self, f"o{port}")))
        return m

    def _core(self) -> Module:
        """All but the router: the same whatever the topology."""
        m = Module()
        for engine, sequencer in zip(Engine, self.sequencers, strict=True):
            m.submodules[f"{engine.name.lower()}_sequencer"] = sequencer
        for name in ("semaphores", "store", "reader", "appender", "compute", "words"):
            m.submodules[name] = getattr(self, name)
        for name in ("descriptors", "injector", "sink", "counters"):
            m.submodules[name] = getattr(self, name)
        self._engines(m)
        self._memory(m)
        self._compute(m)
        self._network(m)
        self._receive(m)
        self._host(m)
        return m

    def _engines(self, m: Module) -> None:
        """Sequencers around the semaphores."""
        semaphores = self.semaphores
        for engine, sequencer in zip(Engine, self.sequencers, strict=True):
            length = Signal(sequencer.length.shape(), name=f"length{int(engine)}")
            m.d.comb += [
                sequencer.go.eq(self.go),
                sequencer.slots.eq(Cat(self.slots)),
                sequencer.length.eq(length),
                semaphores.wait[engine].eq(sequencer.wait),
                semaphores.need[engine].eq(sequencer.need),
                semaphores.take[engine].eq(sequencer.issue),
                sequencer.enough.eq(semaphores.enough[engine]),
                semaphores.post[engine].eq(sequencer.post),
                semaphores.posting[engine].eq(sequencer.over),
                sequencer.load.eq(self._writes(Space(int(engine)))),
                sequencer.load_address.eq(self.host_address),
                sequencer.load_row.eq(self.host_data),
            ]
            with m.If(self._writes(Space.LENGTHS) & (self.host_address == engine)):
                m.d.sync += length.eq(self.host_data)
        m.d.comb += self.idle.eq(Cat(s.idle for s in self.sequencers).all())

    def _memory(self, m: Module) -> None:
        """STREAM and APPEND."""
        sequencer, store = self.sequencers[Engine.MEMORY], self.store
        reader, appender, i = self.reader, self.appender, sequencer.operands
        streams, appends = i.op == Op.STREAM, i.op == Op.APPEND
        m.d.comb += [
            reader.start.eq(sequencer.issue & streams),
            *(getattr(reader, name).eq(getattr(i, name)) for name in ("src", "n", "m")),
            appender.start.eq(sequencer.issue & appends),
            *(getattr(appender, name).eq(getattr(i, name)) for name in ("dst", "src", "n")),
            sequencer.instant.eq(Mux(streams, reader.instant, Mux(appends, appender.instant, 1))),
            sequencer.done.eq(reader.done | appender.done),
            store.read_enable.eq(reader.read_enable),
            store.read_address.eq(reader.read_address),
            reader.read_beat.eq(store.read_beat),
            *(getattr(store, name).eq(getattr(appender, name)) for name in _APPEND),
        ]

    def _compute(self, m: Module) -> None:
        """Operations on beats and on words."""
        sequencer, unit, words = self.sequencers[Engine.COMPUTE], self.compute, self.words
        first, second, _ = words.reads
        m.d.comb += [
            unit.start.eq(sequencer.issue),
            unit.operands.eq(sequencer.operands),
            sequencer.instant.eq(unit.instant),
            sequencer.done.eq(unit.done),
            first.address.eq(unit.first.address),
            second.address.eq(unit.second.address),
            unit.first.data.as_value().eq(first.data.as_value()),
            unit.second.data.as_value().eq(second.data.as_value()),
            self.appender.write_blocks.eq(unit.append_blocks),
            self.appender.write_address.eq(unit.append_address),
            self.appender.write_beat.eq(unit.append_beat),
            self.counts[0].eq(unit.saturations),
            self.counts[1].eq(unit.overflows + self.sink.wraps),
        ]
        connect(m, self.reader.beats, unit.beats)
        with m.If(self._writes(Space.VECTOR)):
            m.d.comb += [
                words.write.address.eq(self.host_address),
                words.write.data.as_value().eq(self.host_data[:32]),
                words.write.count.eq(1),
            ]
        with m.Else():
            m.d.comb += [
                words.write.address.eq(unit.write.address),
                words.write.data.as_value().eq(unit.write.data.as_value()),
                words.write.count.eq(unit.write.count),
            ]

    def _network(self, m: Module) -> None:
        """PUT."""
        sequencer, injector = self.sequencers[Engine.NETWORK], self.injector
        i, puts, read = sequencer.operands, Signal(), self.descriptors.read_port()
        words = self.words.reads[_SENDING]
        m.d.comb += [
            puts.eq(i.op == Op.PUT),
            injector.start.eq(sequencer.issue & puts),
            injector.source.eq(i.src),
            injector.target.eq(i.dst),
            injector.first.eq(i.aux),
            injector.count.eq(i.m),
            injector.op.eq(i.x),
            injector.semaphore.eq(i.y),
            sequencer.instant.eq(~puts | injector.instant),
            sequencer.done.eq(injector.done),
            read.addr.eq(injector.descriptor_address),
            injector.descriptor.eq(read.data),
            words.address.eq(Mux(self.idle, self.host_address, injector.address)),
            injector.words.eq(words.data),
            self.sent.eq(injector.o.valid & injector.o.flit.tail),
        ]
        connect(m, injector.o, self.router.i0)

    def _receive(self, m: Module) -> None:
        """Arrivals: into the inbox, and their posts."""
        sink, words, semaphores = self.sink, self.words, self.semaphores
        connect(m, self.router.o0, sink.i)
        m.d.comb += [
            words.arrivals.address.eq(sink.read_address),
            sink.read_words.eq(words.arrivals.data),
            words.arrive.address.eq(sink.write_address),
            words.arrive.data.eq(sink.write_words),
            words.arrive.count.eq(sink.write_count),
            semaphores.post[3].eq(sink.post),
            semaphores.posting[3].eq(sink.post != 0),
        ]
        m.d.sync += self.received.eq(sink.i.valid & sink.i.flit.tail)

    def _host(self, m: Module) -> None:
        """What isn't at its place elsewhere: slots, descriptors, store, scratch, counts."""
        for index, slot in enumerate(self.slots):
            with m.If(self._writes(Space.SLOTS) & (self.host_address == index)):
                m.d.sync += slot.eq(self.host_data)
        write, store = self.descriptors.write_port(), self.store
        m.d.comb += [
            write.addr.eq(self.host_address),
            write.data.eq(self.host_data),
            write.en.eq(self._writes(Space.DESCRIPTORS)),
            store.host.valid.eq(self._writes(Space.STORE)),
            store.host.payload.address.eq(self.host_address),
            store.host.payload.beat.eq(self.host_data),
        ]
        self._count(m)

    def _count(self, m: Module) -> None:
        """What the host reads: counts, or words of vector memory."""
        counters, reader, injector = self.counters, self.reader, self.injector
        beats, late, counting = self.compute.beats, Signal(2), Signal()
        m.d.sync += [
            late.eq(Mux(self.host_address < 2, self.host_address, 2)),
            counting.eq(self.host_space == Space.COUNTS),
        ]
        m.d.comb += [
            counters.beats_read.eq(reader.read_enable),
            counters.full_cycles.eq(reader.full),
            counters.starved_cycles.eq(beats.ready & ~beats.valid),
            counters.injected_flits.eq(injector.o.valid),
            counters.blocked_cycles.eq(injector.blocked),
            counters.running_cycles.eq(~self.idle),
            counters.address.eq(self.host_address - 2),
        ]
        count = Array([self.counts[0], self.counts[1], counters.word])[late]
        word = self.words.reads[_SENDING].data[0]
        m.d.comb += self.host_word.eq(Mux(counting, count, word))

    def _writes(self, space: Space) -> Any:
        """The host writes there."""
        return self.host_write & (self.host_space == space)


_SENDING = 2
"""The read port of vector memory that the injector has; those before are the compute engine's."""

_APPEND = ("append_enable", "append_address", "append_beat")
