"""Where a packet may go next: every routing function of ``RouterParams``, as a pure rule.

* ``dimension_order``: the dimensions as they are listed (``Topology.next_hop``).
* ``o1turn``: as they are listed or the other way round (Seo et al. 2005), each order on a half of
  the VCs, which a packet enters where it enters the network and never leaves.
* ``west_first``: in a mesh, west first, then any way that is no detour (Glass and Ni 1992).
* ``table``: that of a table, the same for all inputs and VCs (``route_table``).
* ``odd_even``: in a mesh, any way that is no detour, but from going east no turn in an even column,
  and to going west none in an odd one (Chiu 2000).

Hardware, tables of the fast simulator and the deadlock proof are all held to ``ways``.
"""

from collections.abc import Iterable

from .errors import InputError
from .route_table import read_table
from .router_params import RouterParams
from .routing import Channel, DeadlockError, Proof, find_cycle
from .topology import Topology

Way = tuple[int, int]
"""(output port, the VCs there that may be taken, a bit each)."""

MOST_TILES = 64
"""Up to so many tiles a deadlock proof follows all pairs."""


def ways(
    router: RouterParams, topology: Topology, node: int, port: int, vc: int, to: int
) -> tuple[Way, ...]:
    """The outputs that a packet to tile ``to`` may take at ``node``, which it entered by input
    ``port`` on ``vc``: one, or in adaptive routing two, that of the first dimension first.

    Port 0 of the answer is the local one: it is there.
    """
    if not 0 <= node < topology.tiles:
        return ((topology.next_hop(node, to)[0], router.allowed(None, 0, vc)),)
    here, there = topology.coordinates(node), topology.coordinates(to)
    differing = [i for i, (x, d) in enumerate(zip(here, there, strict=True)) if x != d]
    if not differing:
        return ((0, router.allowed(None, 0, vc)),)
    if router.routing == "table":
        output = read_table(router.routes, topology)[node][to]
        return ((output, router.allowed(topology.dims[topology.port_dim(node, output)], 0, vc)),)
    if router.adaptive:
        chosen = _adaptive(router.routing, topology, here, there, port)
    else:
        chosen = [differing[-1 if router.order(vc) else 0]]
    found = []
    for i in chosen:
        dim = topology.dims[i]
        offset, behind = dim.route(here[i], there[i])
        output = topology.port_base[i] + offset
        inside = port != 0 and topology.port_dim(node, port) == i and dim.is_ring
        allowed = router.allowed(dim, behind, vc)
        if inside and router.switching == "bubble":
            allowed = 1 << vc
        found.append((output, allowed))
    return tuple(found)


def _adaptive(
    routing: str, topology: Topology, here: tuple[int, ...], there: tuple[int, ...], port: int
) -> list[int]:
    """The dimensions, of two lines, in which a packet may go on; the first is east and west."""
    east, differs = there[0] - here[0], [i for i in (0, 1) if here[i] != there[i]]
    if len(differs) < 2:
        return differs
    if routing == "west_first":
        return differs if east > 0 else [0]
    if east < 0:
        return differs if here[0] % 2 == 0 else [0]
    going_east = port == topology.port_base[0] + 1  # it came in from the west
    may_turn = here[0] % 2 == 1 or not going_east
    may_go = there[0] % 2 == 1 or east != 1
    return [i for i, may in ((0, may_go), (1, may_turn)) if may]


def set_bits(mask: int) -> list[int]:
    """The places of the bits that are 1, the lowest first."""
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def first_channels(router: RouterParams, topology: Topology, to: int) -> int:
    """The VCs, a bit each, of the local port on which a packet to tile ``to`` may enter."""
    if not router.ordered:
        return (1 << router.local) - 1
    return 1 << sum(topology.coordinates(to)) % router.vcs


def arrivals(
    router: RouterParams, topology: Topology, node: int
) -> dict[tuple[int, int], dict[int, tuple[Way, ...]]]:
    """(input port, VC) of ``node`` -> the tiles to which packets come there, and their ways from
    it; O(tiles * channels)."""
    found: dict[tuple[int, int], dict[int, tuple[Way, ...]]] = {}
    for to in range(topology.tiles):
        entries = set_bits(first_channels(router, topology, to))
        left = [(tile, 0, vc) for tile in range(topology.tiles) for vc in entries]
        seen = set(left)
        while left:
            at, port, vc = left.pop()
            there = ways(router, topology, at, port, vc, to)
            if at == node:
                found.setdefault((port, vc), {})[to] = there
            for output, allowed in there:
                arrived = topology.neighbour(at, output)
                after = {(*arrived, w) for w in set_bits(allowed)} if arrived else set()
                left += after - seen
                seen |= after
    return found


def check_ways(router: RouterParams, topology: Topology) -> Proof:
    """Prove that no traffic can deadlock these routers; raises DeadlockError naming a cycle.

    Every channel that any packet can hold waits for every one that it may take next (Dally and
    Seitz 1987; for adaptive routing that is more than is needed, and enough). Follows all pairs,
    O(tiles^2); raises InputError above ``MOST_TILES``. A ring with bubbles isn't for this proof.
    """
    if topology.tiles > MOST_TILES:
        raise InputError(
            f"proof for {topology.tiles} tiles: give at most {MOST_TILES}, the rules of a larger "
            "mesh are the same"
        )
    graph: dict[Channel, set[Channel]] = {}
    for to in range(topology.tiles):
        _follow(router, topology, to, graph)
    cycle = find_cycle(graph)
    if cycle:
        names = " -> ".join(topology.channel_name(one) for one in (*cycle, cycle[0]))
        raise DeadlockError(f"routing {router.routing} can deadlock: {names}", cycle)
    return Proof(
        channels=len(graph),
        dependencies=sum(map(len, graph.values())),
        pairs=topology.tiles * (topology.tiles - 1),
        method="all ways",
    )


def _follow(
    router: RouterParams, topology: Topology, to: int, graph: dict[Channel, set[Channel]]
) -> None:
    """Add what packets to tile ``to`` hold and wait for."""
    entries = set_bits(first_channels(router, topology, to))
    reached = {
        channel
        for node in range(topology.tiles)
        for vc in entries
        for channel in _taken(ways(router, topology, node, 0, vc, to), node)
    }
    left = list(reached)
    while left:
        channel = left.pop()
        arrived = topology.neighbour(channel[0], channel[1])
        assert arrived is not None, f"{topology}: no link at port {channel[1]} of {channel[0]}"
        after = set(_taken(ways(router, topology, *arrived, channel[2], to), arrived[0]))
        graph.setdefault(channel, set()).update(after)
        left += after - reached
        reached |= after


def _taken(found: Iterable[Way], node: int) -> Iterable[Channel]:
    """The channels of these ways, none for the local port."""
    for port, allowed in found:
        if port:
            yield from ((node, port, vc) for vc in set_bits(allowed))
