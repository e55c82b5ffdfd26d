"""What a program says of itself: registers of a step, instructions, names."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenpath.hw.arch.isa import REGISTERS, Engine, Instr, Op
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import Program, StepRule, local_rows

MakeProgram = Callable[..., Program]


@given(st.integers(0, 200), st.integers(1, 5), st.integers(1, 17))
def test_pages_go_round_robin_over_the_shards(positions: int, shards: int, page: int) -> None:
    owners = [position // page % shards for position in range(positions)]
    for shard in range(shards):
        assert local_rows(positions, shard, shards, page) == owners.count(shard)


def rows_by_hand(position: int, shard: int, shards: int, page: int, window: int) -> list[int]:
    """Rows of a shard that a step attends to: the cache is written out, nothing is computed."""
    cache = [p for p in range(position + 1) if p // page % shards == shard]
    return [row for row, p in enumerate(cache) if not window or p > position - window]


@given(
    st.integers(0, 150),
    st.integers(0, 3),
    st.sampled_from([1, 2, 5, 16]),
    st.sampled_from([0, 1, 3, 24, 500]),
)
def test_kv_rules_are_the_rows_of_the_cache(
    position: int, shard: int, page: int, window: int
) -> None:
    def value(kind: str, of: int = shard) -> int:
        rule = StepRule(register=1, kind=kind, span=window)
        return rule.value(position=position, token=0, tile=0, shard=of, shards=4, page=page)

    rows = rows_by_hand(position, shard, 4, page, window)
    assert value("kv_rows") == len(rows)
    if rows:
        assert value("kv_first") == rows[0]
    owner = position // page % 4
    assert value("kv_append") == (owner == shard)
    if owner == shard:
        assert value("kv_next") == rows[-1]
    for kind in ("kv_rows", "kv_first", "kv_append", "kv_next"):
        assert value(kind, of=-1) == 0


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        (StepRule(register=1, kind="token_row", span=10), [7, 7, 7, 7]),
        (StepRule(register=1, kind="token_owner", span=10), [0, 0, 1, 0]),
        (StepRule(register=1, kind="token_group", span=10, span2=2), [0, 0, 1, 1]),
        (StepRule(register=1, kind="position_high", span=4), [3, 3, 3, 3]),
        (StepRule(register=1, kind="position_low", span=4), [2, 2, 2, 2]),
        (StepRule(register=1, kind="position_low", span=4, scale=-3, offset=5), [-1, -1, -1, -1]),
        (StepRule(register=1, kind="kv_append", scale=6, offset=1), [1, 7, 1, 1]),
    ],
)
def test_a_step_sets_its_registers(
    hand_made: MakeProgram, rule: StepRule, values: list[int]
) -> None:
    program = hand_made(
        PRESETS["tiny"],
        [([], [], [])],
        rules=(rule,),
        page=4,
        shards=2,
        shards_of=(0, 1, -1, 0),
        context=16,
        vocab=40,
    )
    assert list(program.step_registers(14, 27)) == [(tile, 1, v) for tile, v in enumerate(values)]


def test_an_unknown_rule_has_no_value() -> None:
    with pytest.raises(ValueError, match="unknown step rule 'tide'"):
        StepRule(register=1, kind="tide").value(
            position=0, token=0, tile=0, shard=0, shards=1, page=1
        )


def test_tiles_have_the_code_of_their_class(hand_made: MakeProgram) -> None:
    load, sync = Instr(op=Op.LOAD), Instr(op=Op.SYNC, post=3)
    arch = PRESETS["tiny"].on("line:2")
    program = hand_made(arch, [([], [load], []), ([sync], [], [])], tile_code=(1, 0))
    assert program.tiles == 2
    assert program.instructions(0, Engine.MEMORY) == (sync.columns(),)
    assert program.instructions(1, Engine.COMPUTE) == (load.columns(),)
    assert program.instructions(0, Engine.COMPUTE) == ()
    assert program.where(0, Engine.MEMORY, 0) == "tile 0 memory instruction 0 (SYNC, stage)"
    assert program.where(1, Engine.COMPUTE, 0) == "tile 1 compute instruction 0 (LOAD, stage)"


def test_shapes_follow_from_the_machine(program: Program) -> None:
    assert program.shapes() == {
        "registers": (2, REGISTERS),
        "descriptors": (2, 1, 4),
        "vector_shared": (3,),
        "vector_tile": (2, 2),
        "elements": (2, 3, 8),
        "scales": (2, 3, 2),
    }
