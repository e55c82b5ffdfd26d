"""Deflection routers, a cycle at a time: the rules of ``hw.arch.deflection``, with sources.

A tile is looked at in cycle t if it has flits in its lanes or in its queue at the start of t; the
others cost nothing. A flit that leaves in t is in the next lane at t + latency of the link. A
source sends a flit if its queue had room at the start of t, which the router may take from t + 1
on. What leaves to a tile in t is visible at t + SINK_CYCLES.
"""

# ruff: noqa: F403, F405
from typing import NamedTuple

from tokenpath.hw.arch.deflection import SLOTS
from tokenpath.sim.compiled import unlocked

from .columns import *
from .events import delivered, due, end_at, next_event
from .jit import hot, inner, pointer32, pointer64, wide
from .state import I32, I64, Engines, engines_at
from .traffic import (
    T_NEXT,
    T_PACKET,
    T_WIDTH,
    UNTIL,
    Sources,
    deliver,
    sources_at,
    start,
)

# counts: tiles to look at in even and in odd cycles, sources with something to send, flits on links
# of more than a cycle, flits over links and to tiles, the most cycles of a flit in the network
(EVEN_N, ODD_N, SENDING_N, FLYING_N, HOPS, LONGEST) = range(6)
# shape, behind the counts
(LANES_N, SHIFT, EPOCH_BITS, TILES_N, DIMS_N, RINGS_N) = range(8, 14)

# queue of a tile: its flits, and the cycle in which one left it last
D_WIDTH = 4
(D_COUNT, D_LEFT, D_FIRST, D_SECOND) = range(4)

# ring of the flits on links of one latency, in order: FIRST and LAST count; LINK: its places
RING_WIDTH, LINK_WIDTH = 8, 4
(RING_LATENCY, RING_AT, RING_MASK, RING_FIRST, RING_LAST) = range(5)
(LINK_DUE, LINK_WHERE, LINK_FLIT) = range(3)

# flit in a lane: packet, tile, parity of its epoch, 1
TO_SHIFT, PACKET_SHIFT = 2, 26
TO_MASK = (1 << PACKET_SHIFT - TO_SHIFT) - 1

YOUNG = 1 << 40
"""Order of flits that aren't old, plus their lane."""


def _exchanges(a: int, b: int, b_first: int) -> bool:
    """What a switch does if flit a, at its upper place, wishes outputs behind the upper (1) and the
    lower (2) place, flit b likewise."""
    tells, cross = (b, 1) if (b in (1, 2) if b_first else a not in (1, 2)) else (a, 2)
    return tells == cross


EXCHANGES = sum(_exchanges(row & 3, row >> 2 & 3, row >> 4) << row for row in range(32))
"""That, a bit for each ``a | b << 2 | b_first << 4``."""


class Deflection(NamedTuple):
    """Routers and links.

    ``lanes`` (2, tiles, lanes): flits in the registers in even and odd cycles, 0 for none;
    ``active`` (2, tiles): tiles to look at then, ``listed`` the last cycle for which each is.
    ``down`` and ``ring`` of each output lane: the lane behind it, and the ring of a longer link, or
    -1; ``links``: places of the ``rings``. ``routes`` has the wish
    of a dimension by coordinate here and there, from ``rows`` (tiles, dims) on. ``scratch``: wishes
    and order of the lanes of a router, and the lane that each place's flit came from.
    """

    counts: I64
    lanes: I64
    queues: I64
    active: I32
    listed: I64
    sending: I32
    entered: I64
    down: I32
    ring: I32
    rings: I64
    links: I64
    coordinates: I32
    rows: I32
    routes: I32
    scratch: I64


@inner
def deflection_at(a: I64) -> Deflection:
    """The fields of Deflection as pointers, from their addresses."""
    return Deflection(
        pointer64(a[0]), pointer64(a[1]), pointer64(a[2]), pointer32(a[3]), pointer64(a[4]),
        pointer32(a[5]), pointer64(a[6]), pointer32(a[7]), pointer32(a[8]), pointer64(a[9]),
        pointer64(a[10]), pointer32(a[11]), pointer32(a[12]), pointer32(a[13]), pointer64(a[14]),
    )  # fmt: skip


@hot
def wishes(d: Deflection, tile: int, to: int) -> int:
    """The output lanes that bring a flit at ``tile`` nearer to ``to``, a bit each."""
    dims, found = d.counts[DIMS_N], wide(0)
    for i in range(dims):
        found |= d.routes[d.rows[tile * dims + i] + d.coordinates[to * dims + i]]
    return wide(found)


