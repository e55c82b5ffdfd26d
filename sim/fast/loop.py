"""The loop over the cycles in which something happens."""

# ruff: noqa: F403, F405
from tokenpath.sim.compiled import kernel

from .columns import *
from .engine import finish, issue, post
from .events import ID_BITS, ID_MASK, next_event, note, pop
from .jit import inner, wide
from .network import network_cycle, start_descriptor
from .state import I64, Engines, Network, engines_at, network_at


@inner
def deliver(s: Engines, packet: int, t: int) -> None:
    """The last word of a packet, and its post, are visible at the start of t."""
    p, packets = packet * K_WIDTH, s.packets
    if s.constants[LOGGING]:
        what = 4 * packets[p + K_TO] + L_DELIVER
        note(s, what, packet, packets[p + K_DST], packets[p + K_WORDS] << 8 | packets[p + K_OP])
    record, inject, flits = packets[p + K_RECORD], packets[p + K_INJECT], packets[p + K_FLITS]
    if t > s.g[END_TIME]:
        s.g[END_TIME] = t
        s.g[END_RECORD] = record
        s.g[END_INJECT] = inject
        s.g[END_FLITS] = flits
        s.g[END_TO] = packets[p + K_TO]
    if packets[p + K_SEMAPHORE]:
        post(s, packets[p + K_TO], packets[p + K_SEMAPHORE], record, inject, flits)
    s.free_packets[1 + s.free_packets[0]] = packet
    s.free_packets[0] += 1


@inner
def visible(s: Engines, n: Network, t: int) -> None:
    """Apply everything that becomes visible at the start of cycle t."""
    g = s.g
    while g[HEAP_N] > 0 and s.heap[0] >> ID_BITS == t:
        e = s.heap[0] & ID_MASK
        g[HEAP_N] = pop(s.heap, g[HEAP_N])
        finish(s, e, t)
    e = wide(s.calendar[t & CALENDAR - 1])
    s.calendar[t & CALENDAR - 1] = -1
    while e >= 0:
        g[CALENDAR_N] -= 1
        following = wide(s.following[e])
        if e & 3 == 3:
            start_descriptor(s, n, e >> 2)
        else:
            finish(s, e, t)
        e = following
    while g[DELIVER_N] > 0:
        at = 2 * (g[DELIVER_HEAD] & s.constants[DELIVER_MASK])
        if s.deliveries[at] != t:
            break
        g[DELIVER_HEAD] += 1
        g[DELIVER_N] -= 1
        deliver(s, s.deliveries[at + 1], t)


@kernel
def simulate(engines: I64, network: I64) -> int:
    """Run from cycle NOW until the step is done, or Python must help: returns a status, to be
    called again after.

    Takes the addresses of the arrays of Engines and Network. Runs without the GIL.
    """
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
        if n.counts[BUSY_N] + n.counts[INJECTING_N] + n.counts[IN_FLIGHT] > 0:
            if s.free_packets[0] < n.counts[INJECTING_N]:
                return GROW_PACKETS
            following = network_cycle(s, n, t)
        if g[DELIVER_N] > 0:
            following = min(
                following, s.deliveries[2 * (g[DELIVER_HEAD] & s.constants[DELIVER_MASK])]
            )
        following = next_event(s, t, following)
        if following == NEVER:
            break
        t = following
        if t > LAST_CYCLE:
            return TOO_LONG
    if g[RUNNING] > 0 or n.counts[BUSY_N] + n.counts[INJECTING_N] > 0:
        return DEADLOCK
    return DONE


simulate.targetoptions["nogil"] = True  # type: ignore[attr-defined]
