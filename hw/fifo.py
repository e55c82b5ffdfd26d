"""Input buffer of a router port: a queue for each virtual channel in one small memory."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.data import ArrayLayout
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tokenpath.hw.arbiter import choose


class InputBuffer(wiring.Component):
    """``vcs`` queues of ``depth`` entries: ``data_bits`` of data and ``tag_bits`` seen at once.

    Members: in a cycle with ``push`` the entry ``push_data``, ``push_tag`` is put at the end of
    queue ``push_vc`` and can be taken from the next cycle on. ``filled[v]``: queue v has an entry;
    ``tags[v]`` is its first one's tag. ``data`` is the first entry's data of queue ``select`` in
    the same cycle; ``pop`` takes it away. The user neither pushes into a full queue (senders have
    credits) nor pops an empty one.

    Storage is memory with asynchronous reads, one for the data of all queues and one for the tags
    of each: distributed RAM. It isn't reset.
    """

    def __init__(self, *, vcs: int, depth: int, data_bits: int, tag_bits: int) -> None:
        self.vcs, self.depth = vcs, depth
        vc = max(1, ceil_log2(vcs))
        super().__init__(
            {
                "push": In(1),
                "push_vc": In(vc),
                "push_data": In(data_bits),
                "push_tag": In(tag_bits),
                "filled": Out(vcs),
                "tags": Out(ArrayLayout(tag_bits, vcs)),
                "select": In(vc),
                "data": Out(data_bits),
                "pop": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = ceil_log2(self.depth)
        ends = [Signal(bits, name=f"end{v}") for v in range(self.vcs)]
        firsts = [Signal(bits, name=f"first{v}") for v in range(self.vcs)]
        for v in range(self.vcs):
            push = Signal(name=f"push{v}")
            pop = Signal(name=f"pop{v}")
            m.d.comb += push.eq(self.push & self._is(self.push_vc, v))
            m.d.comb += pop.eq(self.pop & self._is(self.select, v))
            self._queue(m, v, ends[v], firsts[v], push, pop)
            tags = _memory(m, f"tags{v}", self.depth, self.push_tag, push, ends[v], firsts[v])
            m.d.comb += self.tags[v].eq(tags)
        to = self._row(ends, self.push_vc)
        rows = self.vcs << bits
        at = self._row(firsts, self.select)
        m.d.comb += self.data.eq(_memory(m, "rows", rows, self.push_data, self.push, to, at))
        return m

    def _is(self, vc: Value, v: int) -> Value | int:
        return vc == v if self.vcs > 1 else 1

    def _row(self, pointers: list[Signal], vc: Value) -> Value:
        return Cat(choose(pointers, vc), vc[: ceil_log2(self.vcs)])

    def _queue(
        self, m: Module, v: int, end: Signal, first: Signal, push: Signal, pop: Signal
    ) -> None:
        """Pointers and the flag of queue ``v``; a full queue differs from an empty one by it."""
        following = self._after(first)
        with m.If(push):
            m.d.sync += end.eq(self._after(end))
        with m.If(pop):
            m.d.sync += first.eq(following)
        with m.If(push):
            m.d.sync += self.filled[v].eq(1)
        with m.Elif(pop):
            m.d.sync += self.filled[v].eq(following != end)

    def _after(self, pointer: Signal) -> Value:
        following = (pointer + 1)[: len(pointer)]
        if self.depth == 1 << len(pointer):
            return following
        return Mux(pointer == self.depth - 1, 0, following)


def _memory(
    m: Module, name: str, rows: int, value: Value, write: Value, to: Value, at: Value
) -> Value:
    """Row ``at`` of a memory into whose row ``to`` ``value`` is written with ``write``."""
    if rows == 1:
        only = Signal(len(value), name=name, reset_less=True)
        with m.If(write):
            m.d.sync += only.eq(value)
        return only
    memory = m.submodules[name] = Memory(shape=len(value), depth=rows, init=[])
    port, read = memory.write_port(), memory.read_port(domain="comb")
    m.d.comb += [port.en.eq(write), port.addr.eq(to), port.data.eq(value), read.addr.eq(at)]
    return read.data
