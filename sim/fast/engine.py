"""Engines and semaphores: the event-driven part of the simulator.

An engine that is ready issues in cycle t if its instruction's semaphore holds enough at the start
of t, and takes that away. A duration of d occupies ``t+1 .. t+d``; in ``t+1+d`` the post is
visible and the next instruction may issue. All that is visible at t is applied before any engine
is looked at, and nothing that an issue does is visible before ``t+1``; so the order in which
engines are served can't matter.

Where the rules leave a choice:

* Semaphores keep their counts from step to step; streams, engines and links start each step idle.
* A wait for 0 or less is satisfied.
* An instruction's cause is the post that made its semaphore sufficient, unless that was in the
  cycle in which the engine became ready: then it is the instruction before.
* The step's cycles end when every instruction has ended and every packet is visible, semaphore or
  not.
"""

# ruff: noqa: F403, F405
from tokenpath.hw.arch.timing import DESCRIPTOR_CYCLES
from tokenpath.sim.compiled import time

from .columns import *
from .events import end_at, note
from .jit import inner, wide
from .pairing import check_append, start_reading, start_taking
from .state import Engines

beat_interval, row_beats, vector_cycles = time.beat_interval, time.beats, time.vector_cycles
stream_prologue, stream_epilogue = time.stream_prologue, time.stream_epilogue


@inner
def operand(s: Engines, tile: int, at: int) -> int:
    """Immediate + register of the operand at a place of the code table."""
    return wide(s.code[at] + s.registers[tile * s.constants[REGISTERS] + s.code[at + 1]])


@inner
def post(s: Engines, tile: int, semaphore: int, record: int, inject: int, flits: int) -> None:
    """Add one to a semaphore; an engine that waits and now has enough is looked at in this
    cycle.
    """
    at = tile * s.constants[SEMAPHORES] + semaphore
    s.semaphores[at] += 1
    for e in range(4 * tile, 4 * tile + 3):
        i = e * E_WIDTH
        waits = s.engines[i + STATE] == WAITING and s.engines[i + SEMAPHORE] == semaphore
        if waits and s.semaphores[at] >= s.engines[i + NEED]:
            s.engines[i + STATE] = QUEUED
            s.engines[i + CAUSE] = record
            s.engines[i + CAUSE_INJECT] = inject
            s.engines[i + CAUSE_FLITS] = flits
            s.ready[s.g[READY_N]] = e
            s.g[READY_N] += 1


@inner
def finish(s: Engines, e: int, t: int) -> None:
    """The instruction of engine e has ended at the start of t: record, post, next instruction."""
    i, tile, engines, g = e * E_WIDTH, e >> 2, s.engines, s.g
    pc = engines[i + PC]
    record = s.record0[tile] + pc - engines[i + CODE0]
    if s.constants[TRACE]:
        write_record(s, record * R_WIDTH, i, t)
    engines[i + BUSY] += t - 1 - engines[i + ISSUED]
    if t > g[END_TIME]:
        g[END_TIME] = t
        g[END_RECORD] = record
        g[END_INJECT] = -1
    semaphore = s.code[pc * CODE_WIDTH + POST]
    if semaphore:
        post(s, tile, semaphore, record, -1, 0)
    engines[i + PC] = pc + 1
    if pc + 1 == engines[i + PC_END]:
        engines[i + STATE] = FINISHED
        g[RUNNING] -= 1
        return
    engines[i + STATE] = QUEUED
    engines[i + READY_AT] = t
    engines[i + CAUSE] = -1
    engines[i + CAUSE_INJECT] = -1
    engines[i + FIRST] = 0
    engines[i + VIA] = -1
    s.ready[g[READY_N]] = e
    g[READY_N] += 1


@inner
def write_record(s: Engines, r: int, i: int, t: int) -> None:
    """Keep what the ledger needs of an engine's instruction that ends at t."""
    records, engines = s.records, s.engines
    records[r + R_ISSUED] = engines[i + ISSUED]
    records[r + R_FIRST] = engines[i + FIRST]
    records[r + R_END] = t
    records[r + R_CAUSE] = engines[i + CAUSE]
    records[r + R_INJECT] = engines[i + CAUSE_INJECT]
    records[r + R_FLITS] = engines[i + CAUSE_FLITS]
    records[r + R_VIA] = engines[i + VIA]
    records[r + R_VIA_AT] = engines[i + VIA_AT]


@inner
def issue(s: Engines, e: int, t: int) -> None:
    """Issue the instruction of a ready engine in cycle t, or leave the engine waiting."""
    i, tile, engines = e * E_WIDTH, e >> 2, s.engines
    row = engines[i + PC] * CODE_WIDTH
    semaphore = s.code[row + WAIT]
    if semaphore:
        need = operand(s, tile, row + WAIT_N)
        at = tile * s.constants[SEMAPHORES] + semaphore
        if s.semaphores[at] < need:
            engines[i + STATE] = WAITING
            engines[i + SEMAPHORE] = semaphore
            engines[i + NEED] = need
            return
        s.semaphores[at] -= need
    engines[i + STATE] = WORKING
    engines[i + ISSUED] = t
    if s.code[row + OP] == SYNC:
        end_at(s, e, t + 1)
    elif e & 3 == 1:
        compute(s, e, tile, row, t)
    elif e & 3 == 0:
        memory(s, e, tile, row, t)
    else:
        put(s, e, tile, row, t)


@inner
def compute(s: Engines, e: int, tile: int, row: int, t: int) -> None:
    """A compute operation issued in t: a vector operation, or one on the beats of a STREAM."""
    op, k = s.code[row + OP], s.constants
    n, m, q = operand(s, tile, row + N), operand(s, tile, row + M), s.code[row + Q]
    on_beats = op in (DOT, SCORE, AXPY, LOAD)
    beats = n * row_beats(m, k[LANES]) if on_beats else 0
    if beats:
        interval = beat_interval(op, k[LANES], k[VLANES])
        epilogue = stream_epilogue(op, m, q, k[VLANES])
        start_taking(s, tile, t + 1 + stream_prologue(op), beats, interval, epilogue)
        return
    if k[LOGGING]:
        note(s, 4 * tile + L_COMPUTE, row // CODE_WIDTH, 0, 0)
    if on_beats:
        cycles = stream_prologue(op) + stream_epilogue(op, m, q, k[VLANES])
    else:
        cycles = vector_cycles(op, n, m, q, k[VLANES], k[BLOCK])
    end_at(s, e, t + 1 + cycles)


@inner
def memory(s: Engines, e: int, tile: int, row: int, t: int) -> None:
    """A STREAM or APPEND issued in t."""
    n = operand(s, tile, row + N)
    if s.code[row + OP] == APPEND:
        check_append(s, tile, operand(s, tile, row + DST), n)
        if s.constants[LOGGING]:
            note(s, 4 * tile + L_APPEND, row // CODE_WIDTH, 0, 0)
        end_at(s, e, t + 1 + n)
        return
    beats = n * row_beats(operand(s, tile, row + M), s.constants[LANES])
    if beats:
        record = s.record0[tile] + row // CODE_WIDTH - s.engines[e * E_WIDTH + CODE0]
        start_reading(s, tile, t, beats, operand(s, tile, row + SRC), record)
    else:
        end_at(s, e, t + 1)


@inner
def put(s: Engines, e: int, tile: int, row: int, t: int) -> None:
    """A PUT issued in t: the network interface fetches its first descriptor."""
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
