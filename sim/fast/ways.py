"""Where a packet may go next: ``hw.arch.ways`` from its tables.

A way is ``output port << VC_BITS | VCs that may be taken``; in adaptive routing, where all VCs may,
``output port << VC_BITS | places from there to the other output``, 0 if there is none.
"""

# ruff: noqa: F403, F405
from .columns import *
from .jit import hot, inner, wide
from .state import Engines, Network


@hot
def route(s: Engines, n: Network, node: int, to: int) -> int:
    """The way of dimension order at ``node`` to tile ``to``: Topology.next_hop."""
    dims, base = s.constants[DIMS], wide(n.node_port0[node])
    tiles = s.constants[TILES]
    if node >= tiles:
        port = base + 1 + n.coordinates[to * dims + n.hub_dim[node - tiles]]
        return wide(port << VC_BITS | s.constants[LOCAL_VCS])
    found = wide(s.constants[LOCAL_VCS])
    for k in range(dims - 2):
        i = dims - 1 - k
        turn = wide(n.routes[n.rows[node * dims + i] + n.coordinates[to * dims + i]])
        found = turn if turn else found
    for k in range(2):  # unrolled; there are two at least
        i = 1 - k
        turn = wide(n.routes[n.rows[node * dims + i] + n.coordinates[to * dims + i]])
        found = turn if turn else found
    return wide((base << VC_BITS) + found)


@hot
def way(s: Engines, n: Network, node: int, number: int, to: int) -> int:
    """The way at ``node`` to tile ``to`` from the buffer of this ``number``, port << VC_BITS | VC,
    there.
    """
    if s.constants[ROUTING] == PLAIN:
        return route(s, n, node, to)
    return chosen_way(s, n, node, number, to)


@inner
def chosen_way(s: Engines, n: Network, node: int, number: int, to: int) -> int:
    """``way`` of other routers than those of plain dimension order."""
    vc, base = number & VC_MASK, wide(n.node_port0[node])
    if s.constants[ROUTING] == O1TURN:
        return o1turn_way(s, n, node, vc, to)
    if s.constants[ROUTING] >= WEST_FIRST:
        return wide((base << VC_BITS) + adaptive_way(s, n, node, number >> VC_BITS, to))
    plain = only_way(s, n, node, to)
    port = plain >> VC_BITS
    ring = wide(n.port_ring[port - base]) if node < s.constants[TILES] else wide(0)
    if ring and s.constants[BUBBLE]:
        inside = n.port_ring[number >> VC_BITS] == ring
        return wide(port << VC_BITS | 1 << vc) if inside or s.constants[ORDERED] else plain
    if s.constants[ORDERED]:
        size = s.constants[HALF] if ring else s.constants[VCS]
        lowest = plain & -plain & VC_MASK
        return wide(port << VC_BITS | lowest << vc % size)
    return plain


@hot
def only_way(s: Engines, n: Network, node: int, to: int) -> int:
    """The way of dimension order, or of a table."""
    if s.constants[ROUTING] == TABLE and node < s.constants[TILES]:
        port = n.node_port0[node] + n.table[node * s.constants[TILES] + to]
        return wide(port << VC_BITS | s.constants[LOCAL_VCS])
    return route(s, n, node, to)


@inner
def o1turn_way(s: Engines, n: Network, node: int, vc: int, to: int) -> int:
    """The way in the order of dimensions of the VC's half."""
    half = s.constants[HALF]
    lower = (1 << half) - 1
    if vc < half or node >= s.constants[TILES]:
        port = route(s, n, node, to) >> VC_BITS
    else:
        dims, port = s.constants[DIMS], wide(n.node_port0[node])
        last = wide(0)
        for i in range(dims):
            turn = wide(n.routes[n.rows[node * dims + i] + n.coordinates[to * dims + i]])
            last = turn >> VC_BITS if turn else last
        port += last
    return wide(port << VC_BITS | (lower << half if vc >= half else lower))


@inner
def adaptive_way(s: Engines, n: Network, node: int, source: int, to: int) -> int:
    """The way in a mesh, its port counted from the node's first: 1 and 2 lead east and west."""
    one = wide(n.routes[n.rows[2 * node] + n.coordinates[2 * to]] >> VC_BITS)
    two = wide(n.routes[n.rows[2 * node + 1] + n.coordinates[2 * to + 1]] >> VC_BITS)
    if one == 0 or two == 0:
        return wide((one | two) << VC_BITS)
    x = n.coordinates[2 * node]
    across = n.coordinates[2 * to] - x
    go = turn = True
    if s.constants[ROUTING] == WEST_FIRST:
        turn = across > 0
    elif across < 0:
        turn = x % 2 == 0
    else:
        turn, go = x % 2 == 1 or source != 2, (x + across) % 2 == 1 or across != 1
    if not go:
        return wide(two << VC_BITS)
    return wide(one << VC_BITS | (two - one if turn else 0))


@hot
def first_channel(s: Engines, n: Network, to: int) -> int:
    """The VC, a bit, of the local port on which a packet to tile ``to`` enters, if its destination
    says so.
    """
    total, dims = wide(0), s.constants[DIMS]
    for i in range(dims):
        total += n.coordinates[to * dims + i]
    return wide(1 << total % s.constants[VCS])
