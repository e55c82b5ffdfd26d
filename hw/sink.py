"""Network interface, receiving side: puts words of packets into the inbox and posts."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch.isa import SEMAPHORE_BITS, PutOp
from tokenpath.hw.arch.timing import HEADER_WORDS, SINK_CYCLES
from tokenpath.hw.flit import ADDRESS_BITS, HEADER, flits

assert SINK_CYCLES == 2, "a cycle to read and one to combine and write"


class Sink(wiring.Component):
    """Takes a flit a cycle from the router's local output, always.

    Members: ``i``, the flits. A flit granted in t asks for ``read_address`` in t and has
    ``read_words`` in t + 1, ``flit_words`` of them; in t + 1 it writes ``write_count`` words (0:
    none) of ``write_words`` from ``write_address`` on, and its packet's tail has ``post``, the
    semaphore that gains one (0: none). So both are visible in t + 2 = t + SINK_CYCLES. ``wraps``
    counts sums that left 32 bits.

    A read doesn't see the write of its own cycle: with ``forward`` the sink merges that write into
    what it read, whatever the overlap. Leave it out for a memory that does so itself. Flits of 2
    words of one virtual channel (VC) never need it: a head flit without payload lies between the
    payloads of two packets.

    Packets may arrive interleaved on ``lanes`` VCs, each of which keeps its packet's header and
    place.
    """

    def __init__(
        self, *, flit_words: int, vcs: int, address_bits: int = ADDRESS_BITS, forward: bool = True,
        lanes: int = 1,
    ) -> None:  # fmt: skip
        self.flit_words, self.lanes = flit_words, lanes
        self.forward = forward and (flit_words > HEADER_WORDS or lanes > 1)
        words = data.ArrayLayout(32, flit_words)
        super().__init__(
            {
                "i": In(flits(flit_words=flit_words, vcs=vcs)),
                "read_address": Out(address_bits),
                "read_words": In(words),
                "write_address": Out(address_bits),
                "write_words": Out(words),
                "write_count": Out(range(flit_words + 1)),
                "post": Out(SEMAPHORE_BITS),
                "wraps": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        header = self._accept(m)
        self._combine(m, header)
        return m

    def _accept(self, m: Module) -> Value:
        """Cycle t: ask for the words at the flit's place. Returns the header, for t + 1."""
        flit, width = self.i.flit, self.flit_words
        kept, header = Signal(HEADER, reset_less=True), Signal(HEADER)
        address, following = self.read_address, Signal.like(self.read_address, reset_less=True)
        first = flit.data.as_value()[: HEADER.size]
        before: tuple[Value, Value] = kept.as_value(), following
        count = Signal(range(width + 1))
        if self.lanes > 1:
            behind = (address + count)[: len(address)]
            before = self._of_channel(m, header.as_value(), behind)
        m.d.comb += header.as_value().eq(Mux(flit.head, first, before[0]))
        m.d.comb += address.eq(Mux(flit.head, header.address, before[1]))
        used = Mux(flit.tail, header.last + 1, width)
        m.d.comb += count.eq(Mux(flit.head, used - HEADER_WORDS, used))
        with m.If(self.i.valid):
            m.d.sync += [kept.eq(header), following.eq(address + count)]
        m.d.sync += [
            self.write_address.eq(address),
            self.write_count.eq(Mux(self.i.valid, count, 0)),
            self.post.eq(Mux(self.i.valid & flit.tail, header.semaphore, 0)),
        ]
        self.arrived = Signal(data.ArrayLayout(signed(32), width), reset_less=True)
        words = list(flit.data)
        for i in range(width):
            late = words[i + HEADER_WORDS] if i + HEADER_WORDS < width else Const(0, 32)
            m.d.sync += self.arrived[i].eq(Mux(flit.head, late, words[i]))
        return kept

    def _of_channel(self, m: Module, header: Value, following: Value) -> tuple[Value, Value]:
        """The header and place that the last flit of this flit's VC left; keep this one's."""
        m.submodules.packets = packets = Memory(
            shape=HEADER.size + len(following), depth=self.lanes, init=[]
        )
        write, read = packets.write_port(), packets.read_port(domain="comb")
        m.d.comb += [
            write.addr.eq(self.i.flit.vc),
            write.data.eq(Cat(header, following)),
            write.en.eq(self.i.valid),
            read.addr.eq(self.i.flit.vc),
        ]
        return read.data[: HEADER.size], read.data[HEADER.size :]

    def _combine(self, m: Module, header: Value) -> None:
        """Cycle t + 1: store, add or take the maximum."""
        there = self._forwarded(m) if self.forward else list(self.read_words)
        wrapped = Signal(self.flit_words)
        for i, old in enumerate(there):
            new, old, total = self.arrived[i], old.as_signed(), Signal(signed(33), name=f"sum{i}")
            m.d.comb += total.eq(old + new)
            m.d.comb += wrapped[i].eq((total[32] != total[31]) & (i < self.write_count))
            with m.Switch(header.op):
                with m.Case(PutOp.ADD):
                    m.d.comb += self.write_words[i].eq(total[:32])
                with m.Case(PutOp.MAX):
                    m.d.comb += self.write_words[i].eq(Mux(old < new, new, old))
                with m.Default():
                    m.d.comb += self.write_words[i].eq(new)
        with m.If(header.op == PutOp.ADD):
            m.d.sync += self.wraps.eq(self.wraps + sum(wrapped[i] for i in range(len(wrapped))))

    def _forwarded(self, m: Module) -> list[Value]:
        """The words read, over them those that were written while they were read."""
        width = self.flit_words
        words = Signal(data.ArrayLayout(32, width), reset_less=True)  # the last write
        address = Signal.like(self.write_address, name="last_address", reset_less=True)
        count = Signal.like(self.write_count, name="last_count")
        m.d.sync += [words.eq(self.write_words), address.eq(self.write_address)]
        m.d.sync += count.eq(self.write_count)
        ahead = Signal(len(address))  # of the last write's first word, modulo
        m.d.comb += ahead.eq(self.write_address - address)
        # slide the last write along: word i of now is word i + ahead of then
        near = Signal(range(2 * width))
        m.d.comb += near.eq((ahead + width)[: len(ahead)])
        overlaps = (ahead + width)[: len(ahead)] < 2 * width
        written = Cat(i < count for i in range(width))
        merged = []
        padded = [Const(0, 32)] * width + list(words) + [Const(0, 32)] * width
        masks = [Const(0, 1)] * width + list(written) + [Const(0, 1)] * width
        slide = _slide([Cat(mask, word) for mask, word in zip(masks, padded, strict=True)], near)
        for i, old in enumerate(self.read_words):
            merged.append(Mux(overlaps & slide[i][0], slide[i][1:], old))
        return merged


def _slide(values: list[Value], by: Value) -> list[Value]:
    """``values[by:]``, a stage of multiplexers a bit; only so many as the shift leaves whole."""
    for b, bit in enumerate(by):
        step = 1 << b
        values = [
            Mux(bit, values[i + step], value) if i + step < len(values) else value
            for i, value in enumerate(values)
        ]
    return values
