"""Cycle counts of engines, semaphores and streams, pinned exactly."""

from dataclasses import replace

import pytest
from programs import TINY, instruction_times

from tokenpath.hw.arch.isa import Instr, Op
from tokenpath.sim.drawn import program
from tokenpath.sim.fast import FastMachine

ONE = TINY.on("line:1")  # store latency 2, stream depth 4, 8 lanes, 4 vector lanes
MEMORY, COMPUTE, NETWORK = range(3)


def run(memory=(), compute=(), network=(), arch=ONE):
    """The cycles of a step of one tile, and (issue, end) by (engine, instruction)."""
    machine = FastMachine(program(arch, [(memory, compute, network)]), values=False)
    step = machine.step(0, 0)
    assert sum(step.ledger.values()) == step.cycles
    return step, {(e, i): when for (_, e, i), when in instruction_times(machine).items()}


def rows(n):
    """A STREAM and a DOT of n rows of one beat."""
    return Instr(op=Op.STREAM, n=n, m=8), Instr(op=Op.DOT, n=n, m=8)


def test_an_empty_program_takes_no_cycle():
    assert run()[0].cycles == 0


def test_a_sync_takes_its_issue_cycle_only():
    step, times = run(compute=[Instr(op=Op.SYNC)] * 3)
    assert step.cycles == 3
    assert times[COMPUTE, 2] == (2, 3)


def test_a_vector_operation_ends_one_cycle_behind_its_duration():
    step, _ = run(compute=[Instr(op=Op.SILU, n=9)])  # 3 passes, latency 12
    assert step.cycles == 1 + 3 + 12


def test_a_post_is_visible_where_the_next_instruction_may_issue():
    append = Instr(op=Op.APPEND, n=5, post=3)
    step, times = run(memory=[append], compute=[Instr(op=Op.SYNC, wait=3)])
    assert times == {(MEMORY, 0): (0, 6), (COMPUTE, 0): (6, 7)}
    assert step.cycles == 7


def test_a_wait_takes_all_that_it_waited_for():
    memory = [Instr(op=Op.SYNC, post=1)] * 5
    compute = [Instr(op=Op.SYNC, wait=1, wait_n=2), Instr(op=Op.SYNC, wait=1, wait_n=3)]
    _, times = run(memory=memory, compute=compute)
    assert [times[COMPUTE, i] for i in range(2)] == [(2, 3), (5, 6)]


def test_semaphores_keep_what_is_left_from_step_to_step():
    queues = ([Instr(op=Op.APPEND, n=3, post=1)] * 2, [Instr(op=Op.SYNC, wait=1)], ())
    machine = FastMachine(program(ONE, [queues]), values=False)
    machine.step(0, 0)
    assert instruction_times(machine)[0, COMPUTE, 0] == (4, 5)
    machine.step(0, 1)
    assert instruction_times(machine)[0, COMPUTE, 0] == (0, 1)


def test_a_dot_consumes_a_beat_a_cycle():
    stream, dot = rows(20)
    step, times = run([stream], [dot])
    assert times[COMPUTE, 0] == (0, 3 + 19 + 8 + 1)  # read in 1, there in 3, 20 beats, latency 8
    assert times[MEMORY, 0] == (0, 21)  # a read a cycle: C(15) + 1 = 19 is earlier
    assert step.cycles == 31
    assert step.counters["beats_read"].tolist() == [20]
    assert step.counters["starved_cycles"].tolist() == [2]


def test_a_stream_reads_as_far_ahead_as_there_is_room_and_waits():
    stream, dot = rows(20)
    step, times = run([stream], [Instr(op=Op.SILU, n=4), dot])  # the DOT issues in 14
    assert times[COMPUTE, 1] == (14, 15 + 19 + 8 + 1)
    assert times[MEMORY, 0] == (0, 15 + 15 + 1 + 1)  # the last read follows the 16th consumption
    assert step.ledger == {"compute": 13 + 8, "memory": 20, "interconnect": 0, "wait": 2}


@pytest.mark.parametrize("late", range(6))
def test_a_late_operation_holds_up_the_last_read_by_as_much_as_the_room_is_short(late):
    stream, dot = rows(20)
    step, times = run([stream], [Instr(op=Op.SYNC)] * late + [dot])
    first = max(3, late + 1)  # the FIFO has room for the latency of 2 and 2 beats more
    assert times[COMPUTE, late] == (late, first + 19 + 8 + 1)
    assert times[MEMORY, 0] == (0, 1 + 19 + 1 + max(0, first - 3 - 1))
    busy = [times[MEMORY, 0][1] - 1, times[COMPUTE, late][1] - 1 - late, 0]
    assert step.counters["busy_cycles"].tolist() == [busy]


