"""Engines, semaphores and streams: the event-driven part of the simulator.

An engine that is ready issues in cycle ``t`` if its semaphore holds enough at the start of ``t``; all posts visible
at ``t`` are applied before any engine is looked at, and nothing that an issue does is visible before ``t + 1``, so the order in
which engines are served within a cycle can't matter.

**Streams.** Beats are numbered in order of issue. Beat i is read in ``I(i) = max(I(i-1) + 1, t + 1, C(i-D) + 1)``, consumed in
``C(i)``; D = ``stream_depth``, L = ``store_latency``. An operation consumes its first beat in ``max(S, I + L)`` and then one each g
cycles without a bubble: ``I(j) + L <= C(j)`` by induction. If ``I(j) = I(j-1) + 1`` then ``I(j) + L <= C(j-1) + 1 <= C(j)``. If
``I(j) = C(j-D) + 1`` then, as C grows by at least 1 a beat, also from operation to operation, ``I(j) + L = C(j-D) + 1 + L <=
C(j) - D + 1 + L <= C(j)``, because D > L. The same bound shows that the last of N reads is ``max(I(first) + N - 1, C(last-D) +
1)``: of the terms ``C(j-D) + 1 + last - j`` the one of j = last is the largest. So two numbers a pair of STREAM and operation
(the first read, the first consumption) say everything. Either may wait for the other side; ``settle`` fills in what is known.
A pair's credits can't set its own first consumption: ``C(first-D) + 1 + L <= C(first-1) + 1 < S``. STREAMs of no beats
and operations on none pair with nothing: neither waits for the other.

The operation's values are read and written when both sides have issued. An APPEND to beats that a STREAM has read for an
operation that has not issued yet would be seen too early, so it is refused.
"""


from tokenpath.hw.arch.isa import COLUMN, Op
from tokenpath.hw.arch.timing import DESCRIPTOR_CYCLES
from tokenpath.sim.compiled import time

from .events import ID_BITS, push
from .jit import inner
from .state import (
    BEATS_READ,
    BLOCK,
    BUSY,
    C_BEATS,
    C_EPILOGUE,
    C_FLITS,
    C_INJECT,
    C_INTERVAL,
    C_PENDING,
    C_REGS,
    C_SEMS,
    C_START,
    CAUSE,
    CODE0,
    CODE_WIDTH,
    CURSOR,
    DESCRIPTOR,
    DESCRIPTORS_LEFT,
    E_WIDTH,
    END_INJECT,
    END_RECORD,
    END_TIME,
    ERROR_ENGINE,
    FINISHED,
    FIRST,
    HEAP_N,
    ISSUED,
    ISSUED_STREAMS,
    L_APPEND,
    L_COMPUTE,
    L_WIDTH,
    LANES,
    LOG_N,
    LOGGING,
    N_DST,
    N_OP,
    N_RECORD,
    N_SEMAPHORE,
    N_SRC,
    N_WIDTH,
    NEED,
    NEEDS_FIRST,
    NEEDS_LAST,
    NEXT_BEAT,
    NOT_PENDING,
    OVERWRITTEN,
    P_BEATS,
    P_FIRST_BEAT,
    P_INTERVAL,
    P_READ,
    P_RECORD,
    P_SRC,
    P_STREAM_RECORD,
    P_TAKEN,
    P_WIDTH,
    PC,
    PC_END,
    QUEUED,
    R_CAUSE,
    R_END,
    R_FIRST,
    R_FLITS,
    R_INJECT,
    R_ISSUED,
    R_VIA,
    R_VIA_AT,
    R_WIDTH,
    READY_AT,
    READY_N,
    RING,
    RUNNING,
    S_ISSUED,
    S_PENDING,
    S_WIDTH,
    SEMAPHORE,
    STARVED,
    STATE,
    STATUS,
    STORE_LATENCY,
    STREAM_DEPTH,
    TAKEN_STREAMS,
    TRACE,
    UNEQUAL,
    VIA,
    VIA_AT,
    VLANES,
    WAITING,
    WORKING,
    Engines,
)  # fmt: skip

beat_interval = time.beat_interval
row_beats = time.beats
stream_epilogue = time.stream_epilogue
stream_prologue = time.stream_prologue
vector_cycles = time.vector_cycles

OP, WAIT, WAIT_N, POST = (COLUMN[c] for c in ("op", "wait", "wait_n", "post"))
DST, SRC, AUX, N, M = (COLUMN[c] for c in ("dst", "src", "aux", "n", "m"))
Q, X, Y = (COLUMN[c] for c in ("q", "x", "y"))
SYNC, STREAM, APPEND, PUT, AXPY, LOAD, DOT = (int(op) for op in (Op.SYNC, Op.STREAM, Op.APPEND, Op.PUT, Op.AXPY, Op.LOAD, Op.DOT))
SCORE = int(Op.SCORE)
UNKNOWN = -2


