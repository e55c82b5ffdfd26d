"""Images of a tile: rows read back as instructions, registers folded in."""

from dataclasses import replace

import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import ENGINE_OPS, OPERANDS, Engine, Instr, Op
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import Code, Program, StepRule
from tokenpath.hw.load import SLOT_BITS, SLOTS, images, row_fields, step_slots


def program(network=(), rules=(), registers=None) -> Program:
    """One tile with code for the network engine, r1 = 7."""
    table = memoryview(bytearray(256 * 4)).cast("B").cast("i", (1, 256))
    for register, value in (registers or {1: 7}).items():
        table[0, register] = value
    put = memoryview(bytearray(2 * 16)).cast("B").cast("i", (1, 2, 4))
    words = memoryview(bytearray(8)).cast("B").cast("i", (2,))
    words[1] = -1
    code = Code(
        engines=((), (), tuple(i.columns() for i in network)),
        labels=((), (), ("test",) * len(network)),
    )
    return Program(
        arch=PRESETS["tiny"].on("mesh:1x1"), code=(code,), tile_code=(0,), registers=table,
        descriptors=put, vector_shared=words,
        vector_tile=memoryview(bytearray(4)).cast("B").cast("i", (1, 1)),
        elements=memoryview(bytes([1, 2, 3, 255, 0, 0, 0, 128])).cast("B").cast("b", (1, 1, 8)),
        scales=memoryview(b"\x05\x00\xff\xff").cast("B").cast("h", (1, 1, 2)),
        store_beats_used=1, rules=tuple(rules), shards_of=(-1,), shards=1, page=1, context=4,
        vocab=4, logits_at=0, logit_words=(0,), logit_first=(0,), result_tile=0, result_at=0,
    )  # fmt: skip


def read(row: int) -> dict[str, int]:
    """The fields of a row of the network engine."""
    values = {}
    for field in row_fields(Engine.NETWORK):
        value = row & ((1 << field.bits) - 1)
        if field.signed and value >> (field.bits - 1):
            value -= 1 << field.bits
        values[field.name], row = value, row >> field.bits
    return values


def test_rows_have_the_operands_of_their_engine() -> None:
    for engine in Engine:
        names = {field.name for field in row_fields(engine)}
        for op in ENGINE_OPS[engine]:
            assert names >= set(OPERANDS[op])
    assert "bux" not in {field.name for field in row_fields(Engine.NETWORK)}


def test_static_registers_are_folded_and_the_others_become_slots() -> None:
    put = Instr(op=Op.PUT, src=(-3, 1), dst=(5, 2), aux=1, m=(2, 0), x=1, y=9, wait=4, wait_n=3)
    rule = StepRule(register=2, kind="token_row", span=4, scale=10, offset=1)
    (image,) = images(program([put], [rule]))
    row = read(image.code[Engine.NETWORK][0])
    assert (row["src"], row["src_reg"]) == (4, 0)
    assert (row["dst"], row["dst_reg"]) == (5, 1)
    assert [row[name] for name in ("op", "wait", "wait_n", "aux", "m", "x", "y")] == [
        Op.PUT, 4, 3, 1, 2, 1, 9,
    ]  # fmt: skip
    assert step_slots(program([put], [rule]), position=0, token=6) == [[21] + [0] * (SLOTS - 1)]


def test_words_and_beats() -> None:
    (image,) = images(program())
    assert image.vector == [0, 0xFFFFFFFF, 0]
    assert image.store == [
        int.from_bytes(bytes([1, 2, 3, 255, 0, 0, 0, 128]), "little") | (5 | 0x7FF << 11) << 64
    ]
    assert len(image.descriptors) == 2


def test_more_step_rules_than_slots_are_refused() -> None:
    rules = [StepRule(register=r, kind="token_row", span=r) for r in range(1, SLOTS + 2)]
    assert SLOTS < 1 << SLOT_BITS
    with pytest.raises(InputError, match=r"has 17 registers that change.*a tile has 16"):
        next(images(program(rules=rules)))


def test_an_operand_that_its_field_does_not_hold_is_refused() -> None:
    put = Instr(op=Op.PUT, m=((1 << 23) - 1, 1))
    with pytest.raises(InputError, match=r"tile 0 network instruction 0 .*m 8388614 is outside"):
        next(images(program([put])))
    next(images(replace(program([put]), registers=program(registers={1: 0}).registers)))
