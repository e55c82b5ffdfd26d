"""Races by hand: each with its text, and the same program with the order that was missing."""

from collections.abc import Callable
from typing import Any

import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import Instr, Op, PutOp
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import Program

MakeProgram = Callable[..., Program]
TRIO = PRESETS["tiny"].on("line:3")
IDLE: Any = ([], [], [])
INBOX = TRIO.scratch_words


def wait(semaphore: int, count: int = 1, post: int = 0) -> Instr:
    return Instr(op=Op.SYNC, wait=semaphore, wait_n=count, post=post)


def read(src: int, n: int = 4, **more: int) -> Instr:
    """Words into the first of scratch."""
    return Instr(op=Op.SUM, src=src, n=n, m=1, **more)


def write(dst: int, n: int = 4, **more: int) -> Instr:
    return Instr(op=Op.SUM, dst=dst, src=64, n=n, m=1, **more)


def put(semaphore: int = 5, x: PutOp = PutOp.STORE, **more: int) -> Instr:
    """Four words from 32 on (descriptor 0) to the front of the inbox."""
    return Instr(op=Op.PUT, src=32, dst=INBOX, y=semaphore, x=int(x), **{"m": 1, **more})


def complaint(program: Program) -> str:
    """What the full check says; "" if nothing."""
    try:
        program.check("full", [(0, 0)])
    except InputError as error:
        return str(error)
    return ""


def trio(hand_made: MakeProgram, *codes: Any, **more: Any) -> Program:
    """Three tiles; each one's descriptor 0 is a put of four words to tile 2."""
    runs = [[(2, 0, 4, 0), (2, 0, 4, 8)]] * 3
    padded = [*codes, *[IDLE] * (3 - len(codes))]
    return hand_made(TRIO, padded, **{"descriptors": runs, **more})


# --- arrivals ---


def test_words_are_read_while_they_arrive(hand_made: MakeProgram) -> None:
    sender: Any = ([], [], [put()])
    early: Any
    late: Any
    early, late = ([], [read(INBOX), wait(5)], []), ([], [wait(5), read(INBOX)], [])
    assert complaint(trio(hand_made, sender, IDLE, late)) == ""
    assert complaint(trio(hand_made, sender, IDLE, early)) in (
        "tile 2: compute instruction 0 (SUM, stage) reads words 2048..2051 while the put of tile 0 "
        "network instruction 0 (PUT, stage) may write them (at position 0)",
        "tile 2 compute instruction 0 (SUM, stage): reads words 2048..2051, which no put of the "
        "step has written before (at position 0)",
    )


def test_a_part_of_the_words_is_enough(hand_made: MakeProgram) -> None:
    sender: Any = ([], [], [put()])
    runs = [[(2, 0, 4, 4)], [], [(2, 0, 4, 0)]]
    beside: Any = ([], [wait(6), read(INBOX), wait(5), read(INBOX + 7, n=1)], [put(6)])
    assert complaint(trio(hand_made, sender, IDLE, beside, descriptors=runs)) == ""
    overlapping: Any = ([], [wait(6), read(INBOX + 1), wait(5)], [put(6)])
    assert "words 2052" in complaint(trio(hand_made, sender, IDLE, overlapping, descriptors=runs))


def test_between_two_slots_others_may_write(hand_made: MakeProgram) -> None:
    """Slots of four words, eight apart; the second tile writes behind the first of them."""
    runs = [[(2, 0, 4, 0), (2, 0, 4, 8)], [(2, 0, 4, 4)]]
    senders: Any = [([], [], [put(m=2)]), ([], [], [put(6)])]
    slots = Instr(op=Op.SUM, src=INBOX, aux=8, n=4, m=2, wait=5, wait_n=2)
    apart: Any = ([], [slots, wait(6)], [])
    assert complaint(trio(hand_made, *senders, apart, descriptors=runs)) == ""
    close = Instr(op=Op.SUM, src=INBOX, aux=4, n=4, m=3, wait=5, wait_n=2)
    joined: Any = ([], [close, wait(6)], [])
    assert "reads words 2052..2055" in complaint(
        trio(hand_made, *senders, joined, descriptors=runs)
    )