@inner
def operand(s: Engines, tile: int, at: int) -> int:
    """Immediate + register of the operand at a place of the code table (its register is in the next one)."""
    return wide(s.code[at] + s.registers[tile * s.constants[C_REGS] + s.code[at + 1]])


@inner
def end_at(s: Engines, e: int, t: int) -> None:
    """Engine e ends its instruction: it is ready, and its post visible, at the start of cycle t."""
    s.g[HEAP_N] = push(s.heap, s.g[HEAP_N], (t << ID_BITS) | e)


@inner
def note(s: Engines, what: int, a: int, b: int, c: int) -> None:
    """Tell the replay of the values what happened: ``4 * tile + kind``."""
    at = s.g[LOG_N] * L_WIDTH
    s.log[at] = what
    s.log[at + 1] = a
    s.log[at + 2] = b
    s.log[at + 3] = c
    s.g[LOG_N] += 1


@inner
def post(s: Engines, tile: int, semaphore: int, record: int, inject: int, flits: int) -> None:
    """Add one to a semaphore; wakes the engine for which this makes it sufficient."""
    at = tile * s.constants[C_SEMS] + semaphore
    s.semaphores[at] += 1
    for e in range(4 * tile, 4 * tile + 3):
        i = e * E_WIDTH
        if s.engines[i + STATE] == WAITING and s.engines[i + SEMAPHORE] == semaphore:
            if s.semaphores[at] >= s.engines[i + NEED]:
                s.engines[i + STATE] = QUEUED
                s.engines[i + CAUSE] = record
                s.engines[i + C_INJECT] = inject
                s.engines[i + C_FLITS] = flits
                s.ready[s.g[READY_N]] = e
                s.g[READY_N] += 1


@inner
def finish(s: Engines, e: int, t: int) -> None:
    """The end of an engine's instruction at the start of t: record, post, next instruction."""
    i, tile, engines = e * E_WIDTH, e >> 2, s.engines
    pc = engines[i + PC]
    record = s.record0[tile] + pc - engines[i + CODE0]
    if s.constants[TRACE]:
        r, records = record * R_WIDTH, s.records
        records[r + R_ISSUED] = engines[i + ISSUED]
        records[r + R_FIRST] = engines[i + FIRST]
        records[r + R_END] = t
        records[r + R_CAUSE] = engines[i + CAUSE]
        records[r + R_INJECT] = engines[i + C_INJECT]
        records[r + R_FLITS] = engines[i + C_FLITS]
        records[r + R_VIA] = engines[i + VIA]
        records[r + R_VIA_AT] = engines[i + VIA_AT]
    engines[i + BUSY] += t - 1 - engines[i + ISSUED]
    if t > s.g[END_TIME]:
        s.g[END_TIME] = t
        s.g[END_RECORD] = record
        s.g[END_INJECT] = -1
    semaphore = s.code[pc * CODE_WIDTH + POST]
    if semaphore:
        post(s, tile, semaphore, record, -1, record)
    engines[i + PC] = pc + 1
    if pc + 1 == engines[i + PC_END]:
        engines[i + STATE] = FINISHED
        s.g[RUNNING] -= 1
        return
    engines[i + STATE] = QUEUED
    engines[i + READY_AT] = t
    engines[i + CAUSE] = -1
    engines[i + C_INJECT] = -1
    engines[i + FIRST] = 0
    engines[i + VIA] = -1
    s.ready[s.g[READY_N]] = e
    s.g[READY_N] += 1


@inner
def issue(s: Engines, e: int, t: int) -> None:
    """Issue the instruction of a ready engine in cycle t, or leave it waiting."""
    i, tile, engines = e * E_WIDTH, e >> 2, s.engines
    row = engines[i + PC] * CODE_WIDTH
    semaphore = s.code[row + WAIT]
    if semaphore:
        need = operand(s, tile, row + WAIT_N)
        at = tile * s.constants[C_SEMS] + semaphore
        if s.semaphores[at] < need:
            engines[i + STATE] = WAITING
            engines[i + SEMAPHORE] = semaphore
            engines[i + NEED] = need
            return
        s.semaphores[at] -= need
    engines[i + STATE] = WORKING
    engines[i + ISSUED] = t
    engine = e & 3
    if s.code[row + OP] == SYNC:
        end_at(s, e, t + 1)
    elif engine == 1:
        compute(s, e, tile, row, t)
    elif engine == 0:
        memory(s, e, tile, row, t)
    else:
        put(s, e, tile, row, t)


