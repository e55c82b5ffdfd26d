"""The emitter: what differs from tile to tile finds a register, and what runs out is named."""

from dataclasses import replace

import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import COLUMN, REGISTERS, SEMAPHORES, Engine, Op
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import StepRule
from tokenpath.sw.emit import Emitter

TINY = PRESETS["tiny"]


@pytest.fixture
def emitter() -> Emitter:
    return Emitter(TINY)


def fields(emitter, engine, *names):
    """The named fields of each instruction of an engine."""
    rows = [instruction.columns() for instruction in emitter.code[engine]]
    return [tuple(row[COLUMN[name]] for name in names) for row in rows]


def test_equal_values_are_an_immediate_and_others_share_registers(emitter):
    assert emitter.per_tile([7, 7, 7, 7], 100) == 107
    first = emitter.per_tile([1, 2, 3, 4])
    assert first == (0, 1)
    assert emitter.per_tile([1, 2, 3, 4], 50) == (50, 1)
    assert emitter.per_tile((4, 3, 2, 1)) == (0, 2)
    assert emitter.columns == [(0, 0, 0, 0), (1, 2, 3, 4), (4, 3, 2, 1)]


def test_step_rules_share_registers_whatever_their_offset(emitter):
    at = emitter.step_rule("kv_next", scale=2, offset=10)
    assert emitter.step_rule("kv_next", scale=2, offset=30) == (30, at[1])
    assert emitter.step_rule("kv_next", scale=3) != (0, at[1])
    assert emitter.step_rule("kv_rows", span=4) != emitter.step_rule("kv_rows")
    assert emitter.rules[0] == StepRule(register=at[1], kind="kv_next", scale=2)
    assert [rule.register for rule in emitter.rules] == [1, 2, 3, 4]


def test_descriptors_are_filled_up_to_the_longest_run(emitter):
    rows = (((1, 0, 5, 9),), (), ((0, 1, 2, 3), (3, 4, 5, 6)), ())
    assert emitter.descriptors(rows) == 0
    assert emitter.descriptors(((), (), (), ((2, 0, 1, 0),))) == 2
    assert emitter.descriptors(rows) == 0  # they are there already
    assert emitter.tables[0] == [(1, 0, 5, 9), (0, 0, 0, 0), (0, 0, 0, 0)]
    assert emitter.tables[1] == [(1, 0, 0, 0)] * 3
    assert emitter.tables[2] == [(0, 1, 2, 3), (3, 4, 5, 6), (2, 0, 0, 0)]


def test_a_second_wait_becomes_a_sync_in_front(emitter):
    emitter.wait(Engine.COMPUTE, 5, 2)
    emitter.wait(Engine.COMPUTE, 6, 0)  # nothing to wait for
    emitter.wait(Engine.COMPUTE, 7)
    emitter.wait(Engine.NETWORK, 8)
    emitter.compute(Op.SUM, n=4, m=1)
    emitter.compute(Op.SUM, n=4, m=1)
    assert fields(emitter, Engine.COMPUTE, "op", "wait", "wait_n") == [
        (Op.SYNC, 5, 2),
        (Op.SUM, 7, 1),
        (Op.SUM, 0, 1),
    ]


def test_the_network_engine_takes_over_waits(emitter):
    emitter.wait(Engine.COMPUTE, 5)
    emitter.defer_waits()
    emitter.emit(Engine.NETWORK, Op.SYNC)
    emitter.compute(Op.SYNC)
    assert fields(emitter, Engine.NETWORK, "wait") == [(5,)]
    assert fields(emitter, Engine.COMPUTE, "wait") == [(0,)]


def test_instructions_may_go_ahead_of_waits(emitter):
    emitter.wait(Engine.COMPUTE, 5)
    with emitter.ahead_of_waits():
        emitter.compute(Op.SILU, n=1)
    emitter.compute(Op.SUM, n=1, m=1)
    assert fields(emitter, Engine.COMPUTE, "op", "wait") == [(Op.SILU, 0), (Op.SUM, 5)]


