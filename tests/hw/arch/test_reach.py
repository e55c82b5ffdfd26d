"""The few steps that are looked at, against all steps."""

from collections.abc import Callable
from itertools import product
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import Program, StepRule
from tokenpath.hw.arch.reach import KV_RULES, SPLIT_RULES, TOKEN_RULES, Registers, flat

MakeProgram = Callable[..., Program]
POSITION_RULES = sorted(KV_RULES | SPLIT_RULES)
factors = st.integers(-3, 3)


def rules_of(kinds: list[str], spans: list[int], scales: list[int]) -> tuple[StepRule, ...]:
    return tuple(
        StepRule(register=1 + i, kind=kind, span=span, span2=2, scale=scale, offset=i)
        for i, (kind, span, scale) in enumerate(zip(kinds, spans, scales, strict=False))
    )


def every_value(program: Program, tile: int, steps: list[tuple[int, int]]) -> set[tuple[int, ...]]:
    """Values of all rules on a tile, one step after the other."""
    found = set()
    for position, token in steps:
        rows = program.step_registers(position, token)
        found.add(tuple(value for where, _, value in rows if where == tile))
    return found


def extremes(values: set[tuple[int, ...]], weights: tuple[int, ...]) -> tuple[int, int]:
    sums = [sum(w * v for w, v in zip(weights, row, strict=True)) for row in values]
    return min(sums), max(sums)


@settings(max_examples=40)
@example(["kv_first", "kv_rows"], [3, 3], [1, 1], 5, 2, 100)
@example(["kv_first", "kv_rows"], [24, 50], [1, 1], 16, 2, 200)
@example(["kv_next", "kv_append"], [1, 1], [0, 0], 5, 2, 100)
@example(["position_low", "kv_append"], [5, 1], [0, 0], 1, 2, 66)
@example(["position_high", "position_low"], [9, 9], [0, 0], 1, 1, 100)
@given(
    st.lists(st.sampled_from(POSITION_RULES), min_size=1, max_size=2),
    st.lists(st.integers(1, 90), min_size=2, max_size=2) | st.integers(1, 90).map(lambda n: [n, n]),
    st.lists(st.sampled_from([0, 1]), min_size=2, max_size=2),
    st.sampled_from([1, 2, 5, 16]),
    st.integers(1, 4),
    st.integers(1, 260),
)
def test_positions_have_the_extremes_of_every_sum(
    hand_made: MakeProgram,
    kinds: list[str],
    spans: list[int],
    windowed: list[int],
    page: int,
    shards: int,
    context: int,
) -> None:
    spans = [
        span if used or kind in SPLIT_RULES else 0
        for span, used, kind in zip(spans, windowed, kinds, strict=False)
    ]
    program = hand_made(
        PRESETS["tiny"].on("line:4"),
        [([], [], [])],
        rules=rules_of(kinds, spans, [1, 1]),
        shards_of=tuple(tile if tile < shards else -1 for tile in range(4)),
        shards=shards,
        page=page,
        context=context,
    )
    names, registers = tuple(range(1, 1 + len(kinds))), Registers(program)
    for tile in range(4):
        every = every_value(program, tile, [(p, 0) for p in range(context)])
        some = registers.of_tile(tile, names)
        assert some <= every
        for weights in product((-2, -1, 0, 1, 2), repeat=len(kinds)):
            assert extremes(some, weights) == extremes(every, weights)


@given(
    st.lists(st.sampled_from(sorted(TOKEN_RULES)), min_size=1, max_size=3),
    st.lists(st.integers(1, 9), min_size=3, max_size=3),
    st.lists(factors, min_size=3, max_size=3),
    st.integers(1, 40),
)
def test_tokens_have_the_extremes_of_every_register(
    hand_made: MakeProgram, kinds: list[str], spans: list[int], scales: list[int], vocab: int
) -> None:
    rules = rules_of(kinds, spans, scales)
    program = hand_made(PRESETS["tiny"], [([], [], [])], rules=rules, vocab=vocab)
    names, registers = tuple(range(1, 1 + len(kinds))), Registers(program)
    for tile in range(4):
        every = every_value(program, tile, [(0, t) for t in range(vocab)])
        some = registers.of_tile(tile, names)
        assert some <= every
        for at in range(len(kinds)):
            assert {min(row[at] for row in some), max(row[at] for row in some)} == {
                min(row[at] for row in every),
                max(row[at] for row in every),
            }


def test_an_owner_has_the_last_row(hand_made: MakeProgram) -> None:
    """Both registers of an embedding row move with the token: the owner and its row go together."""
    rules = rules_of(["token_owner", "token_row"], [7, 7], [1, 1])
    program = hand_made(PRESETS["tiny"], [([], [], [])], rules=rules, vocab=24)
    registers = Registers(program)
    for tile in range(3):
        assert {(1, 1), (1, 1 + 6)} <= registers.of_tile(tile, (1, 2))
    assert max(row for owns, row in registers.of_tile(3, (1, 2)) if owns) == 1 + 2


def test_large_contexts_need_few_steps(hand_made: MakeProgram) -> None:
    rules = rules_of(["kv_rows", "kv_first"], [4096, 4096], [1, 1])
    program = hand_made(
        PRESETS["tiny"], [([], [], [])], rules=rules, page=16, shards=64, context=1 << 20
    )
    assert len(Registers(program).of_tile(0, (1, 2))) < 300


def test_distinct_values_name_their_first_tile(hand_made: MakeProgram) -> None:
    values = {(0, 5): 7, (1, 5): 9, (2, 5): 7, (3, 5): -1}
    registers = Registers(hand_made(PRESETS["tiny"], [([], [], [])], registers=values))
    assert registers.of_class(0, (5,)) == {(7,): 0, (9,): 1, (-1,): 3}
    assert registers.of_class(0, ()) == {(): 0}
    assert registers.at_step(1, 0, 0)[5] == 9


def test_flat_buffers_keep_their_order() -> None:
    view = memoryview(bytes(range(24))).cast("h", (2, 2, 3))
    nested: Any = view.tolist()
    assert flat(view).tolist() == [x for plane in nested for row in plane for x in row]
    assert flat(memoryview(b"")).tolist() == []
