"""Streams in closed form: a STREAM reads beats ahead, the operation paired with it takes them.

Beats are numbered in order of issue. Beat i is read in ``I(i) = max(I(i-1) + 1, t + 1, C(i-D) +
1)``, t the STREAM's issue, and consumed in ``C(i)``; D is ``stream_depth``, L ``store_latency``.
An operation consumes its first beat in ``max(S, I + L)`` and then one each g cycles, without a
bubble: ``I(j) + L <= C(j)`` by induction. If ``I(j) = I(j-1) + 1``, then ``I(j) + L <= C(j-1) + 1
<= C(j)``. If ``I(j) = C(j-D) + 1``, then, as C grows by 1 or more a beat, from operation to
operation too, ``I(j) + L = C(j-D) + 1 + L <= C(j) - D + 1 + L <= C(j)``, because D > L. For the
same reason the last of N reads is in ``max(I(first) + N - 1, C(last-D) + 1)``: of the bounds
``C(j-D) + 1 + last - j`` that of j = last is the largest. So the first read and the first
consumption of a pair say everything.

Either may wait for the other side: a read for room in the FIFO, an operation for its STREAM.
``settle`` fills in what is known by now; all that it finds lies in the future. Room can't delay an
operation's own first beat: ``C(first-D) + 1 + L <= C(first-1) + 1 < S``.

STREAMs of no beats and operations on none pair with nothing; neither waits for the other. An
operation's values are read and written when both sides have issued. An APPEND to beats that are
read already, for an operation that hasn't issued, would be seen too early: it is refused
(OVERWRITTEN).
"""

# ruff: noqa: F403, F405
from .columns import *
from .events import end_at, note
from .jit import inner, wide
from .state import Engines


@inner
def consumed(s: Engines, tile: int, beat: int) -> int:
    """Cycle in which a beat is consumed: -1 below beat 0, UNKNOWN while its operation isn't
    settled.

    Beats are asked for in ascending order; the pair that has the beat is then the one at CURSOR.
    """
    if beat < 0:
        return -1
    i, pairs = tile * S_WIDTH, s.constants[PAIRS]
    while s.streams[i + CURSOR] < s.streams[i + TAKEN]:
        at = (tile * pairs + s.streams[i + CURSOR] % pairs) * P_WIDTH
        behind = beat - s.pairs[at + P_BEAT]
        if behind < s.pairs[at + P_BEATS]:
            return wide(s.pairs[at + P_TAKEN] + s.pairs[at + P_EVERY] * behind)
        s.streams[i + CURSOR] += 1
    return UNKNOWN


@inner
def throttled(s: Engines, tile: int, at: int) -> None:
    """The memory engine's STREAM waits for a consumption in cycle ``at``, by the pair at
    CURSOR.
    """
    pairs, e = s.constants[PAIRS], 4 * tile * E_WIDTH
    pair = (tile * pairs + s.streams[tile * S_WIDTH + CURSOR] % pairs) * P_WIDTH
    s.engines[e + VIA] = s.pairs[pair + P_OPERATION]
    s.engines[e + VIA_AT] = at


@inner
def settle(s: Engines, tile: int) -> None:
    """Fill in all first reads, first consumptions and ends of the tile's streams that are
    known.
    """
    i, streams, pairs, k = tile * S_WIDTH, s.streams, s.pairs, s.constants
    for _ in range(2):  # an operation may make room for a STREAM behind its own
        pair = (tile * k[PAIRS] + (streams[i + STREAMS] - 1) % k[PAIRS]) * P_WIDTH
        if streams[i + READING] == NEEDS_FIRST:
            room = consumed(s, tile, pairs[pair + P_BEAT] - k[STREAM_DEPTH])
            if room != UNKNOWN:
                first = streams[i + READ_ISSUED] + 1
                if room + 1 > first:
                    first = room + 1
                    throttled(s, tile, room)
                pairs[pair + P_READ] = first
                s.engines[4 * tile * E_WIDTH + FIRST] = first
                streams[i + READING] = NEEDS_LAST
        if streams[i + TAKING] and streams[i + TAKEN] < streams[i + STREAMS]:
            take(s, tile)
        if streams[i + READING] == NEEDS_LAST:
            last = pairs[pair + P_BEATS] - 1
            room = consumed(s, tile, pairs[pair + P_BEAT] + last - k[STREAM_DEPTH])
            if room != UNKNOWN:
                read = pairs[pair + P_READ] + last
                if room + 1 > read:
                    read = room + 1
                    throttled(s, tile, room)
                streams[i + READING] = NOTHING
                end_at(s, 4 * tile, read + 1)


