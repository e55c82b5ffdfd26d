"""Columns of the simulator's tables: all its state is rows in flat arrays of integers.

A row is a power of two long, so ``array[row * WIDTH + COLUMN]`` is a shift, and fits a cache line
or two. Identifiers in use:

* engine ``4 * tile + Engine``; ``4 * tile + 3`` stands for the tile's network interface (NI)
* port: a number over all ports of all nodes, ``node_port0[node] + port``; behind them, a port for
  each NI, the output that feeds its router
* channel ``port * VCS + vc`` of an output; the same number names the input buffer at that port
* slot: the place of one flit in a buffer
* record: an executed instruction, ``record0[tile] + row - first row of the tile's class``
"""

from tokenpath.hw.arch.isa import COLUMN as _COLUMN
from tokenpath.hw.arch.isa import Op as _Op
from tokenpath.hw.arch.router_params import MOST_MATCHED as _MOST_MATCHED

NEVER = 1 << 62
CALENDAR = 64  # cycles ahead that have a list of events of their own; a power of two
LAST_CYCLE = (1 << 31) - (1 << 24)  # of a step; behind it 32 bits may not hold a time

# globals of a step
(NOW, STATUS, RUNNING, HEAP_N, READY_N, DELIVER_HEAD, DELIVER_N, LOG_N) = range(8)
(END_TIME, END_RECORD, END_INJECT, END_FLITS, END_TO, ERROR_ENGINE, CALENDAR_N) = range(8, 15)
GLOBALS = 32

# why the kernel returns: GROW_PACKETS and FLUSH_LOG ask for help and to be called again
(DONE, DEADLOCK, GROW_PACKETS, FLUSH_LOG, TOO_LONG, OVERWRITTEN, UNEQUAL) = range(7)

# constants of the machine
(TILES, REGISTERS, SEMAPHORES, LANES, VLANES, BLOCK, STORE_LATENCY, STREAM_DEPTH) = range(8)
(PAIRS, MAX_WORDS, FLIT_WORDS, TRACE, LOGGING, LOG_SIZE, VCS, DIMS) = range(8, 16)
# UNIT: log2 of the words of a buffer that a bit of BUSY stands for
(DELIVER_MASK, DESCRIPTORS, SUMMARY, NI_PORT0, QUEUES, EJECTION, LOCAL_VCS, UNIT) = range(16, 24)
(ROUTING, ORDERED, BUBBLE, WHOLE, ALLOCATOR, ITERATIONS, MATRIX, STAGES) = range(24, 32)
(HALF, ARBITER, ANY) = range(32, 35)
CONSTANTS = 64

# ROUTING (PLAIN: dimension order on any VC), ALLOCATOR. WHOLE: a credit is room for a packet; HALF
# of the VCs; ARBITER: words of one; ANY: the routers need ``request_any``
(PLAIN, FIXED, O1TURN, TABLE, WEST_FIRST, ODD_EVEN) = range(6)
(INPUT_FIRST, OUTPUT_FIRST, WAVEFRONT) = range(3)

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

# interface: the PUT and the descriptor that an NI sends; VC: of its packet (a bit), VC_NEXT the
# pointer behind it
N_WIDTH = 16
(DESCRIPTOR, DESCRIPTORS_LEFT, WORDS_LEFT, FLITS_LEFT, N_SRC, N_DST, N_OP, N_SEMAPHORE) = range(8)
(N_TO, N_FROM, N_INTO, N_PACKET, N_RECORD, INJECTED, N_VC, N_VC_NEXT) = range(8, 16)

# packet; Engines.destinations says where it goes
K_WIDTH = 8
(K_DST, K_WORDS, K_OP, K_SEMAPHORE, K_RECORD, K_INJECT, K_FLITS) = range(7)

# log: what the replay of the values has to do; the first column is 4 * tile + kind, the last of
# L_INJECT cycle << 8 | words
L_WIDTH = 4
(L_COMPUTE, L_APPEND, L_INJECT, L_DELIVER) = range(4)

# record: CAUSE is -1 (program order) or the record that posted, by a packet if INJECT >= 0 (its
# first flit was sent then). VIA: the record that set the first read or consumption of a stream, in
# VIA_AT
R_WIDTH = 8
(R_ISSUED, R_FIRST, R_END, R_CAUSE, R_INJECT, R_FLITS, R_VIA, R_VIA_AT) = range(8)