@inner
def compute(s: Engines, e: int, tile: int, row: int, t: int) -> None:
    """A compute operation issued in t: a vector operation, or one on the beats of a STREAM."""
    op, k = s.code[row + OP], s.constants
    n, m, q = operand(s, tile, row + N), operand(s, tile, row + M), s.code[row + Q]
    if op != DOT and op != SCORE and op != AXPY and op != LOAD:
        if k[LOGGING]:
            note(s, 4 * tile + L_COMPUTE, row // CODE_WIDTH, 0, 0)
        end_at(s, e, t + 1 + vector_cycles(op, n, m, q, k[VLANES], k[BLOCK]))
        return
    beats = n * row_beats(m, k[LANES])
    start = t + 1 + stream_prologue(op)
    epilogue = stream_epilogue(op, m, q, k[VLANES])
    if beats == 0:
        s.engines[e * E_WIDTH + FIRST] = start
        if k[LOGGING]:
            note(s, 4 * tile + L_COMPUTE, row // CODE_WIDTH, 0, 0)
        end_at(s, e, start + epilogue)
        return
    i = tile * S_WIDTH
    s.streams[i + C_PENDING] = 1
    s.streams[i + C_START] = start
    s.streams[i + C_INTERVAL] = beat_interval(op, k[LANES], k[VLANES])
    s.streams[i + C_EPILOGUE] = epilogue
    s.streams[i + C_BEATS] = beats
    settle(s, tile)


@inner
def memory(s: Engines, e: int, tile: int, row: int, t: int) -> None:
    """A STREAM or APPEND issued in t."""
    k, streams = s.constants, s.streams
    n = operand(s, tile, row + N)
    if s.code[row + OP] == APPEND:
        append(s, e, tile, row, n, t)
        return
    beats = n * row_beats(operand(s, tile, row + M), k[LANES])
    s.engines[e * E_WIDTH + FIRST] = t + 1
    if beats == 0:
        end_at(s, e, t + 1)
        return
    i = tile * S_WIDTH
    at = (tile * k[RING] + streams[i + ISSUED_STREAMS] % k[RING]) * P_WIDTH
    s.pairs[at + P_FIRST_BEAT] = streams[i + NEXT_BEAT]
    s.pairs[at + P_BEATS] = beats
    s.pairs[at + P_SRC] = operand(s, tile, row + SRC)
    s.pairs[at + P_READ] = UNKNOWN
    s.pairs[at + P_STREAM_RECORD] = s.record0[tile] + row // CODE_WIDTH - s.engines[e * E_WIDTH + CODE0]
    streams[i + NEXT_BEAT] += beats
    streams[i + BEATS_READ] += beats
    streams[i + ISSUED_STREAMS] += 1
    streams[i + S_PENDING] = NEEDS_FIRST
    streams[i + S_ISSUED] = t
    settle(s, tile)


@inner
def append(s: Engines, e: int, tile: int, row: int, n: int, t: int) -> None:
    """An APPEND of n beats issued in t."""
    i, dst, ring = tile * S_WIDTH, operand(s, tile, row + DST), s.constants[RING]
    for k in range(s.streams[i + TAKEN_STREAMS], s.streams[i + ISSUED_STREAMS]):
        at = (tile * ring + k % ring) * P_WIDTH
        src = s.pairs[at + P_SRC]
        if src < dst + n and dst < src + s.pairs[at + P_BEATS]:
            s.g[STATUS] = OVERWRITTEN
            s.g[ERROR_ENGINE] = e
    if s.constants[LOGGING]:
        note(s, 4 * tile + L_APPEND, row // CODE_WIDTH, 0, 0)
    end_at(s, e, t + 1 + n)


@inner
def put(s: Engines, e: int, tile: int, row: int, t: int) -> None:
    """A PUT issued in t: hand its first descriptor to the network interface."""
    m = operand(s, tile, row + M)
    if m == 0:
        end_at(s, e, t + 1)
        return
    i, ni = tile * N_WIDTH, s.interfaces
    ni[i + DESCRIPTOR] = operand(s, tile, row + AUX)
    ni[i + DESCRIPTORS_LEFT] = m
    ni[i + N_SRC] = operand(s, tile, row + SRC)
    ni[i + N_DST] = operand(s, tile, row + DST)
    ni[i + N_OP] = s.code[row + X]
    ni[i + N_SEMAPHORE] = s.code[row + Y]
    ni[i + N_RECORD] = s.record0[tile] + row // CODE_WIDTH - s.engines[e * E_WIDTH + CODE0]
    end_at(s, 4 * tile + 3, t + 1 + DESCRIPTOR_CYCLES)


@inner
def consumed(s: Engines, tile: int, beat: int) -> int:
    """Cycle in which a beat is consumed: -1 before the first beat, UNKNOWN as long as its operation isn't settled.

    Beats are asked for in ascending order; the pair that has the beat is then the one at CURSOR.
    """
    if beat < 0:
        return -1
    i, ring = tile * S_WIDTH, s.constants[RING]
    while s.streams[i + CURSOR] < s.streams[i + TAKEN_STREAMS]:
        at = (tile * ring + s.streams[i + CURSOR] % ring) * P_WIDTH
        behind = beat - s.pairs[at + P_FIRST_BEAT]
        if behind < s.pairs[at + P_BEATS]:
            return wide(s.pairs[at + P_TAKEN] + s.pairs[at + P_INTERVAL] * behind)
        s.streams[i + CURSOR] += 1
    return UNKNOWN


@inner
def throttled(s: Engines, tile: int, e: int, at: int) -> None:
    """The memory engine's STREAM had to wait for the consumption of a beat in cycle ``at``, by the pair at CURSOR."""
    ring = s.constants[RING]
    pair = (tile * ring + s.streams[tile * S_WIDTH + CURSOR] % ring) * P_WIDTH
    s.engines[e * E_WIDTH + VIA] = s.pairs[pair + P_RECORD]
    s.engines[e * E_WIDTH + VIA_AT] = at


@inner
def settle(s: Engines, tile: int) -> None:
    """Fill in all first reads, first consumptions and ends of the tile's streams that are known by now."""
    i, streams, pairs, k = tile * S_WIDTH, s.streams, s.pairs, s.constants
    e = 4 * tile
    for _ in range(2):  # an operation may free the credits of a STREAM behind its own
        last = (tile * k[RING] + (streams[i + ISSUED_STREAMS] - 1) % k[RING]) * P_WIDTH
        if streams[i + S_PENDING] == NEEDS_FIRST:
            free = consumed(s, tile, pairs[last + P_FIRST_BEAT] - k[STREAM_DEPTH])
            if free != UNKNOWN:
                first = streams[i + S_ISSUED] + 1
                if free + 1 > first:
                    first = free + 1
                    throttled(s, tile, e, free)
                pairs[last + P_READ] = first
                s.engines[e * E_WIDTH + FIRST] = first
                streams[i + S_PENDING] = NEEDS_LAST
        if streams[i + C_PENDING] and streams[i + TAKEN_STREAMS] < streams[i + ISSUED_STREAMS]:
            take(s, tile, e + 1)
        if streams[i + S_PENDING] == NEEDS_LAST:
            beats = pairs[last + P_BEATS]
            free = consumed(s, tile, pairs[last + P_FIRST_BEAT] + beats - 1 - k[STREAM_DEPTH])
            if free != UNKNOWN:
                read = pairs[last + P_READ] + beats - 1
                if free + 1 > read:
                    read = free + 1
                    throttled(s, tile, e, free)
                streams[i + S_PENDING] = NOT_PENDING
                end_at(s, e, read + 1)


@inner
def take(s: Engines, tile: int, e: int) -> None:
    """Settle the pending operation of compute engine e, if its STREAM's first read is known."""
    i, streams, pairs, k = tile * S_WIDTH, s.streams, s.pairs, s.constants
    at = (tile * k[RING] + streams[i + TAKEN_STREAMS] % k[RING]) * P_WIDTH
    if pairs[at + P_READ] == UNKNOWN:
        return
    if pairs[at + P_BEATS] != streams[i + C_BEATS]:
        s.g[STATUS] = UNEQUAL
        s.g[ERROR_ENGINE] = e
    j, engines = e * E_WIDTH, s.engines
    first, fetched = streams[i + C_START], pairs[at + P_READ] + k[STORE_LATENCY]
    if fetched > first:
        streams[i + STARVED] += fetched - first
        first = fetched
        engines[j + VIA] = pairs[at + P_STREAM_RECORD]
        engines[j + VIA_AT] = pairs[at + P_READ] - 1
    engines[j + FIRST] = first
    pairs[at + P_TAKEN] = first
    pairs[at + P_INTERVAL] = streams[i + C_INTERVAL]
    pairs[at + P_RECORD] = s.record0[tile] + engines[j + PC] - engines[j + CODE0]
    streams[i + C_PENDING] = 0
    streams[i + TAKEN_STREAMS] += 1
    if k[LOGGING]:
        note(s, 4 * tile + L_COMPUTE, engines[j + PC], pairs[at + P_SRC], 0)
    end_at(s, e, first + streams[i + C_INTERVAL] * (streams[i + C_BEATS] - 1) + streams[i + C_EPILOGUE] + 1)
