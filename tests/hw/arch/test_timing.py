"""The cycles of each operation, as a small table that a change has to come past."""

import pytest

from tokenpath.hw.arch import timing
from tokenpath.hw.arch.isa import ENGINE_OPS, STREAM_OPS, Engine, Op

# (n, m, q) of the operands, then cycles on 4 vector lanes with blocks of 4 and on 8 with blocks
# of 32; 9 words are 3 and 2 passes.
VECTOR = {
    Op.SYNC: ((9, 3, 1), 0, 0),
    Op.SUM: ((9, 3, 1), 3 * 4 + 3, 2 * 4 + 3),
    Op.MAX: ((9, 3, 0), 3 * 3 + 3, 2 * 3 + 3),
    Op.RMS: ((9, 2, 1), 2 * (2 * 3 + 12), 2 * (2 * 2 + 12)),
    Op.ROPE: ((9, 3, 0), 3 * 3 + 4, 3 * 2 + 4),
    Op.SILU: ((9, 0, 0), 3 + 12, 2 + 12),
    Op.DIV: ((9, 3, 0), 3 * (3 + 4) + 8, 3 * (2 + 4) + 8),
    Op.MERGE: ((9, 3, 2), 6 * (3 + 4) + 8, 6 * (2 + 4) + 8),
    Op.QUANT: ((9, 2, 0), (2 * 3 + 1) * 1 + 8, (2 * 1 + 1) * 4 + 8),
    Op.ARGMAX: ((9, 0, 0), 3 + 6, 2 + 6),
    Op.ARGPAIR: ((9, 0, 0), 5 + 6, 3 + 6),
}


@pytest.mark.parametrize("op", VECTOR, ids=lambda op: op.name)
def test_vector_operations(op):
    operands, tiny, edge = VECTOR[op]
    assert timing.vector_cycles(op, *operands, 4, 4) == tiny
    assert timing.vector_cycles(op, *operands, 8, 32) == edge


def test_every_operation_has_its_time():
    assert VECTOR.keys() == ENGINE_OPS[Engine.COMPUTE] - STREAM_OPS


# Operation: prologue; cycles a beat; epilogue of a row of m = 9 for q = 2 queries, 4 vector lanes.
STREAMS = {
    Op.DOT: (0, 1, 8),
    Op.SCORE: (0, 1, 8 + 1),
    Op.AXPY: (8, 1, 6 + 2 * 3 + 1),
    Op.LOAD: (0, 2, 6),
}


@pytest.mark.parametrize("op", STREAMS, ids=lambda op: op.name)
def test_stream_operations(op):
    prologue, interval, epilogue = STREAMS[op]
    assert timing.stream_prologue(op) == prologue
    assert timing.beat_interval(op, 8, 4) == interval
    assert timing.stream_epilogue(op, 9, 2, 4) == epilogue


def test_every_stream_operation_has_its_time():
    assert STREAMS.keys() == STREAM_OPS


def test_an_engine_and_a_packet():
    assert (timing.ISSUE_CYCLES, timing.DESCRIPTOR_CYCLES, timing.SINK_CYCLES) == (1, 2, 2)
    assert [timing.beats(words, 4) for words in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [timing.put_flits(words, 4) for words in (0, 2, 3, 62)] == [1, 1, 2, 16]
