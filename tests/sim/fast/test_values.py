from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pairs import (
    EXAMPLES,
    MEMORIES,
    MOODS,
    SCORE_ROWS,
    SMALL,
    STORE_BEATS,
    WORDS,
    Pair,
    append,
    compute,
    deliver,
    inject,
    machines,
)
from programs import TINY

from tokenpath.hw.arch.isa import Instr, Op, PutOp
from tokenpath.sim import golden
from tokenpath.sim.drawn import program
from tokenpath.sim.fast import FastMachine
from tokenpath.sim.fast.state import addresses


def test_a_put_stores_adds_or_takes_the_larger():
    corners = Counter()

    @EXAMPLES
    @given(st.data(), machines(), MOODS, st.integers(0, 99))
    def run(data, arch, mood, seed):
        pair = Pair(arch, seed, mood)
        for op in PutOp:
            to, count = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 14))
            pair.tile.descriptors[0] = (
                to,
                data.draw(st.integers(0, 20)),
                count,
                data.draw(st.integers(0, 20)),
            )
            pair.execute(
                Op.PUT,
                src=data.draw(st.integers(0, 9)),
                dst=data.draw(st.integers(60, 99)),
                m=1,
                x=int(op),
            )
            corners[op, pair.wrapped > 0] += 1
            corners["empty"] += count == 0

    run()
    assert set(corners) == {*((op, False) for op in PutOp), (PutOp.ADD, True), "empty"}, corners
    assert corners["empty"]


def test_append_copies_beats_and_scales():

    @settings(max_examples=30)
    @given(st.data(), machines(), MOODS, st.integers(0, 99))
    def run(data, arch, mood, seed):
        n = data.draw(st.integers(0, 8))
        src, dst = data.draw(st.integers(0, 8 - n)), data.draw(st.integers(0, 48 - n))
        Pair(arch, seed, mood).execute(Op.APPEND, dst=dst, src=src, n=n)

    run()


def test_a_decode_step_in_small():
    """Quantise, append K and V, score, weigh, divide: each reads what the one before wrote."""

    @settings(max_examples=20)
    @given(machines(), st.integers(0, 99))
    def run(arch, seed):
        pair, width = Pair(arch, seed), min(arch.lanes, 32)
        for row in range(6):
            pair.execute(Op.QUANT, dst=0, src=10 + row, n=width, m=2, x=16, y=1)
            pair.execute(Op.APPEND, dst=row, src=0, n=1)
            pair.execute(Op.APPEND, dst=10 + row, src=1, n=1)
        pair.execute(Op.QUANT, dst=0, src=40, n=width, m=2, x=16)
        pair.execute(Op.SCORE, 0, dst=300, src=0, n=6, m=width, q=2, y=8)
        pair.execute(Op.AXPY, 10, dst=320, src=300, aux=302, n=6, m=width, q=2, x=12, y=10)
        pair.execute(
            Op.DIV, dst=320, src=320, aux=302, n=width, m=2, q=16, x=12, y=arch.numeric.sum_frac(10)
        )

    run()


