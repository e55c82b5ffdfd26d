"""Arbiters, and the multiplexers that go with their answer."""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

KINDS = ("round_robin", "matrix", "pairs")


def choose(values: Sequence[ValueLike], index: ValueLike) -> Value:
    """``values[index]`` as a tree of two-way multiplexers; any value for an index behind them."""
    index = Value.cast(index)
    if len(values) == 1:
        return Value.cast(values[0])
    half = 1 << (ceil_log2(len(values)) - 1)
    low, high = choose(values[:half], index), choose(values[half:], index)
    return Mux(index[ceil_log2(half)], high, low)


def choose_winner(values: Sequence[ValueLike], sides: Value) -> Value:
    """The value of an arbiter's winner by its ``sides``; any value if there is none.

    A crossbar of these is small and fast: a select comes from few requests, and the last one
    moves but one multiplexer.
    """
    if len(values) == 1:
        return Value.cast(values[0])
    half = 1 << (ceil_log2(len(values)) - 1)
    low, high = choose_winner(values[:half], sides), choose_winner(values[half:], sides[half:])
    return Mux(sides[half - 1], high, low)


def one_of(bits: Sequence[Value] | Value, values: Sequence[Value]) -> Value:
    """The value whose bit is set, 0 if there is none."""
    found: Value = Const(0, 1)
    for bit, value in zip(bits, values, strict=True):
        found = found | Mux(bit, value, 0)
    return found


class Order:
    """Who comes before whom among ``count``, a register for each pair; ``kind`` ``pairs`` or
    ``matrix`` as in :class:`Arbiter`. At reset they are in the order of numbers."""

    def __init__(self, *, count: int, kind: str, name: str = "") -> None:
        self.count, self.kind = count, kind
        pairs = [(j, k) for k in range(count) for j in range(k)]
        self.before = {(j, k): Signal(name=f"{name}before{j}_{k}", init=1) for j, k in pairs}

    def first(self, requests: Sequence[Value]) -> list[Value]:
        """For each request whether none comes before it; that waits for no other than those."""
        ahead: list[list[Value]] = [[] for _ in range(self.count)]
        for (j, k), earlier in self.before.items():
            ahead[k].append(requests[j] & earlier)
            ahead[j].append(requests[k] & ~earlier)
        return [one & ~Cat(others).any() for one, others in zip(requests, ahead, strict=True)]

    def serve(self, m: Module, served: Value, stay: ValueLike = 0) -> None:
        """The one ``served``, a bit, is last from the next cycle on; in ``matrix`` first with
        ``stay``."""
        for (j, k), earlier in self.before.items():
            if self.kind == "pairs":
                m.d.sync += earlier.eq(~served[j:k].any())
                continue
            with m.If(served[j] | served[k]):
                m.d.sync += earlier.eq(served[k] ^ stay)


class Arbiter(wiring.Component):
    """Picks the first of the requests in an order that changes with every pick.

    Members: ``requests`` (``count`` bits) compete, only those ``allowed`` are granted; in the same
    cycle ``valid`` (one is), ``grant`` (the winner's bit), ``index`` (its number) and ``sides`` for
    :func:`choose_winner`. The user sees to it that no request that isn't allowed comes before one
    that is: all are, or those that are stand first because of ``stay``.

    With ``advance`` and ``valid`` the order changes for the next cycle. ``round_robin``: cyclic,
    from the one behind the winner on. ``matrix``: the winner goes to the end, so that the one
    served least recently is first. With ``stay``, too, the winner is the first (and in
    ``round_robin`` the others follow cyclically). At reset number 0 is first, the others follow.
    ``pairs`` is ``round_robin`` without ``stay``, quicker and larger: who comes before whom is in
    registers, and a grant waits for no other request than those before it.

    ``sides[i - 1]`` belongs to the node that splits at ``i`` in the binary tree over 0..count - 1
    whose lower halves are powers of two: the first request below the node is at or behind i.
    """

    def __init__(self, *, count: int, kind: str = "round_robin") -> None:
        if kind not in KINDS:
            raise ValueError(f"unknown arbiter {kind!r}; give {' or '.join(KINDS)}")
        self.count, self.kind = count, kind
        super().__init__(
            {
                "requests": In(count),
                "allowed": In(count, init=-1),
                "advance": In(1),
                "stay": In(1),
                "valid": Out(1),
                "grant": Out(count),
                "index": Out(max(1, ceil_log2(count))),
                "sides": Out(max(1, count - 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        upper = self._round_robin(m) if self.kind == "round_robin" else self._matrix(m)
        allowed = self.requests & self.allowed
        paths: list[list[Value]] = [[one] for one in allowed]
        for low, middle, high in _nodes(0, self.count):
            side = self.sides[middle - 1]
            m.d.comb += side.eq(upper(low, middle, high))
            for i in range(low, high):
                paths[i].append(side if i >= middle else ~side)
        direct = Cat(self._order.first(list(allowed))) if self.kind == "pairs" else None
        m.d.comb += [
            self.grant.eq(Cat(Cat(path).all() for path in paths) if direct is None else direct),
            self.valid.eq(allowed.any()),
            self.index.eq(place_of(self.grant)),
        ]
        return m

    def _round_robin(self, m: Module) -> "_Upper":
        # bit i: number i is not before the pointer; that of the last one is always set
        last, grant = self.count - 1, self.grant
        behind = Signal(max(1, last), init=-1)
        preferred = self.requests & Cat(behind[:last], 1)
        with m.If(self.advance & self.valid):
            m.d.sync += behind.eq(
                Cat(grant[:i].any() | Mux(self.stay, grant[i], grant[last]) for i in range(last))
            )

        def upper(low: int, middle: int, high: int) -> Value:
            wrapped = preferred[middle:high].any() | ~self.requests[low:middle].any()
            return wrapped & ~preferred[low:middle].any()

        return upper

    def _matrix(self, m: Module) -> "_Upper":
        self._order = order = Order(count=self.count, kind=self.kind)
        before = order.before
        with m.If(self.advance & self.valid):
            order.serve(m, self.grant, self.stay)

        def upper(low: int, middle: int, high: int) -> Value:
            free = (
                Cat(~(self.requests[j] & before[j, k]) for j in range(low, middle)).all()
                for k in range(middle, high)
            )
            return (Cat(free) & self.requests[middle:high]).any()

        return upper


_Upper = Callable[[int, int, int], Value]
"""(low, middle, high): whether the first of the requests in low..high - 1 is at or behind middle;
any value if there is none."""


def _nodes(low: int, high: int) -> Iterator[tuple[int, int, int]]:
    """The nodes of a binary tree over low..high - 1, each with the place where it is split."""
    if high - low > 1:
        middle = low + (1 << (ceil_log2(high - low) - 1))
        yield low, middle, high
        yield from _nodes(low, middle)
        yield from _nodes(middle, high)


def place_of(one_hot: Value) -> Value:
    """The place of the only set bit, at least a bit wide."""
    count = len(one_hot)
    bits = range(max(1, ceil_log2(count)))
    places = [[one_hot[i] for i in range(count) if i >> b & 1] for b in bits]
    return Cat(reduce(or_, found, Const(0, 1)) for found in places)