def test_short_streams_are_read_before_their_operations_issue():
    stream, dot = rows(2)
    _, times = run([stream] * 3, [Instr(op=Op.SILU, n=4), dot, dot, dot])
    assert [times[MEMORY, i] for i in range(3)] == [
        (0, 3),
        (3, 6),
        (6, 18),
    ]  # room for 4: C = 15, 16
    assert [times[COMPUTE, i][0] for i in range(1, 4)] == [14, 25, 36]


def test_a_load_is_as_slow_as_the_vector_memory():
    stream = Instr(op=Op.STREAM, n=9, m=8)
    _, times = run([stream], [Instr(op=Op.LOAD, n=9, m=8)])  # 8 words a beat on 4 lanes
    assert times[COMPUTE, 0] == (0, 3 + 2 * 8 + 6 + 1)
    assert times[MEMORY, 0] == (0, 3 + 2 * 4 + 1 + 1)  # the last read follows the fifth consumption


def test_an_axpy_reads_its_maxima_first():
    stream = Instr(op=Op.STREAM, n=5, m=16)
    step, times = run([stream], [Instr(op=Op.AXPY, n=5, m=16, q=2)])
    drain = 6 + 2 * 4 + 1
    assert times[COMPUTE, 0] == (0, 9 + 9 + drain + 1)
    assert step.ledger == {"compute": 8 + drain, "memory": 10, "interconnect": 0, "wait": 1}


@pytest.mark.parametrize(
    ("op", "cycles"), [(Op.DOT, 8), (Op.SCORE, 9), (Op.LOAD, 6), (Op.AXPY, 8 + 6 + 2 + 1)]
)
def test_no_rows_need_no_stream(op, cycles):
    operands = {"q": 1} if op in (Op.SCORE, Op.AXPY) else {}
    step, _ = run([], [Instr(op=op, n=0, m=8, **operands)])
    assert step.cycles == 1 + cycles


def test_an_empty_stream_pairs_with_nothing():
    stream, dot = rows(3)
    nothing = Instr(op=Op.STREAM, n=0, m=8)
    _, times = run([nothing, stream], [dot])
    assert times == {(MEMORY, 0): (0, 1), (MEMORY, 1): (1, 5), (COMPUTE, 0): (0, 4 + 2 + 8 + 1)}


def test_an_operation_may_issue_long_before_its_stream():
    stream, dot = rows(3)
    step, times = run([Instr(op=Op.APPEND, n=30), stream], [dot])
    assert times[COMPUTE, 0] == (0, 31 + 3 + 2 + 8 + 1)
    # followed into the STREAM and the APPEND ahead of it, not counted as the DOT's own time
    assert step.ledger == {"compute": 8, "memory": 30 + 5, "interconnect": 0, "wait": 2}
    assert step.stages["append"]["memory"] == 30


def test_deep_streams_hide_a_long_store_latency():
    arch = replace(ONE, store_latency=50, stream_depth=51)
    stream, dot = rows(300)
    _, times = run([stream], [dot], arch=arch)
    assert times[COMPUTE, 0] == (0, 51 + 299 + 8 + 1)


def test_a_deadlock_names_tile_engine_and_instruction():
    code = [((), (Instr(op=Op.SYNC), Instr(op=Op.SYNC, wait=7, wait_n=2)), ())]
    with pytest.raises(
        RuntimeError, match=r"deadlock at cycle 1: tile 0 compute instruction 1 \(SYNC, sync\)"
    ):
        FastMachine(program(ONE, code), values=False).step(0, 0)


def test_a_stream_that_nobody_takes_is_a_deadlock():
    with pytest.raises(RuntimeError, match="tile 0 memory instruction 0"):
        run([rows(5)[0]])


def test_an_operation_on_another_number_of_beats_is_refused():
    with pytest.raises(
        RuntimeError, match=r"tile 0 compute instruction 0 .* takes another number of beats"
    ):
        run([rows(3)[0]], [rows(4)[1]])


def test_an_append_over_beats_read_for_later_is_refused():
    stream, dot = rows(3)
    append = Instr(op=Op.APPEND, dst=2, n=1, post=1)
    with pytest.raises(RuntimeError, match=r"tile 0 memory instruction 1 .* overwrites beats"):
        run([stream, append], [Instr(op=Op.SYNC, wait=1), dot])


def test_an_operation_right_behind_a_throttled_stream_waits_for_nothing():
    stream, dot = rows(9)
    _, times = run([stream, stream], [dot, dot])
    first, second = times[COMPUTE, 0], times[COMPUTE, 1]
    assert first == (0, 3 + 8 + 8 + 1)
    assert second == (20, 21 + 8 + 8 + 1)