# counts of the network: flits that are in it, NIs with something to send, picks of matrix arbiters
(FLITS, INJECTING_N, SERVED_N) = range(3)
NETWORK_COUNTS = 8

# buffer: an input VC, named by the place of its row, a multiple of a cache line, the first of which
# holds the row and the first slots. Behind the row is its ring of MASK + 1 slots; FLITS from slot
# HEAD on have some, from slot 0 when it was empty, so most are in that line. HELD is the output VC
# (a bit) of the packet at its head, or 0, with ANY beside it the port as in a way; UP the output VC
# that gets its credits, ``port << UP_BITS | VC``; NUMBER is its place at its node, ``port <<
# PORT_BITS | queue of its credits << VC_BITS | VC``
LINE = 16
B_WIDTH = 8
(B_MASK, B_HEAD, B_FLITS, B_HELD, B_UP, B_NUMBER, B_PORT, B_NODE) = range(8)
UP_BITS, PORT_BITS, QUEUE_MASK = 3, 16, 255
UP_MASK = (1 << UP_BITS) - 1

# slot: FLIT = packet << 2 | tail << 1 | head; behind it the flit's way (ways.py)
SLOT_WIDTH = 2
VC_BITS = 8
VC_MASK = (1 << VC_BITS) - 1

BLOCK_BITS = 4  # nodes whose flits move before those of the next ones: they fit a cache

# port, a line. As an output: DOWN, the first buffer behind it, or -1, and STRIDE, how far that of
# the next VC is behind that of a VC; VCS, those with a credit, and << VC_BITS those that no packet
# holds; PORTS of its node, CYCLES a flit, QUEUE, where the queue of its link has NEXT; CREDITS of
# each VC, in halves of a word. Of the inputs that picked it in this cycle the one with the least
# KEY, how far it is behind NEXT (FAR: none did), and PICK, its buffer + the output VC. As an input:
# IN_NEXT, the VC with which its round begins
O_WIDTH = 16
(O_FREE, O_NEXT, O_KEY, O_PICK, O_COUNT, O_DOWN, O_VCS, O_IN_NEXT) = range(8)
(O_STRIDE, O_PORTS, O_CYCLES, O_QUEUE, O_CREDITS) = range(8, 13)
FAR = 1 << 30
MOST_CREDITS = (1 << 15) - 1

# queue: flits under way on links of one latency, or credits, in LINKS: ``where`` they arrive, and
# ``flit << WHERE_BITS``. What is sent in a cycle is a batch, a row behind those of the queues: from
# OPEN to NEXT until it is closed; FIRST and LAST count them
U_WIDTH = 16
(U_LATENCY, U_CREDITS, U_NEXT, U_OPEN, U_BEGIN, U_LIMIT, U_FIRST, U_LAST) = range(8)
(U_BATCHES, U_MASK) = range(8, 10)
H_WIDTH = 4
(H_DUE, H_BEGIN, H_END) = range(3)
WHERE_BITS = 32
WHERE_MASK = (1 << WHERE_BITS) - 1
AHEAD = 8  # arrivals whose rows are fetched beforehand

# arbiters of a port: over an input's VCs and its outputs, an output's inputs, the same for heads
# that ask for a VC only; of a router's first port the first diagonal
(CHANNEL, INPUT, OUTPUT, CHANNEL_HEADS, OUTPUT_HEADS, DIAGONAL) = range(6)
ARBITERS = 6

# asking: what the first flit of a buffer asks for, HEAD: a VC only. matching: of a router's inputs
# their rows of it (FIRST_ROW to END_ROW - 1), WANTED (bits of outputs), OFFERS and MATCHED; of its
# outputs TAKER
Q_WIDTH = 4
(Q_BUFFER, Q_OUTPUT, Q_PICK, Q_HEAD) = range(4)
MOST_PORTS = _MOST_MATCHED
MATCHING = 6 * MOST_PORTS
(FIRST_ROW, END_ROW, WANTED, OFFERS, MATCHED, TAKER) = range(0, MATCHING, MOST_PORTS)
