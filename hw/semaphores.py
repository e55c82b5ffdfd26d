"""Semaphores: the counters through which the engines of a tile wait for each other."""

from functools import reduce
from operator import or_

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tokenpath.hw.beat import tree_sum


class Semaphores(wiring.Component):
    """``count`` counters of ``bits`` bits with ``waiters`` waiters and ``posts`` sources of posts.

    A count changes at the end of a cycle: what is posted or taken in t shows in ``enough`` in
    t + 1. Several posts of one semaphore in one cycle all count. A semaphore belongs to one
    waiter, so no two take from it at once. Semaphore 0 is none: it is always enough, and posting
    it does nothing. Counts are kept from step to step; they start with 0.

    Members
    -------
    wait : ``In(ArrayLayout(range(count), waiters))``, need : ``In(ArrayLayout(bits, waiters))``
        What each waiter waits for.
    enough : ``Out(waiters)``
        In the same cycle: the semaphore holds at least ``need`` (or is semaphore 0).
    take : ``In(waiters)``
        The waiter takes ``need`` away at the end of this cycle; only with its ``enough``.
    post : ``In(ArrayLayout(range(count), posts))``, posting : ``In(posts)``
        Each source adds one to its semaphore at the end of a cycle with its bit of ``posting``.
    """

    def __init__(self, *, count: int, bits: int, waiters: int, posts: int) -> None:
        self.count, self.bits, self.waiters, self.posts = count, bits, waiters, posts
        index = ceil_log2(count)
        super().__init__(
            {
                "wait": In(data.ArrayLayout(index, waiters)),
                "need": In(data.ArrayLayout(bits, waiters)),
                "enough": Out(waiters),
                "take": In(waiters),
                "post": In(data.ArrayLayout(index, posts)),
                "posting": In(posts),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        counts = Signal(self.bits * self.count)  # one signal: cheap to look into for a simulator
        for w in range(self.waiters):
            held = counts.word_select(self.wait[w], self.bits)
            m.d.comb += self.enough[w].eq((self.wait[w] == 0) | (held >= self.need[w]))
        takes = [
            self._decoded(m, f"takes{w}", self.take[w], self.wait[w]) for w in range(self.waiters)
        ]
        posted = [
            self._decoded(m, f"posted{p}", self.posting[p], self.post[p]) for p in range(self.posts)
        ]
        touched = Signal(self.count)
        m.d.comb += touched.eq(reduce(or_, takes + posted))
        with m.If(touched[1:] != 0):  # an idle cycle costs a simulator nothing
            for i in range(1, self.count):
                count = counts[self.bits * i : self.bits * (i + 1)]
                with m.If(touched[i]):
                    m.d.sync += count.eq(self._following(count, i, takes, posted))
        return m

    def _decoded(self, m: Module, name: str, flag: Value, index: Value) -> Signal:
        """One bit for each semaphore: the flag at its index."""
        bits = Signal(self.count, name=name)
        m.d.comb += bits.eq(flag << index)
        return bits

    def _following(self, count: Value, i: int, takes: list[Signal], posted: list[Signal]) -> Value:
        """The count of semaphore i for the next cycle; at most one waiter takes from it."""
        gone = Const(0, self.bits)
        for w, take in enumerate(takes):
            gone = Mux(take[i], self.need[w], gone)
        return count + tree_sum([each[i] for each in posted]) - gone