def test_waiting_for_one_of_two_senders_is_too_little(hand_made: MakeProgram) -> None:
    first: Any = ([], [], [put()])
    second: Any = ([], [], [put(aux=1)])
    both: Any = ([], [wait(5, 2), read(INBOX), read(INBOX + 8)], [])
    one: Any = ([], [wait(5), read(INBOX), wait(5)], [])
    assert complaint(trio(hand_made, first, second, both)) == ""
    assert complaint(trio(hand_made, first, second, one)) == (
        "tile 2: compute instruction 1 (SUM, stage) reads words 2048..2051 while the put of tile 0 "
        "network instruction 0 (PUT, stage) may write them (at position 0)"
    )


def test_puts_of_one_tile_arrive_in_order(hand_made: MakeProgram) -> None:
    """The first put posts nothing: who waits for the second knows of both."""
    sender: Any = ([], [], [put(0), put(aux=1)])
    assert complaint(trio(hand_made, sender, IDLE, ([], [wait(5), read(INBOX)], []))) == ""
    turned: Any = ([], [], [put(aux=1), put(0)])
    message = complaint(trio(hand_made, turned, IDLE, ([], [wait(5), read(INBOX)], [])))
    assert "reads words 2048..2051 while the put of tile 0 network instruction 1" in message


def test_two_tiles_write_the_same_words(hand_made: MakeProgram) -> None:
    receiver: Any = ([], [wait(5, 2)], [])
    message = complaint(trio(hand_made, ([], [], [put()]), ([], [], [put()]), receiver))
    assert message == (
        "tile 2: the put of tile 1 network instruction 0 (PUT, stage) writes words 2048..2051 "
        "while the put of tile 0 network instruction 0 (PUT, stage) may write them (at position 0)"
    )
    same: Any = ([], [], [put(), put()])
    assert complaint(trio(hand_made, same, IDLE, receiver)) == ""


@pytest.mark.parametrize(
    ("first", "second", "race"),
    [
        (PutOp.ADD, PutOp.ADD, ""),
        (PutOp.MAX, PutOp.MAX, ""),
        (PutOp.ADD, PutOp.MAX, "raises words 2048..2051 while"),
        (PutOp.MAX, PutOp.ADD, "adds to words 2048..2051 while"),
        (PutOp.ADD, PutOp.STORE, "may add to them"),
        (PutOp.STORE, PutOp.MAX, "may write them"),
    ],
)
def test_only_equal_combinations_come_in_any_order(
    hand_made: MakeProgram, first: PutOp, second: PutOp, race: str
) -> None:
    receiver: Any = ([], [wait(5, 2), read(INBOX)], [])
    senders: Any = [([], [], [put(x=first)]), ([], [], [put(x=second)])]
    message = complaint(trio(hand_made, *senders, receiver))
    assert race in message
    assert bool(message) == bool(race)


def test_a_sum_is_read_when_all_of_it_is_there(hand_made: MakeProgram) -> None:
    senders: Any = [([], [], [put(x=PutOp.ADD)])] * 2
    receiver: Any = ([], [wait(5), read(INBOX), wait(5)], [])
    assert "may add to them" in complaint(trio(hand_made, *senders, receiver))


def test_a_reader_holds_up_the_next_arrival(hand_made: MakeProgram) -> None:
    """The second put must know that the first one's words have been read."""
    sender: Any = ([], [], [put(), put(wait=7)])
    tell = Instr(op=Op.PUT, dst=INBOX, m=1, aux=2, y=7)
    runs = [[(2, 0, 4, 0)] * 2, [], [(2, 0, 4, 0)] * 2 + [(0, 0, 0, 0), (0, 0, 0, 0)]]
    waits = [wait(5), read(INBOX, post=8), wait(5), read(INBOX)]
    told: Any = ([], waits, [Instr(op=Op.SYNC, wait=8), tell])
    assert complaint(trio(hand_made, sender, IDLE, told, descriptors=runs)) == ""
    hasty: Any = ([], waits, [tell, Instr(op=Op.SYNC, wait=8)])
    assert complaint(trio(hand_made, sender, IDLE, hasty, descriptors=runs)) == (
        "tile 2: compute instruction 1 (SUM, stage) reads words 2048..2051 while the put of tile 0 "
        "network instruction 1 (PUT, stage) may write them (at position 0)"
    )