@pytest.mark.parametrize(
    "operands",
    [
        {"op": Op.DOT, "n": 3, "m": 8, "stream": STORE_BEATS - 2},
        {"op": Op.DOT, "n": 1, "m": 8, "src": 8},
        {"op": Op.DOT, "n": 2, "m": 8, "dst": WORDS - 1},
        {"op": Op.DOT, "n": 1, "m": 8, "stream": -1},
        {"op": Op.SCORE, "n": 2, "m": 8, "q": 3},
        {"op": Op.SCORE, "n": 2, "m": 8, "q": 1, "bux": SCORE_ROWS - 1},
        {"op": Op.AXPY, "n": 1, "m": 25, "q": 1},
        {"op": Op.AXPY, "n": 2, "m": 8, "q": 1, "bux": SCORE_ROWS - 1},
        {"op": Op.LOAD, "n": 1, "m": 8, "dst": WORDS - 7},
        {"op": Op.SUM, "n": 1, "m": 2, "aux": WORDS},
        {"op": Op.SUM, "n": -1, "m": 2},
        {"op": Op.RMS, "n": 4, "m": 1, "aux": WORDS - 2},
        {"op": Op.ROPE, "n": 4, "m": 1, "src": -1},
        {"op": Op.SILU, "n": 4, "aux": WORDS - 3},
        {"op": Op.DIV, "n": 4, "m": 2, "aux": WORDS - 1},
        {"op": Op.QUANT, "n": 8, "m": 2, "dst": 4},
        {"op": Op.QUANT, "n": 8, "m": 2, "dst": 7, "y": 1},
        {"op": Op.MERGE, "n": 2, "m": 2, "q": 1, "aux": WORDS - 2},
        {"op": Op.ARGMAX, "n": 4, "dst": WORDS - 1},
        {"op": Op.ARGPAIR, "n": 4, "src": WORDS - 7},
    ],
    ids=lambda operands: operands["op"].name,
)
def test_an_operand_outside_of_its_memory_is_refused(operands):
    values = Pair(SMALL).values
    names = ("dst", "src", "aux", "bux", "n", "m", "q", "x", "y")
    values.ops[:] = [operands["op"], *(operands.get(name, 0) for name in names)]
    before = [array.copy() for array in values]
    with pytest.raises(IndexError, match="outside of a memory"):
        compute(addresses(values), 1, operands.get("stream", 0))
    for name in MEMORIES:
        now, old = getattr(values, name)[0], before[values._fields.index(name)][0]
        assert (now == old).all(), f"{name} of another tile"


def test_a_packet_or_an_append_outside_of_its_memory_is_refused():
    arrays = Pair(SMALL).values
    values, end = addresses(arrays), len(arrays.payload)
    for at, words, dst in ((end - 4, 5, 0), (0, 2, WORDS - 1), (-1, 1, 0), (0, 1, -1)):
        with pytest.raises(IndexError, match="outside of a memory"):
            deliver(values, at, words, 1, dst, int(PutOp.STORE))
        with pytest.raises(IndexError, match="outside of a memory"):
            inject(values, 1, dst, words, at)
    for dst, src, n in ((47, 0, 2), (0, 7, 2), (-1, 0, 1)):
        with pytest.raises(IndexError, match="outside of a memory"):
            append(values, 1, dst, src, n)


def test_sync_changes_nothing():
    pair = Pair(replace(SMALL, queries=1))
    pair.execute(Op.SYNC)
    assert (pair.clamped, pair.wrapped) == (0, 0)


def test_a_score_that_leaves_a_word_wraps_as_in_hardware():
    """Two blocks of the largest terms, with a headroom that Program.check refuses."""
    arch = replace(TINY.on("line:1"), numeric=replace(TINY.numeric, score_frac=8))
    queues = [((Instr(op=Op.STREAM, n=2, m=8),), (Instr(op=Op.SCORE, n=2, m=8, q=1),), ())]
    elements = np.full((1, 2, arch.lanes), 127, np.int8)
    elements[0, 1] = -127
    scales = np.full((1, 2, arch.blocks_per_beat), 60 << 3, np.int16)
    drawn = program(
        arch, queues, elements=elements.data, scales=scales.data, store_beats_used=2
    )  # fmt: skip
    judge, machine = golden.Machine(drawn), FastMachine(drawn)
    judge.tiles[0].operand[:] = machine.values.operand[:] = 127
    for one in (judge, machine):
        one.step(0, 0)
    wanted = [-2, 2]  # 2 * (2**31 - 1) and its negative, modulo 2**32
    assert judge.tiles[0].scores[0, :2].tolist() == wanted
    assert machine.values.scores[0, 0, :2].tolist() == wanted
    assert judge.tiles[0].vector[0] == machine.values.vector[0, 0] == 1  # of 2 / 2**8, rounded up
