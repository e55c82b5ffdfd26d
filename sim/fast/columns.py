"""Columns of the simulator's tables: all its state is rows in flat arrays of integers.

A row is a power of two long, so ``array[row * WIDTH + COLUMN]`` is a shift, and fits a cache line
or two. Identifiers in use:

* engine ``4 * tile + Engine``; ``4 * tile + 3`` stands for the tile's network interface (NI)
* port: a number over all ports of all nodes, ``node_port0[node] + port``
* channel ``port * VCS + vc`` of an output; the same number names the input buffer at that port
* slot: the place of one flit in a buffer
* record: an executed instruction, ``record0[tile] + row - first row of the tile's class``
"""

from tokenpath.hw.arch.isa import COLUMN as _COLUMN
from tokenpath.hw.arch.isa import Op as _Op

NEVER = 1 << 62
LAST_CYCLE = (1 << 31) - (1 << 24)  # of a step; behind it 32 bits may not hold a time

# globals of a step
(NOW, STATUS, RUNNING, HEAP_N, READY_N, DELIVER_HEAD, DELIVER_N, LOG_N) = range(8)
(END_TIME, END_RECORD, END_INJECT, END_FLITS, END_TO, ERROR_ENGINE) = range(8, 14)
GLOBALS = 32

# why the kernel returns: GROW_PACKETS and FLUSH_LOG ask for help and to be called again
(DONE, DEADLOCK, GROW_PACKETS, FLUSH_LOG, TOO_LONG, OVERWRITTEN, UNEQUAL) = range(7)

# constants of the machine
(TILES, REGISTERS, SEMAPHORES, LANES, VLANES, BLOCK, STORE_LATENCY, STREAM_DEPTH) = range(8)
(PAIRS, MAX_WORDS, FLIT_WORDS, TRACE, LOGGING, LOG_SIZE, VCS, DIMS) = range(8, 16)
(DELIVER_MASK, DESCRIPTORS) = range(16, 18)
CONSTANTS = 32

# code: isa.LAYOUT; the register of an operand is in the column behind its immediate
CODE_WIDTH = 32
(OP, WAIT, WAIT_N, POST) = (_COLUMN[name] for name in ("op", "wait", "wait_n", "post"))
(DST, SRC, AUX, BUX) = (_COLUMN[name] for name in ("dst", "src", "aux", "bux"))
(N, M, Q, X, Y) = (_COLUMN[name] for name in ("n", "m", "q", "x", "y"))
(SYNC, STREAM, APPEND, PUT) = (int(op) for op in (_Op.SYNC, _Op.STREAM, _Op.APPEND, _Op.PUT))
(DOT, SCORE, AXPY, LOAD) = (int(op) for op in (_Op.DOT, _Op.SCORE, _Op.AXPY, _Op.LOAD))

# engine: where it is, what it waits for, and what the record of its instruction will say
E_WIDTH = 16
(PC, PC_END, CODE0, STATE, READY_AT, SEMAPHORE, NEED, BUSY) = range(8)
(ISSUED, FIRST, CAUSE, CAUSE_INJECT, CAUSE_FLITS, VIA, VIA_AT) = range(8, 15)
(WORKING, QUEUED, WAITING, FINISHED) = range(4)

# stream: of a tile, what its memory and its compute engine have under way
S_WIDTH = 16
(STREAMS, TAKEN, NEXT_BEAT, CURSOR, BEATS_READ, STARVED) = range(6)
(READING, READ_ISSUED) = range(6, 8)
(TAKING, TAKE_FROM, TAKE_EVERY, TAKE_BEHIND, TAKE_BEATS) = range(8, 13)
(NOTHING, NEEDS_FIRST, NEEDS_LAST) = range(3)

# pair: a STREAM and the operation on its beats; READ and TAKEN are those of its first beat
P_WIDTH = 8
(P_BEAT, P_BEATS, P_SRC, P_READ, P_TAKEN, P_EVERY, P_STREAM, P_OPERATION) = range(8)
UNKNOWN = -2

# interface: the PUT and the descriptor that an NI sends; TAIL is the local buffer's next free slot
N_WIDTH = 16
(DESCRIPTOR, DESCRIPTORS_LEFT, WORDS_LEFT, FLITS_LEFT, N_SRC, N_DST, N_OP, N_SEMAPHORE) = range(8)
(N_TO, N_FROM, N_INTO, N_PACKET, N_RECORD, INJECTED, N_TAIL) = range(8, 15)

# packet
K_WIDTH = 8
(K_TO, K_DST, K_WORDS, K_OP, K_SEMAPHORE, K_RECORD, K_INJECT, K_FLITS) = range(8)

# log: what the replay of the values has to do; the first column is 4 * tile + kind
L_WIDTH = 4
(L_COMPUTE, L_APPEND, L_INJECT, L_DELIVER) = range(4)

# record: CAUSE is -1 (program order) or the record that posted, by a packet if INJECT >= 0 (its
# first
# flit was sent then). VIA: the record that set the first read or consumption of a stream, in
# VIA_AT
R_WIDTH = 8
(R_ISSUED, R_FIRST, R_END, R_CAUSE, R_INJECT, R_FLITS, R_VIA, R_VIA_AT) = range(8)

# counts of the network
(ACTIVE_N, INJECTING_N) = range(2)

# buffer: an input VC. HEAD is a slot from LOW to below HIGH; LATENCY that of its link's credits
B_WIDTH = 8
(B_HEAD, B_LOW, B_HIGH, B_FILL, B_REQUEST, B_PORT, B_NUMBER, B_LATENCY) = range(8)
LISTED, ONE_FLIT = (
    1,
    2,
)  # FILL: twice the number of flits, and whether the buffer is listed as active

# channel: an output VC and the buffer behind it; TAIL is that buffer's next free slot
H_WIDTH = 8
(H_LOCK, H_TAIL, H_LOW, H_HIGH, H_BUFFER, H_PORT) = range(6)

# slot: FLIT = packet << 2 | tail << 1 | head, or -1; WHEN it arrives, or an empty slot's credit
# does
(FLIT, WHEN) = range(2)

# port: as an output, then as an input
Q_WIDTH = 16
(Q_FREE, Q_NEXT, Q_PORTS, Q_BEST, Q_KEY, Q_CYCLES, Q_LATENCY, Q_COUNT) = range(8)
(Q_DOWN, Q_NODE, Q_IN_NEXT, Q_IN_BEST) = range(8, 12)
