"""Round-robin arbiter, and the multiplexer that goes with its answer."""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2


def choose(values: Sequence[ValueLike], index: ValueLike) -> Value:
    """``values[index]`` as a tree of two-way multiplexers; any value for an index behind them."""
    index = Value.cast(index)
    if len(values) == 1:
        return Value.cast(values[0])
    half = 1 << (ceil_log2(len(values)) - 1)
    low, high = choose(values[:half], index), choose(values[half:], index)
    return Mux(index[ceil_log2(half)], high, low)


class Arbiter(wiring.Component):
    """Picks the first request from a pointer on, cyclically.

    Members: ``requests`` (``count`` bits); in the same cycle ``valid`` (there is one), ``grant``
    (its bit) and ``index`` (its number). With ``advance`` and ``valid`` the pointer moves behind
    the winner for the next cycle; otherwise it stays. At reset it is 0.
    """

    def __init__(self, *, count: int) -> None:
        self.count = count
        super().__init__(
            {
                "requests": In(count),
                "advance": In(1),
                "valid": Out(1),
                "grant": Out(count),
                "index": Out(max(1, ceil_log2(count))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        requests = self.requests
        # bit i: number i is not before the pointer; that of the last one is always set
        behind = Signal(max(1, self.count - 1), init=-1)
        preferred = Signal(self.count)
        m.d.comb += preferred.eq(requests & Cat(behind[: self.count - 1], 1))
        field = Mux(preferred.any(), preferred, requests)
        first = [field[i] & ~field[:i].any() for i in range(self.count)]
        m.d.comb += [
            self.valid.eq(requests.any()),
            self.grant.eq(Cat(first)),
            self.index.eq(_number(self.grant)),
        ]
        with m.If(self.advance & self.valid):
            wrapped = self.grant[-1]
            m.d.sync += behind.eq(
                Cat(self.grant[:i].any() | wrapped for i in range(self.count - 1))
            )
        return m


def _number(one_hot: Value) -> Value:
    """The place of the only set bit."""
    count = len(one_hot)
    places = [[one_hot[i] for i in range(count) if i >> b & 1] for b in range(ceil_log2(count))]
    return Cat(reduce(or_, bits, Const(0)) for bits in places)
