"""The state of a simulated array: flat integer arrays, and the columns of their rows.

A row is a power of two long and fits a cache line, so ``array[row * WIDTH + COLUMN]`` is one shift. Times are cycles of the
current step. ``int32`` holds them in the network: a step is refused at 2**31 - 2**24 cycles.

Identifiers: engine ``e = 4 * tile + Engine``, where ``4 * tile + 3`` is the tile's network interface (NI); port = a number over all
ports of all nodes, ``node_port0[node] + port``; channel = ``port * V + vc``, both of an output and of an input buffer; slot = one
flit of a buffer; record = one executed instruction, ``record0[tile] + (code row - first code row of the tile's class)``.
"""

from typing import NamedTuple, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from .jit import inner, pointer32, pointer64

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

NEVER = 1 << 62
LAST_CYCLE = (1 << 31) - (1 << 24)

# globals
(NOW, STATUS, RUNNING, HEAP_N, READY_N, DELIVER_HEAD, DELIVER_N, LOG_N, END_TIME, END_RECORD, END_INJECT, END_FLITS,
 END_TO, ERROR_ENGINE) = range(14)  # fmt: skip
GLOBALS = 32

# status of a run of the kernel
DONE, DEADLOCK, GROW_PACKETS, FLUSH_LOG, TOO_LONG, OVERWRITTEN, UNEQUAL = range(7)

# constants of the machine
(TILES, C_REGS, C_SEMS, LANES, VLANES, BLOCK, STORE_LATENCY, STREAM_DEPTH, RING, MAX_WORDS, FLIT_WORDS, TRACE, LOGGING,
 LOG_SIZE, VCS, DIMS, DELIVER_MASK, DESCRIPTORS) = range(18)  # fmt: skip
CONSTANTS = 32

# engine row
E_WIDTH = 16
(PC, PC_END, STATE, READY_AT, SEMAPHORE, NEED, ISSUED, CAUSE, C_INJECT, C_FLITS, BUSY, FIRST, VIA, VIA_AT, CODE0) = range(15)
WORKING, QUEUED, WAITING, FINISHED = range(4)

# NI row: the descriptor being sent
N_WIDTH = 16
(DESCRIPTOR, DESCRIPTORS_LEFT, WORDS_LEFT, FLITS_LEFT, N_SRC, N_DST, N_TO, N_NEXT_SRC, N_NEXT_DST, N_PACKET, N_OP,
 N_SEMAPHORE, N_RECORD, INJECTED, N_TAIL) = range(15)  # fmt: skip

# stream row
S_WIDTH = 16
(ISSUED_STREAMS, TAKEN_STREAMS, NEXT_BEAT, CURSOR, S_PENDING, S_ISSUED, C_PENDING, C_START, C_INTERVAL, C_EPILOGUE,
 C_BEATS, BEATS_READ, STARVED) = range(13)  # fmt: skip
NOT_PENDING, NEEDS_FIRST, NEEDS_LAST = range(3)

# pair row: a STREAM and the operation that consumes it
P_WIDTH = 8
P_FIRST_BEAT, P_BEATS, P_SRC, P_READ, P_TAKEN, P_INTERVAL, P_STREAM_RECORD, P_RECORD = range(8)

# packet row
K_WIDTH = 8
K_TO, K_DST, K_WORDS, K_OP, K_SEMAPHORE, K_RECORD, K_INJECT, K_FLITS = range(8)

# log row: what a replay of the values has to do, in order
L_WIDTH = 4
L_COMPUTE, L_APPEND, L_INJECT, L_DELIVER = range(4)

# record row
R_WIDTH = 8
R_ISSUED, R_FIRST, R_END, R_CAUSE, R_INJECT, R_FLITS, R_VIA, R_VIA_AT = range(8)

# buffer row: an input virtual channel. HEAD is a slot from LOW to below HIGH; LATENCY that of the credits of its link
B_WIDTH = 8
B_HEAD, B_LOW, B_HIGH, B_FILL, B_REQUEST, B_PORT, B_NUMBER, B_LATENCY = range(8)
LISTED, ONE_FLIT = 1, 2  # FILL: twice the number of flits, and whether the buffer is in the active list

# channel row: an output virtual channel and the slots of the buffer behind it; TAIL is the next one to fill
H_WIDTH = 8
H_LOCK, H_TAIL, H_LOW, H_HIGH, H_BUFFER, H_PORT = range(6)

# slot row: flit = packet << 2 | tail << 1 | head, or EMPTY; WHEN it arrives, or the credit of an empty slot is back
FLIT, WHEN = range(2)
EMPTY = -1

# port row: as an output, then as an input
Q_WIDTH = 16
(Q_FREE, Q_NEXT, Q_PORTS, Q_BEST, Q_KEY, Q_CYCLES, Q_LATENCY, Q_COUNT, Q_DOWN, Q_NODE, Q_IN_NEXT,
 Q_IN_BEST) = range(12)  # fmt: skip

CODE_WIDTH = 32


class Engines(NamedTuple):
    """Everything but the network. ``ready`` and ``heap`` are work lists; ``descriptors`` is (tiles * count * 4,)."""

    g: I64
    constants: I64
    code: I64
    engines: I64
    interfaces: I64
    streams: I64
    pairs: I64
    semaphores: I32
    registers: I32
    descriptors: I32
    heap: I64
    ready: I64
    deliveries: I64
    packets: I64
    free_packets: I64
    log: I64
    records: I32
    record0: I64


# counts of the network
ACTIVE_N, INJECTING_N = range(2)


class Network(NamedTuple):
    """Routers and links. ``counts``: active buffers, injecting tiles. ``routes``: per dimension a table of channels."""

    counts: I64
    buffers: I32
    slots: I32
    ports: I32
    channels: I32
    active: I32
    injecting: I32
    inputs: I32
    outputs: I32
    node_port0: I32
    coordinates: I32
    hub_dim: I32
    dim_at: I64
    dim_size: I64
    routes: I32


def addresses(arrays: Engines | Network) -> I64:
    """Where the arrays are; valid as long as they live. Raises TypeError for one that pointers would misread."""
    kinds = get_type_hints(type(arrays))
    for name, array in arrays._asdict().items():
        if array.dtype != get_args(get_args(kinds[name])[1])[0] or not array.flags.c_contiguous:
            raise TypeError(f"{name} is {array.dtype}")
    return np.array([array.ctypes.data for array in arrays], np.int64)


@inner
def engines_at(a: I64) -> Engines:
    """The fields of Engines as pointers, from their addresses."""
    return Engines(
        pointer64(a[0]), pointer64(a[1]), pointer64(a[2]), pointer64(a[3]), pointer64(a[4]),
        pointer64(a[5]), pointer64(a[6]), pointer32(a[7]), pointer32(a[8]), pointer32(a[9]),
        pointer64(a[10]), pointer64(a[11]), pointer64(a[12]), pointer64(a[13]), pointer64(a[14]),
        pointer64(a[15]), pointer32(a[16]), pointer64(a[17]),
    )  # fmt: skip


@inner
def network_at(a: I64) -> Network:
    """The fields of Network as pointers, from their addresses."""
    return Network(
        pointer64(a[0]), pointer32(a[1]), pointer32(a[2]), pointer32(a[3]), pointer32(a[4]),
        pointer32(a[5]), pointer32(a[6]), pointer32(a[7]), pointer32(a[8]), pointer32(a[9]),
        pointer32(a[10]), pointer32(a[11]), pointer64(a[12]), pointer64(a[13]), pointer32(a[14]),
    )  # fmt: skip