@hot
def switch(d: Deflection, step: int) -> None:
    """A stage of ``hw.arch.deflection`` between places ``step`` apart."""
    n, c = d.counts[LANES_N], d.scratch
    at, upper = 2 * n, wide(0)
    while upper < n:
        a, b = c[at + upper], c[at + upper + step]
        ups = ((1 << step) - 1) << (upper & -step)
        lows = ups << step
        row = (c[a] & ups != 0) | (c[a] & lows != 0) << 1
        row |= (c[b] & ups != 0) << 2 | (c[b] & lows != 0) << 3
        row |= (c[n + b] < c[n + a]) << 4
        swap = -(EXCHANGES >> row & 1) & (a ^ b)
        c[at + upper], c[at + upper + step] = a ^ swap, b ^ swap
        upper += 1
        upper += step if upper & step else 0


@hot
def look_at(d: Deflection, tile: int, t: int) -> None:
    """The tile has something to do in cycle t."""
    if d.listed[tile] != t:
        d.listed[tile] = t
        d.active[(t & 1) * d.counts[TILES_N] + d.counts[t & 1]] = tile
        d.counts[t & 1] += 1


@hot
def to_tile(s: Engines, d: Deflection, packet: int, t: int) -> None:
    """A packet leaves to its tile."""
    at = 2 * ((s.g[DELIVER_HEAD] + s.g[DELIVER_N]) & s.constants[DELIVER_MASK])
    s.deliveries[at] = t + s.constants[EJECTION]
    s.deliveries[at + 1] = packet
    s.g[DELIVER_N] += 1
    d.counts[HOPS] += 1


@hot
def leave(d: Deflection, tile: int, out: int, flit: int, t: int) -> None:
    """A flit leaves by an output lane."""
    where, ring = wide(d.down[out]), wide(d.ring[out])
    there = where >> d.counts[SHIFT]
    d.counts[HOPS] += there != tile
    if ring < 0:
        d.lanes[((t + 1 & 1) * d.counts[TILES_N] << d.counts[SHIFT]) + where] = flit
        look_at(d, there, t + 1)
        return
    u = ring * RING_WIDTH
    at = (d.rings[u + RING_AT] + (d.rings[u + RING_LAST] & d.rings[u + RING_MASK])) * LINK_WIDTH
    d.links[at + LINK_DUE] = t + d.rings[u + RING_LATENCY]
    d.links[at + LINK_WHERE] = where
    d.links[at + LINK_FLIT] = flit
    d.rings[u + RING_LAST] += 1
    d.counts[FLYING_N] += 1


@hot
def land(d: Deflection, t: int) -> int:
    """Flits of longer links that are there at the start of t; the cycle of the next one."""
    soon = wide(NEVER)
    for ring in range(d.counts[RINGS_N]):
        u = ring * RING_WIDTH
        while d.rings[u + RING_FIRST] < d.rings[u + RING_LAST]:
            at = (
                d.rings[u + RING_AT] + (d.rings[u + RING_FIRST] & d.rings[u + RING_MASK])
            ) * LINK_WIDTH
            if d.links[at + LINK_DUE] > t:
                soon = min(soon, d.links[at + LINK_DUE])
                break
            where = d.links[at + LINK_WHERE]
            d.lanes[((t & 1) * d.counts[TILES_N] << d.counts[SHIFT]) + where] = d.links[
                at + LINK_FLIT
            ]
            look_at(d, where >> d.counts[SHIFT], t)
            d.rings[u + RING_FIRST] += 1
            d.counts[FLYING_N] -= 1
    return wide(soon)


@hot
def take_out(s: Engines, d: Deflection, tile: int, lane0: int, t: int) -> int:
    """Look at a tile's lanes, and give it a flit that is there; whether there was one."""
    n, parity = d.counts[LANES_N], t >> d.counts[EPOCH_BITS] & 1
    here, old_here = wide(-1), wide(-1)
    for i in range(n):
        flit, wish, order = d.lanes[lane0 + i], wide(0), YOUNG + i
        if flit:
            to = flit >> TO_SHIFT & TO_MASK
            wish, old = wishes(d, tile, to), flit >> 1 & 1 ^ parity
            if wish == 0:
                here = i if here < 0 else here
                old_here = i if old and old_here < 0 else old_here
            order = to << 8 | i if old else order
        d.scratch[i] = wish
        d.scratch[n + i] = order
        d.scratch[2 * n + i] = i
    here = old_here if old_here >= 0 else here
    if here >= 0:
        packet = d.lanes[lane0 + here] >> PACKET_SHIFT
        d.lanes[lane0 + here] = 0
        d.counts[LONGEST] = max(d.counts[LONGEST], t - d.entered[packet] + 1)
        to_tile(s, d, packet, t)
    return wide(here >= 0)