# --- sources ---


def test_words_are_written_while_they_are_sent(hand_made: MakeProgram) -> None:
    receiver: Any = ([], [wait(5)], [])
    after: Any = ([], [wait(4), write(32)], [put(post=4)])
    assert complaint(trio(hand_made, after, IDLE, receiver)) == ""
    before: Any = ([], [write(32, post=4)], [put(wait=4)])
    assert complaint(trio(hand_made, before, IDLE, receiver)) == ""
    during: Any = ([], [write(33, post=4), wait(6)], [put(post=6), wait(4)])
    assert complaint(trio(hand_made, during, IDLE, receiver)) in (
        "tile 0: network instruction 0 (PUT, stage) reads words 33..35 while compute instruction 0 "
        "(SUM, stage) may write them (at position 0)",
        "tile 0: compute instruction 0 (SUM, stage) writes words 33..35 while network instruction "
        "0 (PUT, stage) may read them (at position 0)",
    )


def test_an_arrival_says_that_its_words_were_sent(hand_made: MakeProgram) -> None:
    """Of a put of two runs the first has been read when it has arrived, the second not yet."""
    runs = [[(2, 0, 4, 0), (1, 4, 4, 0)], [], [(0, 0, 0, 0)]]
    tell = Instr(op=Op.PUT, dst=INBOX, m=1, y=4, wait=5)
    others: Any = [([], [wait(5)], []), ([], [], [tell])]
    first: Any = ([], [wait(4), write(32)], [put(m=2)])
    assert complaint(trio(hand_made, first, *others, descriptors=runs)) == ""
    second: Any = ([], [wait(4), write(36)], [put(m=2)])
    assert "words 36..39 while" in complaint(trio(hand_made, second, *others, descriptors=runs))


def test_a_put_onto_its_own_source(hand_made: MakeProgram) -> None:
    runs = [[], [], [(2, 0, 4, 0), (2, 0, 4, 2)]]
    fill, copy = put(), Instr(op=Op.PUT, src=INBOX, dst=INBOX, m=1, aux=1, y=6, wait=5)
    assert complaint(
        trio(hand_made, IDLE, IDLE, ([], [wait(6)], [fill, copy]), descriptors=runs)
    ) == (
        "tile 2: network instruction 1 (PUT, stage) reads words 2050..2051 while the put of tile 2 "
        "network instruction 1 (PUT, stage) may write them (at position 0)"
    )
    runs[2][1] = (2, 0, 4, 4)
    assert (
        complaint(trio(hand_made, IDLE, IDLE, ([], [wait(6)], [fill, copy]), descriptors=runs))
        == ""
    )


# --- the inbox is filled ---


def test_words_that_nobody_sent(hand_made: MakeProgram) -> None:
    receiver: Any = ([], [wait(5), read(INBOX, n=6)], [])
    program = trio(hand_made, ([], [], [put()]), IDLE, receiver)
    assert complaint(program) == (
        "tile 2 compute instruction 1 (SUM, stage): reads words 2052..2053, which no put of the "
        "step has written before (at position 0)"
    )
    nothing: Any = ([], [read(INBOX, n=1)], [])
    assert "reads words 2048, which" in complaint(trio(hand_made, nothing))


def test_only_the_inbox_has_to_be_filled(hand_made: MakeProgram) -> None:
    """One read to the end of scratch, a part of which is sent, and of the front of the inbox."""
    runs = [[(2, 0, 4, 0)], [], [(0, INBOX - 8 - 32, 4, 8)]]
    across = Instr(op=Op.SUM, src=INBOX - 8, aux=4, n=4, m=3, wait=5)
    receiver: Any = ([], [across], [put(6)])
    sender: Any = ([], [wait(6)], [put()])
    assert complaint(trio(hand_made, sender, IDLE, receiver, descriptors=runs)) == ""
    runs[0][0] = (2, 0, 4, 4)
    longer: Any = ([], [Instr(op=Op.SUM, src=INBOX - 8, aux=4, n=4, m=4, wait=5)], [put(6)])
    assert complaint(trio(hand_made, sender, IDLE, longer, descriptors=runs)) == (
        "tile 2 compute instruction 0 (SUM, stage): reads words 2048..2051, which no put of the "
        "step has written before (at position 0)"
    )


