"""Matching a router's inputs and outputs at once: output-first with iterations, and wavefront."""

from collections.abc import Collection

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arbiter import Order

Pair = tuple[int, int]
"""(input port, output port)."""


class Matcher(wiring.Component):
    """The ``output_first`` and ``wavefront`` of :class:`tokenpath.hw.arch.allocation.Allocator`,
    without their arbiters of virtual channels.

    Members: ``requests[i][o]``, input i asks for output o; ``match[i][o]`` in the same cycle, of
    which every match moves the order. Only ``pairs`` ever ask; ``arbiter`` is a kind of
    :class:`tokenpath.hw.arbiter.Order`.
    """

    def __init__(
        self, *, ports: int, pairs: Collection[Pair], kind: str, iterations: int = 1,
        arbiter: str = "pairs",
    ) -> None:  # fmt: skip
        self.ports, self.pairs = ports, sorted(pairs)
        self.kind, self.iterations, self.arbiter = kind, iterations, arbiter
        matrix = ArrayLayout(ArrayLayout(1, ports), ports)
        super().__init__({"requests": In(matrix), "match": Out(matrix)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        asked: dict[Pair, Value] = {(i, o): self.requests[i][o] for i, o in self.pairs}
        match = self._wavefront if self.kind == "wavefront" else self._output_first
        for (i, o), matched in match(m, asked).items():
            m.d.comb += self.match[i][o].eq(matched)
        return m

    def _output_first(self, m: Module, asked: dict[Pair, Value]) -> dict[Pair, Value]:
        inputs, outputs = self._orders("input", 0), self._orders("output", 1)
        left, matched = asked, dict.fromkeys(asked, Const(0, 1))
        for iteration in range(self.iterations):
            offers = _named(m, f"offer{iteration}", _each_first(left, outputs, 1))
            found = _named(m, f"match{iteration}", _each_first(offers, inputs, 0))
            if iteration == 0:
                for side, orders in ((0, inputs), (1, outputs)):
                    for port, order in orders.items():
                        served = Signal(order.count, name=f"served{side}_{port}")
                        m.d.comb += served.eq(Cat(_of(found, side, port).values()))
                        with m.If(served.any()):
                            order.serve(m, served)
            matched = {pair: matched[pair] | it for pair, it in found.items()}
            left = {
                (i, o): it & ~_any(matched, 0, i) & ~_any(matched, 1, o)
                for (i, o), it in left.items()
            }
        return matched

    def _orders(self, name: str, side: int) -> dict[int, Order]:
        """An order for each input (side 0) or output (side 1), of those that it has to do with."""
        ports = [pair[side] for pair in self.pairs]
        return {
            port: Order(count=ports.count(port), kind=self.arbiter, name=f"{name}{port}_")
            for port in sorted(set(ports))
        }

    def _wavefront(self, m: Module, asked: dict[Pair, Value]) -> dict[Pair, Value]:
        """Twice through the diagonals in a row: the first time from the pointer on, then those
        before it."""
        ports = self.ports
        behind = Signal(ports, init=-1)  # bit d: diagonal d is not before the pointer
        matched: dict[Pair, Value] = {}
        rows, columns = (dict.fromkeys(range(ports), Const(0, 1)) for _ in (0, 1))  # taken
        for step in range(2 * ports - 1):
            d = step % ports
            now = behind[d] if step < ports else ~behind[d]
            for i, o in self.pairs:
                if (i + o) % ports == d:
                    it = asked[i, o] & now & ~rows[i] & ~columns[o]
                    name = f"match{step // ports}"
                    it = _named(m, name, {(i, o): it})[i, o]
                    rows[i], columns[o] = rows[i] | it, columns[o] | it
                    matched[i, o] = matched.get((i, o), Const(0, 1)) | it
        with m.If(Cat(matched.values()).any()):
            last = ~behind[ports - 2] if ports > 1 else Const(1, 1)
            m.d.sync += behind.eq(Cat(Const(0, 1), behind[:-1]) | last.replicate(ports))
        return matched


def _named(m: Module, name: str, bits: dict[Pair, Value]) -> dict[Pair, Value]:
    """The same as signals, which keep the expressions behind them small."""
    found: dict[Pair, Value] = {}
    for (i, o), value in bits.items():
        found[i, o] = signal = Signal(name=f"{name}_{i}_{o}")
        m.d.comb += signal.eq(value)
    return found


def _of(bits: dict[Pair, Value], side: int, port: int) -> dict[Pair, Value]:
    """The bits of an input (side 0) or output (side 1)."""
    return {pair: bit for pair, bit in bits.items() if pair[side] == port}


def _any(bits: dict[Pair, Value], side: int, port: int) -> Value:
    return Cat(_of(bits, side, port).values()).any()


def _each_first(bits: dict[Pair, Value], orders: dict[int, Order], side: int) -> dict[Pair, Value]:
    """Of each input (side 0) or output (side 1) the first of its bits."""
    found: dict[Pair, Value] = {}
    for port, order in orders.items():
        own = _of(bits, side, port)
        found |= zip(own, order.first(list(own.values())), strict=True)
    return {pair: found[pair] for pair in bits}
