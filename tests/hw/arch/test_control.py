"""Deadlocks and posts left over, named by the instruction at fault."""

from collections.abc import Callable
from typing import Any

import pytest

from tokenpath.hw.arch.control import Control
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import Instr, Op
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import Program, StepRule

MakeProgram = Callable[..., Program]
PAIR = PRESETS["tiny"].on("line:2")
IDLE: Any = ([], [], [])
INBOX = PAIR.scratch_words


def wait(semaphore: int, count: int = 1, post: int = 0) -> Instr:
    return Instr(op=Op.SYNC, wait=semaphore, wait_n=count, post=post)


def put(to_semaphore: int, count: int = 1, **more: int) -> Instr:
    return Instr(op=Op.PUT, m=count, dst=INBOX, y=to_semaphore, **more)


def complaint(program: Program, position: int = 0) -> str:
    with pytest.raises(InputError) as caught:
        program.check("full", [(position, 0)])
    return str(caught.value)


def test_a_put_that_is_missing(hand_made: MakeProgram) -> None:
    to_one = [[(1, 0, 4, 0)] * 3]
    fine = hand_made(
        PAIR, [([], [], [put(5, 3)]), ([], [wait(5), wait(5, 2)], [])], descriptors=to_one
    )
    fine.check("full")
    short = hand_made(
        PAIR, [([], [], [put(5, 2)]), ([], [wait(5), wait(5, 2)], [])], descriptors=to_one
    )
    assert complaint(short) == (
        "tile 1 compute instruction 1 (SYNC, stage): waits for ever: 3 posts of semaphore 5 are "
        "waited for, 2 sent (at position 0)"
    )


def test_the_one_without_posts_is_named_before_who_waits_for_it(hand_made: MakeProgram) -> None:
    queues: Any = ([wait(4)], [wait(5, post=4)], [])
    assert complaint(hand_made(PAIR, [queues, IDLE])) == (
        "tile 0 compute instruction 0 (SYNC, stage): waits for ever: 1 posts of semaphore 5 are "
        "waited for, 0 sent (at position 0)"
    )


def test_a_circle_of_two_tiles(hand_made: MakeProgram) -> None:
    """The memory engine of tile 0 waits for the circle without being a part of it."""
    send = put(5, wait=6)
    codes: Any = [
        ([wait(4)], [wait(5, post=6)], [send, Instr(op=Op.SYNC, post=4)]),
        ([], [wait(5, post=6)], [send]),
    ]
    peers = [[(1, 0, 4, 0)], [(0, 0, 4, 0)]]
    assert complaint(hand_made(PAIR, codes, descriptors=peers)) == (
        "tile 0 network instruction 0 (PUT, stage): deadlock: waits for semaphore 6, which tile 0 "
        "compute instruction 0 (SYNC, stage) posts, itself waiting (at position 0)"
    )


@pytest.mark.parametrize(("rows", "fits"), [(4, True), (5, False)])
def test_a_stream_that_does_not_fit_on_its_way(
    hand_made: MakeProgram, rows: int, fits: bool
) -> None:
    """Its taker waits for the instruction behind it; stream_depth beats may be read before."""
    memory = [Instr(op=Op.STREAM, n=rows, m=8), Instr(op=Op.SYNC, post=4)]
    program = hand_made(PAIR, [(memory, [Instr(op=Op.LOAD, n=rows, m=8, wait=4)], []), IDLE])
    if fits:
        program.check("full")
        return
    assert complaint(program) in (
        "tile 0 memory instruction 0 (STREAM, stage): deadlock: waits for tile 0 compute "
        "instruction 0 (LOAD, stage) to take its beats; stream_depth is 4 (at position 0)",
        "tile 0 compute instruction 0 (LOAD, stage): deadlock: waits for semaphore 4, which tile 0 "
        "memory instruction 1 (SYNC, stage) posts, itself waiting (at position 0)",
    )


