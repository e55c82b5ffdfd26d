"""The ways that a packet may go from an input: the routing functions of ``arch.ways`` in logic."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Const, Module, Mux, Value
from amaranth.utils import ceil_log2

from tokenpath.hw.flit import coordinate_bits, coordinates
from tokenpath.hw.route import Ports, Route

if TYPE_CHECKING:
    from tokenpath.hw.router import Router

Way = tuple[int, int]
"""(output port, dateline class of the VCs there)."""


def routed(m: Module, router: "Router", port: int, ways: Sequence[Way], flit: Any) -> list[Value]:
    """For each of ``ways`` whether the packet whose head is ``flit``, at input ``port``, may go it:
    one, or with an adaptive routing up to two."""
    ports, position = router.ports, router.position

    def along(name: str, order: Iterable[int] | None = None) -> list[Value]:
        route = Route(ports=ports, port=port, order=None if order is None else list(order))
        m.submodules[f"route{port}{name}"] = route
        m.d.comb += [route.position.eq(position), route.destination.eq(flit.data[0])]
        return [
            (route.turn == route.turns.index(turn))
            & (route.vc == d if ports.datelines(turn) > 1 else 1)
            for turn, d in ways
        ]

    params = ports.params
    assert params is not None
    if ports.hub is not None or params.routing == "dimension_order":
        return along("")
    if params.routing == "table":
        bits = ceil_log2(len(ports.outputs))
        place = sum(coordinate_bits([dim.size for dim in ports.dims]))
        output = router.routes.word_select(flit.data[0][:place], bits)
        return [output == turn for turn, _ in ways]
    own = ports.dim_of(port)
    if params.routing == "o1turn":
        back = range(len(ports.dims) if own is None else own + 1)
        other_way = flit.vc >= params.vcs // 2
        pairs = zip(along(""), along("back", reversed(back)), strict=True)
        return [Mux(other_way, b, a) for a, b in pairs]
    may = _adaptive(ports, port, position, flit.data[0])
    found = [along(f"dim{i}", [i]) for i in (0, 1)]
    there = ~(may[0] | may[1])
    return [
        there if turn == 0 else x & may[0] if ports.dim_of(turn) == 0 else y & may[1]
        for (turn, _), x, y in zip(ways, *found, strict=True)
    ]


def _adaptive(ports: Ports, port: int, position: Value, destination: Value) -> tuple[Value, Value]:
    """Whether it may go on in the first, and in the second of two lines."""
    assert ports.params is not None
    sizes = [dim.size for dim in ports.dims]
    here, there = coordinates(sizes, position), coordinates(sizes, destination)
    x, y = here[0] != there[0], here[1] != there[1]
    west = there[0] < here[0]
    if ports.params.routing == "west_first":
        return x, y & ~(x & west)
    odd, to_odd = here[0][:1].any(), there[0][:1].any()
    going_east = Const(port == ports.base[0] + 1, 1)
    may_go = west | to_odd | (there[0] != here[0] + 1)
    may_turn = Mux(west, ~odd, odd | ~going_east)
    return x & (~y | may_go), y & (~x | may_turn)
