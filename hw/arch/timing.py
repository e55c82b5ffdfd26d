"""Time: how many cycles each operation, hop and stage takes.

RTL and fast simulator both answer to it.

The rhythm of an engine: in the cycle of *issue* an instruction's wait is satisfied (the
semaphore held enough at the start of the cycle). A duration of ``d`` occupies the ``d`` cycles
behind it; the post is visible one cycle after the last of them, and that is also the earliest
cycle in which the next instruction issues.
"""

from .isa import Op

ISSUE_CYCLES = 1
"""Cycles between an instruction's issue and the first cycle of its execution."""

DESCRIPTOR_CYCLES = 2
"""Cycles that a PUT spends on each descriptor before its first flit may enter the router."""

HEADER_WORDS = 2
"""Words of a packet's header: destination, length, operation, semaphore in one, address in the
other."""

SINK_CYCLES = 2
"""From the cycle in which the router grants a flit to the local port until its words and its
post are visible."""

DOT_LATENCY = 8
"""From the cycle that consumes a row's last beat until its result is in vector memory."""

AXPY_PROLOGUE = 8
"""From the start of an AXPY until its first beat can be consumed: maxima read, first weight
computed."""

FILL_LATENCY = 6
"""From the last beat of an AXPY or LOAD until its accumulators or words are complete."""

SUM_LATENCY, RMS_LATENCY, ROPE_LATENCY, SILU_LATENCY = 3, 12, 4, 12
DIV_LATENCY, DIV_RECIPROCAL, MERGE_LATENCY, MERGE_ALIGN = 8, 4, 8, 4
QUANT_LATENCY, ARG_LATENCY = 8, 6


def beats(words: int, width: int) -> int:
    """``words / width`` rounded up."""
    return -(-words // width)


def vector_cycles(op: int, n: int, m: int, q: int, vlanes: int, block: int) -> int:
    """Duration in cycles of a compute operation that consumes no stream, with operands ``n``,
    ``m`` and ``q``."""
    passes = beats(n, vlanes)
    if op == Op.SYNC:
        return 0
    if op == Op.SUM or op == Op.MAX:  # each slot of a beat in turn
        return passes * (m + q) + SUM_LATENCY
    if op == Op.RMS:  # squares, then the products
        return m * (2 * passes + RMS_LATENCY)
    if op == Op.ROPE:
        return m * passes + ROPE_LATENCY
    if op == Op.SILU:
        return passes + SILU_LATENCY
    if op == Op.DIV:
        return m * (passes + DIV_RECIPROCAL) + DIV_LATENCY
    if op == Op.MERGE:
        return m * q * (passes + MERGE_ALIGN) + MERGE_LATENCY
    if op == Op.QUANT:  # one block is measured while the one before it is scaled
        return (m * beats(n, block) + 1) * beats(block, vlanes) + QUANT_LATENCY
    if op == Op.ARGPAIR:
        return beats(2 * n, vlanes) + ARG_LATENCY
    return passes + ARG_LATENCY  # ARGMAX


def stream_prologue(op: int) -> int:
    """Cycles from the start of a stream-consuming operation until it can consume its first
    beat."""
    return AXPY_PROLOGUE if op == Op.AXPY else 0


def beat_interval(op: int, lanes: int, vlanes: int) -> int:
    """Cycles between two beats that an operation consumes: a LOAD is as slow as the vector
    memory that it fills."""
    return beats(lanes, vlanes) if op == Op.LOAD else 1


def stream_epilogue(op: int, m: int, q: int, vlanes: int) -> int:
    """Cycles from the one that consumes the last beat until the operation is complete."""
    if op == Op.DOT:
        return DOT_LATENCY
    if op == Op.SCORE:  # the maxima follow the last score
        return DOT_LATENCY + beats(q, vlanes)
    if op == Op.AXPY:  # the accumulators drain into vector memory
        return FILL_LATENCY + q * beats(m, vlanes) + beats(q, vlanes)
    return FILL_LATENCY  # LOAD


def put_flits(words: int, flit_words: int) -> int:
    """Flits of one packet of ``words`` payload words; the header's words travel in front of
    them."""
    return beats(words + HEADER_WORDS, flit_words)
