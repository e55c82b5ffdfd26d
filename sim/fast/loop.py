"""The loop over the cycles in which something happens."""

# ruff: noqa: F403, F405
from collections.abc import Callable

from tokenpath.sim.compiled import variant

from .allocators import request_any
from .columns import *
from .engine import finish, issue, post
from .events import delivered, due, next_event, note
from .interfaces import inject, start_descriptor
from .jit import inner, wide
from .network import request, routers_with
from .state import I64, Engines, Network, engines_at, network_at


@inner
def deliver(s: Engines, packet: int, t: int) -> None:
    """The last word of a packet, and its post, are visible at the start of t."""
    p, packets, to = packet * K_WIDTH, s.packets, wide(s.destinations[packet])
    if s.constants[LOGGING]:
        words = packets[p + K_WORDS] << 8 | packets[p + K_OP]
        note(s, 4 * to + L_DELIVER, packet, packets[p + K_DST], words)
    record, inject, flits = packets[p + K_RECORD], packets[p + K_INJECT], packets[p + K_FLITS]
    if t > s.g[END_TIME]:
        s.g[END_TIME] = t
        s.g[END_RECORD] = record
        s.g[END_INJECT] = inject
        s.g[END_FLITS] = flits
        s.g[END_TO] = to
    if packets[p + K_SEMAPHORE]:
        post(s, to, packets[p + K_SEMAPHORE], record, inject, flits)
    s.free_packets[1 + s.free_packets[0]] = packet
    s.free_packets[0] += 1


@inner
def visible(s: Engines, n: Network, t: int) -> None:
    """Apply everything that becomes visible at the start of cycle t."""
    e = due(s, t)
    while e >= 0:
        if e & 3 == 3:
            start_descriptor(s, n, e >> 2)
        else:
            finish(s, e, t)
        e = due(s, t)
    packet = delivered(s, t)
    while packet >= 0:
        deliver(s, packet, t)
        packet = delivered(s, t)


def _simulate(routers: Callable[..., int], name: str) -> Callable[[I64, I64], int]:
    """The kernel ``name`` of an array with these ``routers``."""

    def simulate(engines: I64, network: I64) -> int:
        s, n = engines_at(engines), network_at(network)
        g, t = s.g, s.g[NOW]
        while True:
            g[NOW] = t
            if s.constants[LOGGING] and g[LOG_N] + 6 * s.constants[TILES] > s.constants[LOG_SIZE]:
                return FLUSH_LOG
            visible(s, n, t)
            while g[READY_N] > 0:
                g[READY_N] -= 1
                issue(s, s.ready[g[READY_N]], t)
            if g[STATUS] != 0:
                return wide(g[STATUS])
            following = NEVER
            if n.counts[FLITS] + n.counts[INJECTING_N] > 0:
                if s.free_packets[0] < n.counts[INJECTING_N]:
                    return GROW_PACKETS
                following = min(routers(s, n, t), inject(s, n, t))
            following = next_event(s, t, following)
            if following == NEVER:
                break
            t = following
            if t > LAST_CYCLE:
                return TOO_LONG
        if g[RUNNING] > 0 or n.counts[FLITS] + n.counts[INJECTING_N] > 0:
            return DEADLOCK
        return DONE

    return variant(simulate, name)


simulate = _simulate(routers_with(request, 0), "simulate")
"""Run from cycle NOW until the step is done, or Python must help: returns a status, to be called
again after. Takes the addresses of the arrays of Engines and Network. Runs without the GIL."""

simulate_any = _simulate(routers_with(request_any, 1), "simulate_any")
"""The same for routers of any choices (constant ANY)."""
