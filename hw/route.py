"""Where a packet goes next: dimension order, as the topology says, in logic.

A router's inputs can't turn everywhere. A packet that arrives over a link of dimension i has
arrived in all dimensions before i (unless its routing has other orders, too), and in a line or
ring it goes straight on. So each input has a list of *turns*, the outputs that it can ask for, and
a route is an index into that list.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tokenpath.hw.arch.dims import Dim
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.flit import coordinate_bits, coordinates, vc_bits

MOST_TABLE = 16
"""Sizes up to this take their route from Dim.table; above, a shape's rule is computed."""


class Ports:
    """The ports of a router of ``dims``; with ``hub``, of that dimension's switch node.

    ``inputs`` and ``outputs`` number those that exist; ``dim_of(port)`` and ``base[dim]`` tie them
    to dimensions; ``lanes(port)`` is how many virtual channels (VCs) a link there uses: those of
    ``params`` or, without, those that dimension order needs.
    """

    def __init__(
        self, *, dims: Sequence[Dim], hub: int | None = None, params: RouterParams | None = None
    ) -> None:
        self.dims, self.hub, self.params = tuple(dims), hub, params
        self.base = [1]
        for dim in self.dims:
            self.base.append(self.base[-1] + dim.ports)
        last = self.base[-1] if hub is None else 1 + self.dims[hub].size
        self.inputs = self.outputs = tuple(range(0 if hub is None else 1, last))
        self.vcs = max([1, *(self.lanes(port) for port in self.inputs)])

    def dim_of(self, port: int) -> int | None:
        """The dimension of a link port, None for the local one."""
        if self.hub is not None:
            return self.hub
        above = (i for i in range(len(self.dims)) if port < self.base[i + 1])
        return None if port == 0 else next(above)

    def lanes(self, port: int) -> int:
        """VCs at ``port``: those chosen, or 2 in a ring, else 1."""
        return self.params.vcs if self.params else self.datelines(port)

    def datelines(self, port: int) -> int:
        """Classes of VCs at ``port``, by their :attr:`Route.vc`: 2 in a ring with a dateline."""
        dim = self.dim_of(port)
        ring = dim is not None and self.dims[dim].is_ring
        return 2 if ring and (self.params is None or self.params.dateline) else 1

    def turns(self, port: int) -> tuple[int, ...]:
        """The outputs that a packet from input ``port`` may ask for, in order."""
        if self.hub is not None:
            return self.outputs
        dim = self.dim_of(port)
        if dim is None:
            return self.outputs
        if self.params and self.params.routing == "table":
            return tuple(output for output in self.outputs if output != port)
        on = self.base[dim] + 1 - (port - self.base[dim])
        straight = (on,) if self.dims[dim].shape in ("line", "ring") else ()
        routing = self.params.routing if self.params else "dimension_order"
        earlier = range(0) if routing == "dimension_order" else range(1, self.base[dim])
        if routing == "west_first":  # no packet turns to the west
            earlier = earlier[:1]
        return 0, *straight, *earlier, *range(self.base[dim + 1], self.base[-1])


class Route(wiring.Component):
    """The turn of a packet from input ``port``, in the same cycle; ``order``: the dimensions that
    it may go in, the first of them first, as a rule those from its own on.

    Members: ``position`` of this router and ``destination`` of the packet as packed coordinates;
    ``turn``, an index into ``ports.turns(port)``, and ``vc``, its class there (0, or 1 behind a
    ring's dateline), which is the VC of a router that has no more.
    """

    def __init__(self, *, ports: Ports, port: int, order: Sequence[int] | None = None) -> None:
        self.ports, self.port = ports, port
        own = ports.dim_of(port) or 0
        self.order = range(own, len(ports.dims)) if order is None else order
        self.turns = ports.turns(port)
        bits = max(1, sum(coordinate_bits([dim.size for dim in ports.dims])))
        super().__init__(
            {
                "position": In(bits),
                "destination": In(bits),
                "turn": Out(max(1, ceil_log2(len(self.turns)))),
                "vc": Out(vc_bits(ports.vcs)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sizes = [dim.size for dim in self.ports.dims]
        here = coordinates(sizes, self.position)
        there = coordinates(sizes, self.destination)
        if self.ports.hub is not None:
            m.d.comb += self.turn.eq(there[self.ports.hub])
            return m
        own = self.ports.dim_of(self.port)
        for i in reversed(self.order):
            dim, base = self.ports.dims[i], self.ports.base[i]
            if dim.ports == 0 or (i == own and dim.shape in ("full", "switch")):
                continue
            with m.If(here[i] != there[i]):  # written later, so an earlier dimension wins
                offset, vc = hop(dim, here[i], there[i])
                if i == own:  # straight on
                    m.d.comb += [self.turn.eq(1), self.vc.eq(vc)]
                else:
                    m.d.comb += [self.turn.eq(self.turns.index(base) + offset), self.vc.eq(vc)]
        return m


def hop(dim: Dim, x: Value, d: Value) -> tuple[Value, Value]:
    """``Dim.route`` in logic: (port offset, vc) from ``x`` to ``d``, any value where equal."""
    if dim.shape == "line" or (dim.shape == "ring" and not dim.is_ring):
        return d < x, Const(0, 1)
    if dim.shape == "switch":
        return Const(0, 1), Const(0, 1)
    if dim.size <= MOST_TABLE:
        return _from_table(dim, x, d)
    if dim.shape == "full":
        return Mux(d > x, d - x - 1, d - x + (dim.size - 1))[: ceil_log2(dim.size)], Const(0, 1)
    forward = Mux(d >= x, d - x, d - x + dim.size)[: ceil_log2(dim.size)]
    twice = Cat(Const(0, 1), forward)
    plus = (twice < dim.size) | ((twice == dim.size) & ~x[0])
    return ~plus, Mux(plus, d < x, d > x)


def _from_table(dim: Dim, x: Value, d: Value) -> tuple[Value, Value]:
    """The row of ``Dim.table`` at (x, d)."""
    wide, table = 1 << len(d), dim.table
    rows = [table[i // wide][i % wide] if i // wide < dim.size and i % wide < dim.size else (0, 0)
            for i in range(wide * wide)]  # fmt: skip
    offsets = Const(
        sum(offset << len(d) * i for i, (offset, _) in enumerate(rows)), len(d) * len(rows)
    )
    vcs = Const(sum(vc << i for i, (_, vc) in enumerate(rows)), len(rows))
    at = Cat(d, x)
    return offsets.word_select(at, len(d)), vcs.bit_select(at, 1)