@inner
def take(s: Engines, tile: int) -> None:
    """Settle the operation that the compute engine has issued, if its first read is known."""
    i, streams, pairs, k = tile * S_WIDTH, s.streams, s.pairs, s.constants
    pair = (tile * k[PAIRS] + streams[i + TAKEN] % k[PAIRS]) * P_WIDTH
    if pairs[pair + P_READ] == UNKNOWN:
        return
    e, engines = (4 * tile + 1) * E_WIDTH, s.engines
    if pairs[pair + P_BEATS] != streams[i + TAKE_BEATS]:
        s.g[STATUS] = UNEQUAL
        s.g[ERROR_ENGINE] = 4 * tile + 1
    first, fetched = streams[i + TAKE_FROM], pairs[pair + P_READ] + k[STORE_LATENCY]
    if fetched > first:
        streams[i + STARVED] += fetched - first
        first = fetched
        engines[e + VIA] = pairs[pair + P_STREAM]
        engines[e + VIA_AT] = pairs[pair + P_READ] - 1
    engines[e + FIRST] = first
    pairs[pair + P_TAKEN] = first
    pairs[pair + P_EVERY] = streams[i + TAKE_EVERY]
    pairs[pair + P_OPERATION] = s.record0[tile] + engines[e + PC] - engines[e + CODE0]
    streams[i + TAKING] = 0
    streams[i + TAKEN] += 1
    if k[LOGGING]:
        note(s, 4 * tile + L_COMPUTE, engines[e + PC], pairs[pair + P_SRC], 0)
    last = first + streams[i + TAKE_EVERY] * (streams[i + TAKE_BEATS] - 1)
    end_at(s, 4 * tile + 1, last + streams[i + TAKE_BEHIND] + 1)


@inner
def start_reading(s: Engines, tile: int, t: int, beats: int, src: int, record: int) -> None:
    """A STREAM of 1 or more beats from ``src`` on is issued in cycle t."""
    i, streams, pairs = tile * S_WIDTH, s.streams, s.constants[PAIRS]
    pair = (tile * pairs + streams[i + STREAMS] % pairs) * P_WIDTH
    s.pairs[pair + P_BEAT] = streams[i + NEXT_BEAT]
    s.pairs[pair + P_BEATS] = beats
    s.pairs[pair + P_SRC] = src
    s.pairs[pair + P_READ] = UNKNOWN
    s.pairs[pair + P_STREAM] = record
    streams[i + NEXT_BEAT] += beats
    streams[i + BEATS_READ] += beats
    streams[i + STREAMS] += 1
    streams[i + READING] = NEEDS_FIRST
    streams[i + READ_ISSUED] = t
    settle(s, tile)


@inner
def start_taking(
    s: Engines, tile: int, start: int, beats: int, interval: int, epilogue: int
) -> None:
    """An operation on 1 or more beats may consume the first in cycle ``start``."""
    i, streams = tile * S_WIDTH, s.streams
    streams[i + TAKING] = 1
    streams[i + TAKE_FROM] = start
    streams[i + TAKE_EVERY] = interval
    streams[i + TAKE_BEHIND] = epilogue
    streams[i + TAKE_BEATS] = beats
    settle(s, tile)


@inner
def check_append(s: Engines, tile: int, dst: int, n: int) -> None:
    """Refuse an APPEND of n beats over any that a STREAM reads for an operation not settled
    yet.
    """
    i, pairs = tile * S_WIDTH, s.constants[PAIRS]
    for k in range(s.streams[i + TAKEN], s.streams[i + STREAMS]):
        pair = (tile * pairs + k % pairs) * P_WIDTH
        src = s.pairs[pair + P_SRC]
        if src < dst + n and dst < src + s.pairs[pair + P_BEATS]:
            s.g[STATUS] = OVERWRITTEN
            s.g[ERROR_ENGINE] = 4 * tile
