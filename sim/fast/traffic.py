"""Synthetic traffic on the routers of the array: sources and sinks in place of its engines.

A source makes packets by a Bernoulli process a cycle, whatever the network does, and sends them in
order, a flit a cycle, by the rules of ``interfaces``. A packet made in cycle t may leave in t; its
latency counts from there until its last flit is delivered, so queueing at the source is part of it.
Each source has a random generator of its own (xorshift64, Marsaglia 2003), so what one makes
doesn't depend on when the others may send.
"""

# ruff: noqa: F403, F405
import math
from collections.abc import Callable
from typing import NamedTuple

from tokenpath.sim.compiled import variant

from .allocators import request_any
from .columns import *
from .events import delivered, due, end_at, next_event
from .interfaces import entry, goes_on, send
from .jit import first_bit, hot, inner, pointer64, wide
from .network import request, routers_with
from .state import I64, Engines, Network, engines_at, network_at

# source: NEXT: when its next packet is made; LEFT: flits of the packet that it sends; TRACE: the
# place of its next packet
T_WIDTH = 8
(T_NEXT, T_RANDOM, T_LEFT, T_PACKET, T_VC, T_VC_NEXT, T_TRACE) = range(7)

# packet
M_WIDTH = 2
(M_MADE, M_FLITS) = range(2)

# packet of a trace: DELIVERED: when its last flit was, 0: not yet
D_WIDTH = 4
(D_MADE, D_TO, D_FLITS, D_DELIVERED) = range(4)

# settings
(PATTERN, SIZES, GAP, UNTIL, BATCH, BATCHES, FROM, MADE_N, DELIVERED_N, LAST) = range(10)
SETTINGS = 16
(UNIFORM, PERMUTATION, WEIGHTS, RECORDED) = range(4)

# batch: packets made in it and delivered, their latencies, and flits delivered during it
A_WIDTH = 8
(A_MADE, A_PACKETS, A_LATENCY, A_FLITS, A_MOST) = range(5)


class Sources(NamedTuple):
    """Sources, packets under way and what is measured, by rows of the columns above.

    GAP of the settings: 1 / log(1 - packets a cycle), in 2**-32. ``free`` begins with its length.
    ``table``: destinations of a permutation, or cumulated weights, 2**32 in all. ``sizes``: pairs
    of cumulated weight and flits. ``trace``: rows of the packets of each source in order, behind
    them one that is never made; ``recorded``: the row of each packet under way.
    """

    settings: I64
    sources: I64
    packets: I64
    free: I64
    table: I64
    sizes: I64
    trace: I64
    recorded: I64
    batches: I64


@inner
def sources_at(a: I64) -> Sources:
    """The fields of Sources as pointers, from their addresses."""
    return Sources(
        pointer64(a[0]), pointer64(a[1]), pointer64(a[2]), pointer64(a[3]), pointer64(a[4]),
        pointer64(a[5]), pointer64(a[6]), pointer64(a[7]), pointer64(a[8]),
    )  # fmt: skip


@hot
def draw(m: Sources, source: int) -> int:
    """The next 32 random bits of a source."""
    at = source * T_WIDTH + T_RANDOM
    x = m.sources[at]
    x ^= x << 13
    x ^= (x >> 7) & ((1 << 57) - 1)
    x ^= x << 17
    m.sources[at] = x
    return wide((x >> 16) & 0xFFFFFFFF)


@hot
def gap(m: Sources, source: int) -> int:
    """Cycles until the next packet is made, geometric, at least 1; GAP is in 2**-32 cycles."""
    u = (draw(m, source) + 0.5) / 4294967296.0
    return wide(1 + int(math.log(u) * m.settings[GAP] / 4294967296.0))


@hot
def destination(m: Sources, source: int, tiles: int) -> int:
    """Where a new packet goes."""
    pattern = m.settings[PATTERN]
    if pattern == PERMUTATION:
        return wide(m.table[source])
    bits = draw(m, source)
    if pattern == UNIFORM:
        return wide(bits * tiles >> 32)
    low, high = -1, tiles - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if m.table[middle] > bits:
            high = middle
        else:
            low = middle
    return wide(high)


@hot
def flits_of(m: Sources, source: int) -> int:
    """Flits of a new packet."""
    if m.settings[SIZES] == 1:
        return wide(m.sizes[1])
    bits, k = draw(m, source), 0
    while m.sizes[2 * k] <= bits:
        k += 1
    return wide(m.sizes[2 * k + 1])


@hot
def following_to(s: Engines, m: Sources, source: int) -> int:
    """Where the next packet of a source will go."""
    if m.settings[PATTERN] == RECORDED:
        return wide(m.trace[m.sources[source * T_WIDTH + T_TRACE] * D_WIDTH + D_TO])
    at = source * T_WIDTH + T_RANDOM
    state = m.sources[at]
    to = destination(m, source, s.constants[TILES])
    m.sources[at] = state
    return to


