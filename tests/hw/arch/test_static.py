"""Each fault that needs no execution: its text, and that one unit less passes."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import COLUMN, Engine, Instr, Op
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import Program, StepRule

MakeProgram = Callable[..., Program]
TINY = PRESETS["tiny"]
SYNC = Instr(op=Op.SYNC)
R8, R9 = (0, 8), (0, 9)  # 7 on each tile, but 8 and 9 on tile 2
R4, R5 = (0, 4), (0, 5)
TAKERS = (Op.DOT, Op.SCORE, Op.AXPY, Op.LOAD)


def one(instruction: Instr) -> Any:
    """Code of all tiles: the instruction is number 1 of its engine."""
    engine = {Op.STREAM: 0, Op.APPEND: 0, Op.PUT: 2}.get(instruction.op, 1)
    queues: list[list[Instr]] = [[SYNC], [SYNC], [SYNC]]
    queues[engine].append(instruction)
    if instruction.op in TAKERS:
        queues[0].append(Instr(op=Op.STREAM, n=instruction.n, m=instruction.m))
    if instruction.op == Op.STREAM:
        queues[1].append(Instr(op=Op.LOAD, n=instruction.n, m=instruction.m))
    return [tuple(queues)]


def program_of(hand_made: MakeProgram, instruction: Instr) -> Program:
    descriptors = [[((tile + 1) % 4, 0, 4, 0)] * 8 for tile in range(4)]
    descriptors[3][7] = (4, 0, 4, 0)
    descriptors[1][6] = (0, 0, -1, 0)
    registers = {(tile, r): 7 for tile in range(4) for r in (8, 9)} | {(2, 9): 9, (2, 8): 8}
    return hand_made(TINY, one(instruction), descriptors=descriptors, registers=registers)


def complaint(program: Program) -> str:
    with pytest.raises(InputError) as caught:
        program.check()
    return str(caught.value)


CASES = """
DOT n=r8 m=8 dst=2040 | n=r9 | 2 | writes words 2040..2048; scratch
DOT n=1 m=8 src=15 | src=16 | 0 | reads operand beats 16; there are 0..15
DOT n=1 m=16 src=14 | m=17 | 0 | reads operand beats 14..16; there are 0..15
DOT n=1 m=8 | src=-1 | 0 | reads operand beats -1; there are 0..15
SCORE q=2 n=1 m=8 y=1 | q=3 | 0 | uses 3 queries; there are 2
SCORE q=1 n=r8 y=1 m=8 bux=248 | n=r9 | 2 | writes score rows 248..256; there are 0..255
SCORE q=1 n=1 y=1 m=8 dst=2047 | q=2 | 0 | writes words 2047..2048; scratch
SCORE q=1 n=1 y=1 m=8 src=15 | m=9 y=2 | 0 | reads operand beats 15..16; there are 0..15
AXPY q=2 n=1 m=8 aux=99 src=200 | q=3 | 0 | uses 3 queries; there are 2
AXPY q=1 n=1 m=16 aux=99 src=200 | m=17 | 0 | writes accumulator beats 0..2; there are 0..1
AXPY q=2 n=1 m=8 aux=99 dst=2032 | dst=2033 | 0 | writes words 2033..2048; scratch
AXPY q=2 n=1 m=8 aux=2046 src=200 | aux=2047 | 0 | writes words 2047..2048; scratch
AXPY q=2 n=1 m=8 aux=99 src=4094 | src=4095 | 0 | reads words 4095..4096; memory
AXPY q=1 n=1 m=8 aux=99 bux=255 src=200 | bux=256 | 0 | reads score rows 256; there are 0..255
LOAD n=r8 m=8 dst=1984 | n=r9 | 2 | writes words 1984..2055; scratch
QUANT n=8 m=2 | m=3 | 0 | uses 3 queries; there are 2
QUANT n=8 m=1 dst=15 | dst=16 | 0 | writes operand beats 16; there are 0..15
QUANT n=8 m=4 dst=4 y=1 | n=9 | 0 | writes append-buffer beats 4..11; there are 0..7
QUANT n=8 m=2 src=4080 | src=4081 | 0 | reads words 4081..4096; memory
QUANT n=8 m=1 | y=2 | 0 | y is 2; give 0 (operand memory) or 1 (append buffer)
SUM n=4 m=3 src=16 aux=2038 dst=1000 | aux=2039 | 0 | reads words 16..4097; memory
SUM n=4 m=3 aux=-4 src=8 dst=1000 | src=7 | 0 | reads words -1..10; memory
SUM n=4 m=1 q=1 bux=4092 dst=1000 | bux=4093 | 0 | reads words 4093..4096; memory
SUM n=4 m=1 dst=1000 | q=2 | 0 | q is 2; give 0 or 1
SUM n=4 m=1 dst=1000 | m=0 | 0 | has no slots; give m or q
SUM n=4 m=1 dst=1000 | n=r9-8 | 0 | n is -1; give 0 or more
MAX n=4 m=1 dst=2044 | dst=2048 | 0 | writes words 2048..2051; scratch
MAX n=4 q=1 | q=0 | 0 | has no slots; give m or q
RMS n=4 m=2 src=4088 dst=1000 | src=4089 | 0 | reads words 4089..4096; memory
RMS n=4 m=1 aux=4093 dst=1000 | aux=4094 | 0 | reads words 4094..4096; memory
RMS n=4 m=1 bux=4093 dst=1000 | q=1 | 0 | reads words 4093..4096; memory
SUM n=4 m=1 bux=4093 dst=1000 | q=1 | 0 | reads words 4093..4096; memory
RMS n=4 m=1 q=1 bux=4092 dst=1000 | bux=4093 | 0 | reads words 4093..4096; memory
RMS n=4 m=2 dst=2040 | dst=2041 | 0 | writes words 2041..2048; scratch
ROPE n=4 m=1 dst=1000 | n=5 | 0 | n is 5; give pairs of words
ROPE n=4 m=2 src=4088 dst=1000 | src=4089 | 0 | reads words 4089..4096; memory
ROPE n=4 m=1 aux=4092 dst=1000 | aux=4093 | 0 | reads words 4093..4096; memory
ROPE n=4 m=2 dst=2040 | m=3 | 0 | writes words 2040..2051; scratch
SILU n=4 x=8 src=4092 dst=1000 | src=4093 | 0 | reads words 4093..4096; memory
SILU n=4 x=8 aux=4092 dst=1000 | aux=4093 | 0 | reads words 4093..4096; memory
SILU n=4 x=8 dst=r8+2036 | dst=r9+2036 | 2 | writes words 2045..2048; scratch
DIV n=4 m=2 src=4088 dst=1000 | src=4089 | 0 | reads words 4089..4096; memory
DIV n=4 m=2 aux=4094 dst=1000 | aux=4095 | 0 | reads words 4095..4096; memory
DIV n=4 m=2 dst=2040 | dst=2041 | 0 | writes words 2041..2048; scratch
MERGE n=4 m=2 q=2 aux=4084 dst=1000 | aux=4085 | 0 | reads words 0..4096; memory
MERGE n=4 m=1 q=2 dst=2036 | dst=2037 | 0 | writes words 2037..2048; scratch
MERGE n=4 q=2 m=1 dst=1000 | m=0 | 0 | has no records; give m
ARGMAX n=1 dst=2046 | dst=2047 | 0 | writes words 2047..2048; scratch
ARGMAX n=2 src=4094 | src=4095 | 0 | reads words 4095..4096; memory
ARGPAIR n=2 src=4092 | src=4093 | 0 | reads words 4093..4096; memory
ARGPAIR n=1 dst=2046 | dst=2047 | 0 | writes words 2047..2048; scratch
SYNC wait=5 wait_n=r9-7 | wait_n=r9-8 | 0 | waits for -1 posts; give 0 or more
STREAM n=2 m=9 src=2044 | src=2045 | 0 | reads store beats 2045..2048; there are 0..2047
APPEND n=2 dst=2046 | dst=2047 | 0 | writes store beats 2047..2048; there are 0..2047
APPEND n=2 src=6 | src=7 | 0 | reads append-buffer beats 7..8; there are 0..7
PUT m=6 dst=2048 | m=r9 aux=1 | 1 | descriptor 6 has -1 words; give 0 or more
PUT m=2 aux=4 dst=2048 | m=5 | 0 | uses descriptors 4..8; there are 0..7
PUT m=1 dst=2048 | aux=-1 | 0 | uses descriptors -1; there are 0..7
PUT m=1 dst=2048 x=2 | x=3 | 0 | x is 3; give a PutOp, 0..2
PUT m=1 dst=2048 y=127 | y=-1 | 0 | y is -1; give a semaphore
PUT m=1 dst=2048 | dst=2047 | 0 | descriptor 0 writes words 2047..2050; inbox
PUT m=1 dst=4092 | dst=4093 | 0 | descriptor 0 writes words 4093..4096; inbox
PUT m=1 dst=2048 src=4092 | src=4093 | 0 | descriptor 0 reads words 4093..4096; memory
PUT m=1 dst=2048 | src=-1 | 0 | descriptor 0 reads words -1..2; memory
STREAM n=1 m=8 | m=0 | 0 | has 1 rows of no elements; give m, or an n of 0
DOT n=1 m=8 y=30 | y=31 | 0 | y is 31; give a headroom of 0..30
DOT n=1 m=8 | y=-1 | 0 | y is -1; give a headroom of 0..30
SCORE q=1 n=1 y=1 m=8 | m=9 | 0 | y is 1; 3 blocks of a row need a headroom of 2
AXPY q=1 n=4 m=8 aux=99 y=2 src=200 | n=5 | 0 | y is 2; 5 rows need a headroom of 3
QUANT n=8 m=1 x=121 | x=122 | 0 | x is 122; give -102..121 fraction bits
SILU n=4 x=22 dst=64 | x=23 | 0 | x is 23; give 6..22 fraction bits
SILU n=4 x=6 dst=64 | x=5 | 0 | x is 5; give 6..22 fraction bits
RMS n=4 m=1 aux=9 dst=64 | n=16385 | 0 | n is 16385; squares
SILU n=4 x=6 | aux=2 | 0 | writes words 0..3 and reads words 2..5; apart
SILU n=4 x=6 src=8 dst=4 | dst=5 | 0 | writes words 5..8 and reads words 8..11; apart
SUM n=4 m=3 aux=4 src=8 dst=12 | dst=13 | 0 | writes words 13..16 and reads words 8..19; apart
MERGE n=4 m=2 q=2 aux=12 dst=12 | dst=11 | 0 | writes words 11..22 and reads words 0..23; apart
ROPE n=4 m=2 aux=8 | aux=7 | 0 | writes words 0..7 and reads words 7..10; apart
DIV n=4 m=2 aux=8 | aux=7 | 0 | writes words 0..7 and reads words 7..8; apart
RMS n=4 m=2 aux=8 | aux=7 | 0 | writes words 0..7 and reads words 7..9; apart
RMS n=4 m=2 aux=8 q=1 bux=11 | bux=5 | 0 | writes words 0..7 and reads words 5..8; apart
AXPY q=2 n=1 m=8 dst=2 aux=18 | src=1 | 0 | writes words 2..17 and reads words 1..2; apart
AXPY q=2 n=1 m=8 dst=2 aux=18 | aux=17 | 0 | writes words 17..18 and writes words 2..17; apart
SUM n=4 m=1 src=2044 | src=2045 | 0 | reads words 2045..2048; begins
SUM n=4 m=2 aux=8 src=2040 | src=2037 | 0 | reads words 2045..2048; begins
PUT m=1 dst=2048 src=2044 | src=2045 | 0 | descriptor 0 reads words 2045..2048; begins
PUT m=1 dst=2048 | aux=7 | 3 | descriptor 7 goes to tile 4; there are 0..3
"""
"""Operation, its operands | those that are changed | the tile | what is said then."""


def operands(text: str) -> dict[str, Any]:
    """``n=3 dst=r9-8`` as keyword arguments of an Instr."""
    found: dict[str, Any] = {}
    for name, value in (word.split("=") for word in text.split()):
        register, plus = re.fullmatch(r"(?:r(\d+))?([+-]?\d*)", value).groups()  # type: ignore[union-attr]
        found[name] = (int(plus or 0), int(register)) if register else int(plus)
    return found


def said(text: str) -> str:
    """The end of a message that has the size of a memory of TINY."""
    for word, size in (
        ("scratch", "scratch has 0..2047"),
        ("memory", "there are 0..4095"),
        ("inbox", "the inbox has 2048..4095"),
        ("begins", "the inbox begins at 2048"),
        ("squares", "the squares of at most 16384 words fit their sum"),
        ("apart", "keep them apart, or let both begin at the same word"),
    ):
        text = text.removesuffix(word) + size if text.endswith(f"; {word}") else text
    return text


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_a_place_that_is_not_there_is_refused(hand_made: MakeProgram, case: str) -> None:
    given, change, tile, text = case.split(" | ")
    name, _, values = given.partition(" ")
    fine = Instr(op=Op[name], **operands(values))
    program_of(hand_made, fine).check()
    engine = {"STREAM": "memory", "APPEND": "memory", "PUT": "network"}.get(name, "compute")
    where = f"tile {tile} {engine} instruction 1 ({name}, stage)"
    message = complaint(program_of(hand_made, replace(fine, **operands(change))))
    assert message == f"{where}: {said(text)}"


def test_a_put_of_no_words_needs_no_place(hand_made: MakeProgram) -> None:
    put = Instr(op=Op.PUT, m=1, dst=9000, src=-9000)
    hand_made(TINY, [([], [], [put])], descriptors=[[(tile, 0, 0, 0)] for tile in range(4)]).check()


def test_every_put_is_looked_at(hand_made: MakeProgram) -> None:
    good, bad = Instr(op=Op.PUT, m=1, dst=2048), Instr(op=Op.PUT, m=1, dst=4093)
    runs = [[(0, 0, 4, 0)]] * 4
    hand_made(TINY, [([], [], [good, good])], descriptors=runs).check()
    message = complaint(hand_made(TINY, [([], [], [good, bad])], descriptors=runs))
    assert message.startswith(
        "tile 0 network instruction 1 (PUT, stage): descriptor 0 writes words"
    )


# --- fields ---


def broken(hand_made: MakeProgram, engine: Engine, **columns: int) -> str:
    """What is said about a SYNC with other values in its columns."""
    program = hand_made(TINY, [([SYNC], [SYNC], [SYNC])])
    row = list(program.code[0].engines[engine][0])
    for name, value in columns.items():
        row[COLUMN[name]] = value
    engines: Any = list(program.code[0].engines)
    engines[engine] = (tuple(row),)
    code = replace(program.code[0], engines=tuple(engines))
    return complaint(replace(program, code=(code,))).partition(" instruction 0 ")[2]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"op": 18}, "(operation 18, stage): there's no operation 18"),
        ({"op": 32}, "(operation 32, stage): op 32 is outside 0..31"),
        ({"op": int(Op.PUT)}, "(PUT, stage): the compute engine has no PUT"),
        ({"op": int(Op.STREAM)}, "(STREAM, stage): the compute engine has no STREAM"),
        ({"n": 3}, "(SYNC, stage): SYNC has no operand n (n is 3)"),
        ({"dst_reg": 3}, "(SYNC, stage): SYNC has no operand dst (dst_reg is 3)"),
        ({"y": -1}, "(SYNC, stage): SYNC has no operand y (y is -1)"),
        ({"wait": 128}, "(SYNC, stage): wait 128 is outside 0..127"),
        ({"post": -1}, "(SYNC, stage): post -1 is outside 0..127"),
        ({"q": 256}, "(SYNC, stage): q 256 is outside 0..255"),
        ({"wait_n_reg": 256}, "(SYNC, stage): wait_n_reg 256 is outside 0..255"),
        ({"op": int(Op.DOT), "x": 128}, "(DOT, stage): x 128 is outside -128..127"),
    ],
)
def test_a_field_is_refused(hand_made: MakeProgram, columns: dict[str, int], text: str) -> None:
    assert broken(hand_made, Engine.COMPUTE, **columns) == text


def test_engines_run_their_own_operations_only(hand_made: MakeProgram) -> None:
    for engine, op in ((Engine.MEMORY, Op.SUM), (Engine.NETWORK, Op.APPEND)):
        text = broken(hand_made, engine, op=int(op))
        assert text == f"({op.name}, stage): the {engine.name.lower()} engine has no {op.name}"


def test_a_semaphore_has_one_waiting_engine(hand_made: MakeProgram) -> None:
    wait = Instr(op=Op.SYNC, wait=5)
    hand_made(TINY, [([], [SYNC, wait, wait], [SYNC])]).check()
    assert complaint(hand_made(TINY, [([], [SYNC, wait], [wait])])) == (
        "tile 0 network instruction 0 (SYNC, stage): waits for semaphore 5, for which compute "
        "instruction 1 waits; give each engine its own"
    )


def test_classes_of_tiles_may_use_a_semaphore_differently(hand_made: MakeProgram) -> None:
    wait = Instr(op=Op.SYNC, wait=5)
    hand_made(TINY.on("line:2"), [([], [wait], []), ([], [], [wait])]).check()


def test_a_fault_names_the_tile_of_its_class(hand_made: MakeProgram) -> None:
    bad = Instr(op=Op.ARGMAX, n=1, dst=2047)
    program = hand_made(TINY.on("line:2"), [([], [SYNC], []), ([], [SYNC, bad], [])])
    assert complaint(program).startswith("tile 1 compute instruction 1 (ARGMAX, stage): ")


def test_register_0_reads_as_0(hand_made: MakeProgram) -> None:
    program = hand_made(TINY, [([], [], [])], registers={(2, 0): 1})
    assert complaint(program) == "program's register 0 isn't 0 on every tile; compile it again"


# --- streams ---


def test_streams_and_takers_have_the_same_beats_on_each_tile(hand_made: MakeProgram) -> None:
    stream, taker = Instr(op=Op.STREAM, n=R9, m=9), Instr(op=Op.LOAD, n=R8, m=16)
    registers = {(tile, r): 7 for tile in range(4) for r in (8, 9)}
    hand_made(TINY, [([stream], [taker], [])], registers=registers).check()
    registers[3, 9] = 6
    assert complaint(hand_made(TINY, [([stream], [taker], [])], registers=registers)) == (
        "tile 3 compute instruction 0 (LOAD, stage): takes 14 beats, and its STREAM (memory "
        "instruction 0) has 12"
    )


def test_streams_and_takers_pair_up(hand_made: MakeProgram) -> None:
    stream, taker = Instr(op=Op.STREAM, n=1, m=8), Instr(op=Op.LOAD, n=1, m=8)
    assert complaint(hand_made(TINY, [([stream], [taker, SYNC, taker], [])])) == (
        "tile 0 compute instruction 2 (LOAD, stage): there's no STREAM for it"
    )
    assert complaint(hand_made(TINY, [([stream, SYNC, stream], [taker], [])])) == (
        "tile 0 memory instruction 2 (STREAM, stage): no compute instruction takes its beats"
    )


# --- steps ---


def test_the_last_position_must_fit(hand_made: MakeProgram) -> None:
    rule = StepRule(register=4, kind="kv_next", scale=2)
    append = Instr(op=Op.APPEND, dst=(100, 4), n=2)
    values: dict[str, Any] = {"rules": (rule,), "context": 9, "store_beats_used": 118}
    hand_made(TINY, [([append], [], [])], **values).check()
    assert complaint(hand_made(TINY, [([append], [], [])], **values | {"context": 10})) == (
        "tile 0 memory instruction 0 (APPEND, stage): writes store beats 118..119; there are 0..117"
    )


def test_a_window_moves_with_its_rows(hand_made: MakeProgram) -> None:
    """The first row is large where the rows are few: both at their largest never come together."""
    rules = (
        StepRule(register=4, kind="kv_first", span=24),
        StepRule(register=5, kind="kv_rows", span=24),
    )
    queues: Any = ([Instr(op=Op.STREAM, src=R4, n=R5, m=8)], [Instr(op=Op.LOAD, n=R5, m=8)], [])
    values: dict[str, Any] = {"rules": rules, "page": 16, "shards": 2, "context": 100}
    values |= {"shards_of": (0, 1, 0, 1), "store_beats_used": 52}
    hand_made(TINY, [queues], **values).check()
    assert complaint(hand_made(TINY, [queues], **values | {"store_beats_used": 51})) == (
        "tile 0 memory instruction 0 (STREAM, stage): reads store beats 44..51; there are 0..50"
    )