def test_streams_share_the_room(hand_made: MakeProgram) -> None:
    """Two streams of three beats are too many, if neither is taken before both are read."""
    stream, load = Instr(op=Op.STREAM, n=3, m=8), Instr(op=Op.LOAD, n=3, m=8)
    post = Instr(op=Op.SYNC, post=4)
    late = Instr(op=Op.LOAD, n=3, m=8, wait=4)
    hand_made(PAIR, [([stream, post, stream], [late, load], []), IDLE]).check("full")
    assert "deadlock" in complaint(
        hand_made(PAIR, [([stream, stream, post], [late, load], []), IDLE])
    )


def test_a_taker_of_beats_that_nobody_reads(hand_made: MakeProgram) -> None:
    memory = [Instr(op=Op.STREAM, n=1, m=8, wait=4)]
    compute = [Instr(op=Op.LOAD, n=1, m=8), Instr(op=Op.SYNC, post=4)]
    message = complaint(hand_made(PAIR, [(memory, compute, []), IDLE]))
    assert message in (
        "tile 0 compute instruction 0 (LOAD, stage): deadlock: waits for the beats of tile 0 "
        "memory instruction 0 (STREAM, stage) (at position 0)",
        "tile 0 memory instruction 0 (STREAM, stage): deadlock: waits for semaphore 4, which tile "
        "0 compute instruction 1 (SYNC, stage) posts, itself waiting (at position 0)",
    )


def test_no_beats_wait_for_nothing(hand_made: MakeProgram) -> None:
    memory = [Instr(op=Op.STREAM, m=8, wait=4)]
    compute = [Instr(op=Op.LOAD, m=8), Instr(op=Op.SYNC, post=4)]
    hand_made(PAIR, [(memory, compute, []), IDLE]).check("full")


def test_posts_that_nobody_takes(hand_made: MakeProgram) -> None:
    post = Instr(op=Op.SYNC, post=4)
    assert complaint(hand_made(PAIR, [([wait(4)], [post, post], []), IDLE])) == (
        "tile 0 compute instruction 1 (SYNC, stage): 1 of 2 posts of semaphore 4 of tile 0 are "
        "never taken (at position 0)"
    )
    assert complaint(
        hand_made(PAIR, [([], [], [put(9, 2)]), IDLE], descriptors=[[(1, 0, 0, 0)] * 2])
    ) == (
        "tile 0 network instruction 0 (PUT, stage): 2 of 2 posts of semaphore 9 of tile 1 are "
        "never taken (at position 0)"
    )


def test_a_fault_of_one_position(hand_made: MakeProgram) -> None:
    """At position 3 the wait is for two posts."""
    rule = StepRule(register=3, kind="position_high", span=3)
    codes: Any = [
        ([Instr(op=Op.SYNC, wait=4, wait_n=(1, 3))], [Instr(op=Op.SYNC, post=4)], []),
        IDLE,
    ]
    program = hand_made(PAIR, codes, rules=(rule,), context=4)
    program.check("full", [(2, 0)])
    assert complaint(program, 3).endswith(
        "2 posts of semaphore 4 are waited for, 1 sent (at position 3)"
    )


def test_an_execution_in_order(hand_made: MakeProgram) -> None:
    """Issues and ends of each engine alternate, and a wait comes after what it needs."""
    codes: Any = [([], [Instr(op=Op.SYNC, post=4)], [put(5, wait=4)]), ([], [wait(5)], [])]
    control = Control(hand_made(PAIR, codes, descriptors=[[(1, 0, 4, 0)]]), 0, 0)
    assert [(n.tile, n.engine.name, ends) for n, ends in control.events] == [
        (0, "COMPUTE", False),
        (0, "COMPUTE", True),
        (0, "NETWORK", False),
        (0, "NETWORK", True),
        (1, "COMPUTE", False),
        (1, "COMPUTE", True),
    ]
    assert control.nodes[2][0].puts == [[1, 0, 4, INBOX]]
    assert [(wait.key, wait.total) for wait in control.waits] == [((0, 4), 1), ((1, 5), 1)]