@hot
def empty_place(d: Deflection, lane0: int, wish: int) -> int:
    """The first empty place before a switch to a wished output, or else the first, or -1."""
    n, found = d.counts[LANES_N], wide(-1)
    for place in range(n):
        if d.lanes[lane0 + d.scratch[2 * n + place]] == 0:
            if wish & 3 << (place & -2):
                return wide(place)
            found = place if found < 0 else found
    return wide(found)


@hot
def put_in(s: Engines, d: Deflection, tile: int, lane0: int, given: int, t: int) -> None:
    """The first flit of a tile's queue goes to the tile itself, or to an empty place."""
    q, n = tile * D_WIDTH, d.counts[LANES_N]
    flit = d.queues[q + D_FIRST]
    packet, wish = flit >> PACKET_SHIFT, wishes(d, tile, flit >> TO_SHIFT & TO_MASK)
    if wish == 0:
        if given:
            return
        to_tile(s, d, packet, t)
    else:
        place = empty_place(d, lane0, wish)
        if place < 0:
            return
        lane = d.scratch[2 * n + place]
        d.lanes[lane0 + lane] = flit | (t >> d.counts[EPOCH_BITS] & 1) << 1
        d.entered[packet] = t
        d.scratch[lane] = wish
        d.scratch[n + lane] = YOUNG + lane
    d.queues[q + D_FIRST] = d.queues[q + D_SECOND]
    d.queues[q + D_COUNT] -= 1
    d.queues[q + D_LEFT] = t


@hot
def work(s: Engines, d: Deflection, tile: int, t: int) -> None:
    """A router's cycle t."""
    n, shift, q = d.counts[LANES_N], d.counts[SHIFT], tile * D_WIDTH
    out0 = tile << shift
    lane0 = ((t & 1) * d.counts[TILES_N] << shift) + out0
    given, step = take_out(s, d, tile, lane0, t), n >> 1
    while step > 1:
        switch(d, step)
        step >>= 1
    if d.queues[q + D_COUNT]:
        put_in(s, d, tile, lane0, given, t)
        if d.queues[q + D_COUNT]:
            look_at(d, tile, t + 1)
    switch(d, wide(1))
    for i in range(n):
        flit = d.lanes[lane0 + d.scratch[2 * n + i]]
        if flit:
            leave(d, tile, out0 + i, flit, t)
    for i in range(n):
        d.lanes[lane0 + i] = 0


@hot
def make(s: Engines, d: Deflection, m: Sources, t: int) -> int:
    """Every source with a packet sends it if its queue has room; returns the next cycle to look
    at.
    """
    soon, kept = wide(NEVER), 0
    for index in range(d.counts[SENDING_N]):
        source = wide(d.sending[index])
        d.sending[kept] = source
        q, i = source * D_WIDTH, source * T_WIDTH
        soon, count = wide(t + 1), d.queues[q + D_COUNT]
        if count + (d.queues[q + D_LEFT] == t) >= SLOTS:
            kept += 1
            continue
        start(s, m, source)
        packet = m.sources[i + T_PACKET]
        flit = packet << PACKET_SHIFT | wide(s.destinations[packet]) << TO_SHIFT | 1
        d.queues[q + D_FIRST + count] = flit
        d.queues[q + D_COUNT] += 1
        look_at(d, source, t + 1)
        following = m.sources[i + T_NEXT]
        if following <= t + 1 and following < m.settings[UNTIL]:
            kept += 1
        elif following < m.settings[UNTIL]:
            end_at(s, 4 * source, following)
    d.counts[SENDING_N] = kept
    return wide(soon)


@unlocked
def simulate_deflection(engines: I64, network: I64, sources: I64, last: int) -> int:
    """As ``traffic.simulate_traffic``, with the addresses of the arrays of Deflection."""
    s, d, m = engines_at(engines), deflection_at(network), sources_at(sources)
    g, t = s.g, s.g[NOW]
    while t <= last:
        g[NOW] = t
        e = due(s, t)
        while e >= 0:
            d.sending[d.counts[SENDING_N]] = e >> 2
            d.counts[SENDING_N] += 1
            e = due(s, t)
        packet = delivered(s, t)
        while packet >= 0:
            deliver(m, packet, t)
            packet = delivered(s, t)
        following = land(d, t)
        if d.counts[t & 1]:
            following = wide(t + 1)
        for index in range(d.counts[t & 1]):
            work(s, d, wide(d.active[(t & 1) * d.counts[TILES_N] + index]), t)
        d.counts[t & 1] = 0
        following = min(following, make(s, d, m, t))
        if d.counts[t + 1 & 1]:
            following = wide(t + 1)
        t = next_event(s, t, following)
    g[NOW] = t
    return wide(t)
