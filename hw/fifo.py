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
    ``tags[v]`` is its first one's tag, 0 if there is none; both come from registers. ``data`` is
    the first entry's data of queue ``select`` in the same cycle. ``pop[v]`` takes the first entry
    of queue v away. The user neither pushes into a full queue (senders have credits) nor pops an
    empty one.

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
                "pop": In(vcs),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        ends, firsts = [], []
        for v in range(self.vcs):
            push = Signal(name=f"push{v}")
            m.d.comb += push.eq(self.push & ((self.push_vc == v) if self.vcs > 1 else 1))
            end, first = self._queue(m, v, push)
            ends.append(end)
            firsts.append(first)
        to, at = self._row(ends, self.push_vc), self._row(firsts, self.select)
        rows = self.vcs << ceil_log2(self.depth)
        m.d.comb += self.data.eq(_memory(m, "rows", rows, self.push_data, self.push, to, at))
        return m

    def _row(self, pointers: list[Signal], vc: Value) -> Value:
        return Cat(choose(pointers, vc), vc[: ceil_log2(self.vcs)])

    def _queue(self, m: Module, v: int, push: Value) -> tuple[Signal, Signal]:
        """Queue ``v``: its pointers to the free place behind it and to its first entry.

        The first entry's tag is in a register, which takes the second one's from the memory or,
        where there is none, the one that comes in.
        """
        bits, pop, tag = ceil_log2(self.depth), self.pop[v], self.tags[v]
        end, first = Signal(bits, name=f"end{v}"), Signal(bits, name=f"first{v}")
        second = Signal(bits, name=f"second{v}", init=1 % self.depth)
        with m.If(push):
            m.d.sync += end.eq(self._after(end))
        with m.If(pop):
            m.d.sync += [first.eq(second), second.eq(self._after(second))]
        more, following = Signal(name=f"more{v}"), Value.cast(0)
        if self.depth > 1:
            following = _memory(m, f"tags{v}", self.depth, self.push_tag, push, end, second)
            m.d.comb += more.eq(self.filled[v] & (second != end))
        with m.If(pop | ~self.filled[v]):
            m.d.sync += self.filled[v].eq(more | push)
            m.d.sync += tag.eq(Mux(more, following, Mux(push, self.push_tag, 0)))
        return end, first

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
