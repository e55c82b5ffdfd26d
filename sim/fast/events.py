"""Coming events, ended instructions among them, and the log for the values."""

# ruff: noqa: F403, F405
from .columns import *
from .jit import hot, inner, wide
from .state import I64, Engines

ID_BITS = 26  # 2**24 tiles with 4 engines each
ID_MASK = (1 << ID_BITS) - 1


@inner
def push(heap: I64, count: int, key: int) -> int:
    """Add a key to the ``count`` keys of a binary heap, the smallest first; the new count."""
    at = count
    while at > 0:
        above = (at - 1) >> 1
        if heap[above] <= key:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = key
    return count + 1


@inner
def pop(heap: I64, count: int) -> int:
    """Take the smallest key, ``heap[0]``, away; the new count."""
    count -= 1
    key = heap[count]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        if below + 1 < count and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= key:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = key
    return count


@inner
def end_at(s: Engines, e: int, t: int) -> None:
    """Engine e is ready, and its post visible, at the start of cycle t; an NI's fetch is done.

    Near events wait in a list for each cycle, each engine in one at most; far ones in a heap.
    """
    if t - s.g[NOW] >= CALENDAR:
        s.g[HEAP_N] = push(s.heap, s.g[HEAP_N], (t << ID_BITS) | e)
        return
    s.following[e] = s.calendar[t & CALENDAR - 1]
    s.calendar[t & CALENDAR - 1] = e
    s.g[CALENDAR_N] += 1


@hot
def due(s: Engines, t: int) -> int:
    """Take the next engine whose event is in cycle t, or -1: those of the heap come first."""
    g, slot = s.g, t & CALENDAR - 1
    if g[HEAP_N] > 0 and s.heap[0] >> ID_BITS == t:
        e = s.heap[0] & ID_MASK
        g[HEAP_N] = pop(s.heap, g[HEAP_N])
        return wide(e)
    e = wide(s.calendar[slot])
    if e >= 0:
        s.calendar[slot] = s.following[e]
        g[CALENDAR_N] -= 1
    return wide(e)


@hot
def delivered(s: Engines, t: int) -> int:
    """Take the next packet whose last word is visible at the start of t, or -1."""
    g = s.g
    at = 2 * (g[DELIVER_HEAD] & s.constants[DELIVER_MASK])
    if g[DELIVER_N] == 0 or s.deliveries[at] != t:
        return wide(-1)
    g[DELIVER_HEAD] += 1
    g[DELIVER_N] -= 1
    return wide(s.deliveries[at + 1])


@inner
def next_event(s: Engines, now: int, most: int) -> int:
    """The next cycle after ``now`` with an event or a delivery, or ``most`` if that is earlier."""
    if s.g[DELIVER_N] > 0:
        most = min(most, s.deliveries[2 * (s.g[DELIVER_HEAD] & s.constants[DELIVER_MASK])])
    if s.g[HEAP_N] > 0:
        most = min(most, s.heap[0] >> ID_BITS)
    if s.g[CALENDAR_N] > 0:
        for t in range(now + 1, min(most, now + CALENDAR)):
            if s.calendar[t & CALENDAR - 1] >= 0:
                return wide(t)
    return wide(most)


@inner
def note(s: Engines, what: int, a: int, b: int, c: int) -> None:
    """Tell the replay of the values what happened: ``4 * tile + kind`` and its numbers."""
    at = s.g[LOG_N] * L_WIDTH
    s.log[at] = what
    s.log[at + 1] = a
    s.log[at + 2] = b
    s.log[at + 3] = c
    s.g[LOG_N] += 1