def test_the_last_instruction_hands_over(emitter):
    emitter.compute(Op.SUM, n=4, m=1)
    emitter.hand_over(Engine.COMPUTE, Emitter.TO_NETWORK)
    emitter.hand_over(Engine.COMPUTE, Emitter.TO_MEMORY)
    assert fields(emitter, Engine.COMPUTE, "op", "post") == [
        (Op.SUM, Emitter.TO_NETWORK),
        (Op.SYNC, Emitter.TO_MEMORY),
    ]


def test_a_stream_is_two_instructions_and_labels_follow(emitter):
    with emitter.label("head"):
        emitter.stream(Op.DOT, 40, n=3, m=8, dst=2)
    emitter.compute(Op.SYNC)
    assert fields(emitter, Engine.MEMORY, "op", "src", "n", "m") == [(Op.STREAM, 40, 3, 8)]
    assert fields(emitter, Engine.COMPUTE, "op", "dst", "n", "m")[0] == (Op.DOT, 2, 3, 8)
    assert emitter.labels == (["head"], ["head", ""], [])


def test_a_put_counts_its_descriptors_and_its_arrivals(emitter):
    assert emitter.put(((), (), (), ()), src=0, dst=9, semaphore=4) == 0
    assert emitter.code[Engine.NETWORK] == []
    rows = (((1, 0, 1, 0), (3, 0, 1, 0)), (), ((1, 0, 0, 0),), ())
    assert emitter.put(rows, src=0, dst=9, semaphore=4) == (0, 2)
    assert fields(emitter, Engine.NETWORK, "op", "dst", "m", "m_reg", "y") == [(Op.PUT, 9, 0, 1, 4)]
    assert emitter.columns[1:] == [(2, 0, 1, 0), (0, 2, 0, 1)]


def test_places_and_semaphores_by_name(emitter):
    assert [emitter.scratch(5), emitter.scratch(TINY.scratch_words - 5)] == [0, 5]
    assert [emitter.inbox(3), emitter.inbox(TINY.inbox_words - 3)] == [
        TINY.scratch_words,
        TINY.scratch_words + 3,
    ]
    names = [emitter.semaphore(name) for name in ("a", "b", "a")]
    assert names == [4, 5, 4]


@pytest.mark.parametrize(
    ("exhaust", "message"),
    [
        (
            lambda e: e.scratch(TINY.scratch_words + 1),
            "the program needs more than 2048 words of scratch a tile; "
            "give an architecture with a larger scratch_words",
        ),
        (
            lambda e: e.inbox(TINY.inbox_words + 1),
            "the collectives need more than 2048 words of inbox a tile; "
            "give an architecture with a larger inbox_words, or --reduce direct",
        ),
        (
            lambda e: [e.semaphore(str(i)) for i in range(SEMAPHORES - 3)],
            "the program needs more than 128 semaphores; give --reduce direct",
        ),
        (
            lambda e: [e.per_tile([i, 0, 0, 1]) for i in range(REGISTERS)],
            "the program needs more than 256 registers; give --reduce direct or --split 2d",
        ),
        (
            lambda e: e.descriptors((((0, 0, 1, 0),) * (TINY.descriptors + 1), (), (), ())),
            "the program needs more than 1024 put descriptors a tile; "
            "give an architecture with more descriptors",
        ),
    ],
    ids=["scratch", "inbox", "semaphores", "registers", "descriptors"],
)
def test_what_runs_out_is_named(emitter, exhaust, message):
    with pytest.raises(InputError) as refusal:
        exhaust(emitter)
    assert str(refusal.value) == message


def test_all_that_there_is_can_be_used():
    emitter = Emitter(replace(TINY, descriptors=2))
    assert [emitter.semaphore(str(i)) for i in range(SEMAPHORES - 4)][-1] == SEMAPHORES - 1
    assert emitter.per_tile([2, 0, 0, 0]) == (0, 1)
    assert emitter.descriptors((((0, 0, 1, 0),) * 2, (), (), ())) == 0
    assert [emitter.per_tile([i, 1, 1, 0])[1] for i in range(REGISTERS - 2)][-1] == REGISTERS - 1
