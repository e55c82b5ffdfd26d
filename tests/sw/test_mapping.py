"""Mapping: everything has exactly one place; what can't be placed is refused by its value."""

from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import local_rows
from tokenpath.sw.mapping import Arrangement, part, plan
from tokenpath.sw.model import ModelShape

TINY = PRESETS["tiny"]
SHAPE = ModelShape(
    name="nine",
    layers=2,
    d_model=24,
    heads=6,
    kv_heads=3,
    head_dim=4,
    ffn=13,
    vocab=31,
    context=40,
    norm_eps=1e-5,
    rope_theta=1e4,
    rope_pairing="half",
    tied=True,
)


def covers(spans, total):
    """Spans that follow one another from 0 to the total."""
    ends = [0, *(end for _, end in spans)]
    assert [first for first, _ in spans] == ends[:-1] and ends[-1] == total


@given(st.integers(0, 200), st.integers(1, 20))
def test_parts_cover_a_whole_and_differ_by_one_at_most(total, parts):
    spans = [part(total, parts, i) for i in range(parts)]
    covers(spans, total)
    sizes = [end - first for first, end in spans]
    assert max(sizes) - min(sizes) <= 1 and sizes == sorted(sizes, reverse=True)


digits = st.lists(st.integers(1, 4), min_size=0, max_size=2).map(tuple)


@given(digits, digits, st.integers(0, 3), st.integers(0, 50))
def test_an_arrangement(members, groups, idle, words):
    team = Arrangement(
        tiles=prod(members) * prod(groups) + idle, member_digits=members, group_digits=groups
    )
    tiles = range(team.active)
    assert [team.group(t) * team.members + team.member(t) for t in tiles] == list(tiles)
    assert [team.member(t) for t in range(team.active, team.tiles)] == [-1] * idle
    coordinates = [tuple(team.coordinate(t, d) for d in range(len(team.sizes))) for t in tiles]
    assert sorted(coordinates) == sorted(product(*map(range, team.sizes)))
    for tile, digit in product(tiles, range(len(team.sizes))):
        line = [team.peer(tile, digit, value) for value in range(team.sizes[digit])]
        assert [team.coordinate(t, digit) for t in line] == list(range(team.sizes[digit]))
        assert tile in line
    assert set(team.member_lines) | set(team.group_lines) == {
        d for d, size in enumerate(team.sizes) if size > 1
    }
    order = [*team.member_lines, *team.group_lines]
    spans = sorted(team.interval(t, order, words) for t in tiles)
    covers([s for s in spans if s[1] > s[0]], words)
    assert all(team.interval(t, order, words) == (0, 0) for t in range(team.active, team.tiles))


def holders(mapping, spans, group):
    """The spans of a group's tiles that hold something, in order."""
    team = mapping.attention
    mine = [s for t, s in enumerate(spans) if t < team.active and team.group(t) == group]
    return sorted(s for s in mine if s[1] > s[0])


@pytest.mark.parametrize("split", ["2d", "input", "output"])
@pytest.mark.parametrize("topology", ["mesh:1x1", "mesh:3x2", "torus:4x4", "flat:7"])
def test_every_row_of_every_matrix_has_one_tile(topology, split):
    mapping = plan(SHAPE, TINY.on(topology), split=split)
    tiles = range(mapping.arch.tiles)
    for group in range(mapping.attention.groups):
        covers(holders(mapping, [mapping.qkv_rows(t) for t in tiles], group), mapping.qkv_words)
        covers(holders(mapping, [mapping.output_rows(t) for t in tiles], group), SHAPE.d_model)
    hidden = [
        (mapping.hidden_slice(t)[0] + first, mapping.hidden_slice(t)[0] + end)
        for t in tiles
        for first, end in [mapping.hidden_rows(t)]
    ]
    covers(sorted(s for s in hidden if s[1] > s[0]), 16)  # 13 units, padded to blocks of 4
    assert all(end % 4 == 0 and first % 4 == 0 for first, end in map(mapping.hidden_slice, tiles))
    empty = [t for t in tiles if len(set(mapping.hidden_slice(t))) == 1]
    assert all(mapping.down_rows(t) == (0, 0) for t in empty)
    weights = sum(
        (end - first) * (mapping.hidden_slice(t)[1] - mapping.hidden_slice(t)[0])
        for t in tiles
        for first, end in [mapping.down_rows(t)]
    )
    assert weights == SHAPE.d_model * 16
    covers([mapping.vocab_span(t) for t in tiles], SHAPE.vocab)


def test_the_default_plan():
    mapping = plan(SHAPE, TINY.on("mesh:4x4"))
    assert (mapping.attention.groups, mapping.attention.members) == (3, 5)
    assert (mapping.hidden.member_digits, mapping.hidden.group_digits) == ((4,), (4,))
    assert (mapping.group_heads, mapping.group_kv_heads, mapping.context) == (2, 1, 40)
    assert (mapping.softmax, mapping.reduce, mapping.split, mapping.page) == (
        *("exact", "direct"),
        *("2d", 16),
    )
    assert plan(SHAPE, TINY.on("mesh:1x1")).attention.groups == 1
    eight = plan(SHAPE, TINY.on("mesh:4x4"), kv_shards=8).attention
    assert (eight.member_digits, eight.group_digits, eight.active) == ((4, 2), (1,), 8)


def test_groups_end_on_blocks():
    """The output projection of a group contracts over whole blocks."""
    narrow = replace(SHAPE, heads=3, head_dim=2)
    assert plan(narrow, TINY.on("flat:6")).attention.groups == 1
    assert plan(replace(narrow, heads=6), TINY.on("flat:6")).attention.groups == 3


@pytest.mark.parametrize(("members", "page"), [(1, 4), (3, 2), (8, 16), (5, 1)])
def test_capacity_is_that_of_the_fullest_shard(members, page):
    for context in (1, 2, 16, 17, 39, 40):
        mapping = plan(SHAPE, TINY.on("flat:8"), kv_shards=members, page=page, context=context)
        rows = [local_rows(context, shard, members, page) for shard in range(members)]
        assert mapping.rows_capacity == max(rows) and sum(rows) == context


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kv_shards": 0}, "0 KV shards on 4 tiles; give 1..4 or a larger topology"),
        ({"kv_shards": 5}, "5 KV shards on 4 tiles; give 1..4 or a larger topology"),
        ({"split": "3d"}, "unknown split '3d'; give 2d, input, output"),
        ({"softmax": "fast"}, "unknown softmax 'fast'; give exact, merge"),
        ({"reduce": "tree"}, "unknown reduce 'tree'; give direct, ring, oneshot"),
        ({"context": 41}, "context 41 is outside 1..40, what nine was trained for"),
        ({"context": 0}, "context 0 is outside 1..40, what nine was trained for"),
        ({"page": 0}, "page 0 is not a number of positions; give 1 or more, 16 is usual"),
        ({"residual_frac": 21}, "residual_frac 21 is outside 6..20; 14 is usual"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(InputError) as refusal:
        plan(SHAPE, TINY, **options)
    assert str(refusal.value) == message
