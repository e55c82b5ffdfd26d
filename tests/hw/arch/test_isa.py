"""Instructions as words, as text and as values that are checked."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenpath.hw.arch import isa
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import (
    COLUMN,
    ENGINE_OPS,
    INSTRUCTION_BITS,
    LAYOUT,
    OPERAND_FIELDS,
    OPERANDS,
    STREAM_OPS,
    Engine,
    Field,
    Instr,
    Op,
    decode,
    disassemble,
    encode,
)


def limits(field: Field) -> tuple[int, int]:
    if field.signed:
        return -(2 ** (field.bits - 1)), 2 ** (field.bits - 1) - 1
    return 0, 2**field.bits - 1


rows = st.tuples(*(st.integers(*limits(field)) for field in LAYOUT))


@given(rows)
def test_a_word_has_all_of_its_row(row: tuple[int, ...]) -> None:
    word = encode(row)
    assert 0 <= word < 1 << INSTRUCTION_BITS
    assert decode(word) == row


@given(st.integers(0, (1 << INSTRUCTION_BITS) - 1))
def test_every_word_is_a_row(word: int) -> None:
    row = decode(word)
    assert encode(row) == word
    for field, value in zip(LAYOUT, row, strict=True):
        low, high = limits(field)
        assert low <= value <= high


def test_fields_lie_side_by_side_from_the_lowest_bit_on() -> None:
    at = 0
    for index, field in enumerate(LAYOUT):
        row = [0] * len(LAYOUT)
        row[index] = limits(field)[0] if field.signed else limits(field)[1]
        bits = encode(row)
        assert bits >> at and not bits & ((1 << at) - 1)
        at += field.bits
        assert not bits >> at
    assert at == INSTRUCTION_BITS


def test_the_layout_has_every_field_once() -> None:
    names = [field.name for field in LAYOUT]
    assert len(set(names)) == len(names)
    assert {name: names.index(name) for name in names} == COLUMN
    for name in OPERAND_FIELDS:
        assert COLUMN[f"{name}_reg"] == COLUMN[name] + 1, "executors read the register behind it"
    assert len(Op) <= 1 << LAYOUT[COLUMN["op"]].bits
    assert 1 << LAYOUT[COLUMN["n_reg"]].bits == isa.REGISTERS
    assert 1 << LAYOUT[COLUMN["wait"]].bits == isa.SEMAPHORES


def test_every_operation_has_an_engine_and_operands() -> None:
    assert set().union(*ENGINE_OPS.values()) == set(Op) == set(OPERANDS)
    for op in set(Op) - {Op.SYNC}:
        assert sum(op in ops for ops in ENGINE_OPS.values()) == 1
    assert all(Op.SYNC in ops for ops in ENGINE_OPS.values())
    assert ENGINE_OPS[Engine.COMPUTE] >= STREAM_OPS
    for names in OPERANDS.values():
        assert set(names) <= {*OPERAND_FIELDS, "q", "x", "y"} - {"wait_n"}


@given(st.sampled_from(sorted(Op)), st.data())
def test_an_instruction_takes_what_its_fields_hold(op: Op, data: st.DataObject) -> None:
    """Every operand of an operation, at any value: columns and word say the same."""
    values: dict[str, int | tuple[int, int]] = {}
    for name in OPERANDS[op]:
        field = LAYOUT[COLUMN[name]]
        plain = st.integers(*limits(field))
        values[name] = data.draw(
            plain | st.tuples(plain, st.integers(0, 255)) if name in OPERAND_FIELDS else plain
        )
    instruction = Instr(op=op, **values)  # type: ignore[arg-type]
    row = instruction.columns()
    assert decode(encode(row)) == row
    for name, value in values.items():
        immediate, register = value if isinstance(value, tuple) else (value, 0)
        assert row[COLUMN[name]] == immediate
        if name in OPERAND_FIELDS:
            assert row[COLUMN[f"{name}_reg"]] == register


@pytest.mark.parametrize("op", Op, ids=lambda op: op.name)
def test_an_instruction_refuses_operands_that_it_has_not(op: Op) -> None:
    others = {"dst", "src", "aux", "bux", "n", "m", "q", "x", "y"} - set(OPERANDS[op])
    for name in others:
        with pytest.raises(InputError, match=rf"^{op.name} has no operand {name} \(given 1\)$"):
            Instr(op=op, **{name: 1})
        if name in OPERAND_FIELDS:
            with pytest.raises(InputError, match=rf"^{op.name} has no operand {name} \(given 7\)$"):
                Instr(op=op, **{name: (0, 7)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("operands", "text"),
    [
        ({"n": 1 << 23}, "DOT: n 8388608 is outside -8388608..8388607"),
        ({"n": -(1 << 23) - 1}, "DOT: n -8388609 is outside -8388608..8388607"),
        ({"dst": 1 << 31}, "DOT: dst 2147483648 is outside -2147483648..2147483647"),
        ({"dst": (0, 256)}, "DOT: dst_reg 256 is outside 0..255"),
        ({"dst": (0, -1)}, "DOT: dst_reg -1 is outside 0..255"),
        ({"wait": 128}, "DOT: wait 128 is outside 0..127"),
        ({"post": -1}, "DOT: post -1 is outside 0..127"),
        ({"wait_n": (1 << 23, 3)}, "DOT: wait_n 8388608 is outside -8388608..8388607"),
        ({"x": 128}, "DOT: x 128 is outside -128..127"),
        ({"y": -129}, "DOT: y -129 is outside -128..127"),
    ],
)
def test_an_instruction_refuses_values_outside_their_field(
    operands: dict[str, int], text: str
) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(text)}$"):
        Instr(op=Op.DOT, **operands)


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (Instr(op=Op.SYNC), "sync     "),
        (Instr(op=Op.SYNC, wait=7, wait_n=(-1, 30), post=2), "sync       wait s7>=r30-1  post s2"),
        (Instr(op=Op.SYNC, wait=7, wait_n=0), "sync       wait s7>=0"),
        (
            Instr(op=Op.DOT, dst=(40, 5), src=2, n=(0, 9), m=128, x=16, y=3, wait=1),
            "dot      dst=r5+40 src=2 n=r9 m=128 x=16 y=3  wait s1>=1",
        ),
        (
            Instr(op=Op.PUT, src=-4, dst=2048, aux=(-6, 255), m=3, x=1, y=127, post=1),
            "put      src=-4 dst=2048 aux=r255-6 m=3 x=1 y=127  post s1",
        ),
        (Instr(op=Op.ARGPAIR, dst=6, src=8, n=16), "argpair  dst=6 src=8 n=16"),
    ],
)
def test_text_of_an_instruction(instruction: Instr, text: str) -> None:
    assert disassemble(instruction.columns()) == text


@pytest.mark.parametrize("op", Op, ids=lambda op: op.name)
def test_text_names_every_operand_of_an_operation(op: Op) -> None:
    instruction = Instr(op=op, **dict.fromkeys(OPERANDS[op], 1))
    words = disassemble(instruction.columns()).split()
    assert words == [op.name.lower(), *(f"{name}=1" for name in OPERANDS[op])]