def test_idle_tiles_may_take_part_without_words(hand_made: MakeProgram) -> None:
    idle: Any = ([], [read(INBOX, n=6)], [])
    assert complaint(trio(hand_made, idle, shards_of=(-1, 0, 0))) == ""
    partly: Any = ([], [wait(5), read(INBOX, n=6)], [])
    message = complaint(trio(hand_made, ([], [], [put()]), IDLE, partly, shards_of=(-1, -1, -1)))
    assert "reads words 2052..2053, which no put" in message


# --- the other memories ---


def test_the_append_buffer_is_written_while_it_is_read(hand_made: MakeProgram) -> None:
    quant = Instr(op=Op.QUANT, n=8, m=2, y=1)
    append = Instr(op=Op.APPEND, src=1, n=1, wait=4)
    done = Instr(op=Op.APPEND, src=1, n=1, wait=4, post=5)
    filled = Instr(op=Op.QUANT, n=8, m=2, y=1, post=4)
    assert complaint(trio(hand_made, ([append], [filled], []))) == ""
    assert complaint(trio(hand_made, ([done], [filled, wait(5), quant], []))) == ""
    assert complaint(trio(hand_made, ([append], [filled, quant], []))) in (
        "tile 0: compute instruction 1 (QUANT, stage) writes append-buffer beats 1 while memory "
        "instruction 0 (APPEND, stage) may read them (at position 0)",
        "tile 0: memory instruction 0 (APPEND, stage) reads append-buffer beats 1 while compute "
        "instruction 1 (QUANT, stage) may write them (at position 0)",
    )


def test_a_row_is_appended_while_its_stream_is_not_taken(hand_made: MakeProgram) -> None:
    stream, load = Instr(op=Op.STREAM, src=3, n=2, m=8), Instr(op=Op.LOAD, n=2, m=8)
    append = Instr(op=Op.APPEND, dst=4, n=1)
    assert complaint(trio(hand_made, ([append, stream], [load], []))) == ""
    told = [Instr(op=Op.LOAD, n=2, m=8, post=4)]
    late = Instr(op=Op.APPEND, dst=4, n=1, wait=4)
    assert complaint(trio(hand_made, ([stream, late], told, []))) == ""
    assert complaint(trio(hand_made, ([stream, append], [load], []))) == (
        "tile 0: memory instruction 1 (APPEND, stage) writes store beats 4 while memory "
        "instruction 0 (STREAM, stage) may read them (at position 0)"
    )
    soon = [Instr(op=Op.SYNC, post=4), Instr(op=Op.SYNC), *told]
    too_soon = complaint(trio(hand_made, ([stream, late, wait(4)], soon, [])))
    assert "memory instruction 1 (APPEND, stage) writes store beats 4 while" in too_soon
    beside: Any = Instr(op=Op.APPEND, dst=5, n=1)
    assert complaint(trio(hand_made, ([stream, beside], [load], []))) == ""


def test_the_beats_order_the_engines(hand_made: MakeProgram) -> None:
    """An operation that has taken a STREAM comes after all that the memory engine did before it."""
    quant, append = Instr(op=Op.QUANT, n=8, m=1, y=1), Instr(op=Op.APPEND, dst=90, n=1, wait=4)
    filled = Instr(op=Op.QUANT, n=8, m=1, y=1, post=4)
    for rows, race in ((1, False), (0, True)):
        stream, load = Instr(op=Op.STREAM, n=rows, m=8), Instr(op=Op.LOAD, n=rows, m=8)
        program = trio(hand_made, ([append, stream], [filled, load, quant], []))
        assert bool(complaint(program)) == race
    early = trio(
        hand_made,
        ([append, Instr(op=Op.STREAM, n=1, m=8)], [filled, quant, Instr(op=Op.LOAD, n=1, m=8)], []),
    )
    assert "append-buffer" in complaint(early)