@hot
def start(s: Engines, m: Sources, source: int) -> None:
    """Make the packet that is due: it is counted to the batch in which it was made."""
    i = source * T_WIDTH
    m.free[0] -= 1
    packet = wide(m.free[1 + m.free[0]])
    made = wide(m.sources[i + T_NEXT])
    if m.settings[PATTERN] == RECORDED:
        row = m.sources[i + T_TRACE] * D_WIDTH
        to, flits = wide(m.trace[row + D_TO]), wide(m.trace[row + D_FLITS])
        m.recorded[packet] = row
        m.sources[i + T_TRACE] += 1
        m.sources[i + T_NEXT] = m.trace[row + D_WIDTH + D_MADE]
    else:
        to, flits = destination(m, source, s.constants[TILES]), flits_of(m, source)
        m.sources[i + T_NEXT] = made + gap(m, source)
    s.destinations[packet] = to
    m.packets[packet * M_WIDTH + M_MADE] = made
    m.packets[packet * M_WIDTH + M_FLITS] = flits
    m.sources[i + T_LEFT] = flits
    m.sources[i + T_PACKET] = packet
    m.settings[MADE_N] += 1
    batch = made - m.settings[FROM]
    if 0 <= batch < m.settings[BATCH] * m.settings[BATCHES]:
        m.batches[batch // m.settings[BATCH] * A_WIDTH + A_MADE] += 1


@hot
def make(s: Engines, n: Network, m: Sources, t: int) -> int:
    """Every source with a packet sends a flit if it has a credit; returns the next cycle to look
    at.
    """
    soon, kept = wide(NEVER), 0
    for index in range(n.counts[INJECTING_N]):
        source = wide(n.injecting[index])
        n.injecting[kept] = source
        i, o = source * T_WIDTH, (s.constants[NI_PORT0] + source) * O_WIDTH
        head = 1 if m.sources[i + T_LEFT] == 0 else 0
        if head:
            to = following_to(s, m, source) if s.constants[ORDERED] else wide(0)
            bit = entry(s, n, o, wide(m.sources[i + T_VC_NEXT]), to)
        else:
            bit = goes_on(s, n, o, wide(m.sources[i + T_VC]))
        if bit == 0:
            kept += 1
            continue
        soon = t + 1
        if head:
            start(s, m, source)
            m.sources[i + T_VC] = bit
            m.sources[i + T_VC_NEXT] = first_bit(bit) + 1
        left = m.sources[i + T_LEFT] - 1
        m.sources[i + T_LEFT] = left
        tail = 2 if left == 0 else 0
        send(s, n, source, bit, wide(m.sources[i + T_PACKET]), tail | head)
        following = wide(m.sources[i + T_NEXT])
        if left > 0 or (following <= t + 1 and following < m.settings[UNTIL]):
            kept += 1
        elif following < m.settings[UNTIL]:
            end_at(s, 4 * source, following)
    n.counts[INJECTING_N] = kept
    return wide(soon)


@hot
def deliver(m: Sources, packet: int, t: int) -> None:
    """The last flit of a packet is there."""
    made, flits = m.packets[packet * M_WIDTH + M_MADE], m.packets[packet * M_WIDTH + M_FLITS]
    m.free[1 + m.free[0]] = packet
    m.free[0] += 1
    m.settings[DELIVERED_N] += 1
    m.settings[LAST] = t
    if m.settings[PATTERN] == RECORDED:
        m.trace[m.recorded[packet] + D_DELIVERED] = t
    begin, size = m.settings[FROM], m.settings[BATCH]
    if 0 <= t - begin < size * m.settings[BATCHES]:
        m.batches[(t - begin) // size * A_WIDTH + A_FLITS] += flits
    if 0 <= made - begin < size * m.settings[BATCHES]:
        a, latency = (made - begin) // size * A_WIDTH, t - made
        m.batches[a + A_PACKETS] += 1
        m.batches[a + A_LATENCY] += latency
        m.batches[a + A_MOST] = max(m.batches[a + A_MOST], latency)


def _simulate(routers: Callable[..., int], name: str) -> Callable[[I64, I64, I64, int], int]:
    """The kernel ``name`` of a network with these ``routers``."""

    def simulate_traffic(engines: I64, network: I64, sources: I64, last: int) -> int:
        s, n, m = engines_at(engines), network_at(network), sources_at(sources)
        g, t = s.g, s.g[NOW]
        while t <= last:
            g[NOW] = t
            e = due(s, t)
            while e >= 0:
                n.injecting[n.counts[INJECTING_N]] = e >> 2
                n.counts[INJECTING_N] += 1
                e = due(s, t)
            packet = delivered(s, t)
            while packet >= 0:
                deliver(m, packet, t)
                packet = delivered(s, t)
            following = wide(NEVER)
            if n.counts[FLITS] + n.counts[INJECTING_N] > 0:
                following = min(routers(s, n, t), make(s, n, m, t))
            t = next_event(s, t, following)
        g[NOW] = t
        return wide(t)

    return variant(simulate_traffic, name)


simulate_traffic = _simulate(routers_with(request, 0), "simulate_traffic")
"""Run from cycle NOW until nothing is left to do, or behind cycle ``last``; returns the next cycle
that something happens in, or NEVER. Takes the addresses of the arrays of Engines, Network and
Sources. Runs without the GIL."""

simulate_traffic_any = _simulate(routers_with(request_any, 1), "simulate_traffic_any")
"""The same for routers of any choices (constant ANY)."""
