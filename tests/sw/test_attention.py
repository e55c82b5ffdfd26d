"""Attention on the tiles: KV rows in the right shard, windows, grouped queries, both finishes."""

import numpy as np
import pytest
from synthetic import small_model

from tokenpath.hw.arch.isa import COLUMN, Engine, Op
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import local_rows
from tokenpath.sim.golden import Machine
from tokenpath.sw.images import Store
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import plan
from tokenpath.sw.model.reference import Reference
from tokenpath.sw.quantise import scale_values

TINY = PRESETS["tiny"]
FEED = [3, 1, 4, 1, 5, 9, 2]


def fed(spec, mapping, feed=FEED):
    machine = Machine(lower(mapping, spec))
    return machine, [machine.step(token, at).logits for at, token in enumerate(feed)]


def paired(rows):
    """(..., head_dim) in the order of the hardware: rotary pairs side by side."""
    half = rows.shape[-1] // 2
    return np.stack([rows[..., :half], rows[..., half:]], axis=-1).reshape(rows.shape)


@pytest.mark.parametrize(
    ("topology", "shards", "page"), [("mesh:1x1", 1, 16), ("mesh:2x2", 2, 2), ("flat:4", 3, 1)]
)
def test_every_kv_row_is_in_its_shard(topology, shards, page):
    spec = small_model()
    mapping = plan(spec.shape, TINY.on(topology), kv_shards=shards, page=page)
    machine, _ = fed(spec, mapping)
    seen: dict[tuple[str, int], list[np.ndarray]] = {}

    def probe(what, layer, values):
        if what in "kv":
            seen.setdefault((what, layer), []).append(
                (paired(values) if what == "k" else values).copy()
            )

    reference = Reference(spec, probe=probe)
    for token in FEED:
        reference.step(token)
    store, team = Store(mapping), mapping.attention
    held = 0
    for tile in machine.tiles[: team.active]:
        rows = local_rows(len(FEED), team.member(tile.index), shards, page)
        for (name, layer), wanted in seen.items():
            for head in range(mapping.group_kv_heads):
                at = store.at[f"{layer}.{name}{head}"]
                got = tile.elements[at : at + mapping.rows_capacity, :4]
                scale = scale_values(tile.scales[at : at + mapping.rows_capacity, :1], 3)
                assert not got[rows:].any()  # the other rows belong to other shards
                for row in range(rows):
                    turn, inside = divmod(row, page)
                    position = (turn * shards + team.member(tile.index)) * page + inside
                    exact = wanted[position][team.group(tile.index) * mapping.group_kv_heads + head]
                    error = np.linalg.norm(got[row] * scale[row] - exact)
                    assert error < 0.06 * np.linalg.norm(exact), (name, layer, position)
                    held += 1
    assert held == len(FEED) * 2 * 2 * 2  # positions x (k, v) x layers x KV heads


@pytest.mark.parametrize("window", [1, 2, 5])
def test_a_window_forgets_what_is_behind_it(window):
    """Two feeds that differ in front of the window of the only layer give the same integers."""
    spec = small_model(layers=1, windows=(window,))
    mapping = plan(spec.shape, TINY, kv_shards=2, page=1)
    _, one = fed(spec, mapping)
    cut = len(FEED) - window
    _, other = fed(spec, mapping, [*(8 for _ in range(cut)), *FEED[cut:]])
    assert (one[-1] == other[-1]).all()
    assert (one[-2] != other[-2]).any()
    spec = small_model(layers=1)
    _, whole = fed(spec, plan(spec.shape, TINY, kv_shards=2, page=1))
    assert (whole[-1] != one[-1]).any()


@pytest.mark.parametrize(
    ("heads", "kv_heads", "streams"),
    [(2, 2, [(0, 0, 1), (1, 1, 1)]), (6, 2, [(0, 0, 2), (0, 2, 1), (1, 3, 2), (1, 5, 1)])],
    ids=["a head each", "three heads on two queries"],
)
def test_query_heads_share_the_streams_of_their_kv_head(heads, kv_heads, streams):
    """(KV head, first query head, query heads) of each stream, as SCORE and AXPY show them."""
    spec = small_model(heads=heads, kv_heads=kv_heads, layers=1)
    mapping = plan(spec.shape, TINY.on("mesh:1x1"))
    program, at = lower(mapping, spec, values=False), Store(mapping).at
    keys = [at[f"0.k{kv}"] for kv, _, _ in streams]
    values = [at[f"0.v{kv}"] for kv, _, _ in streams]
    code = program.code[0].engines
    kv_streams = [
        row[COLUMN["src"]]
        for row in code[Engine.MEMORY]
        if row[COLUMN["op"]] == Op.STREAM and row[COLUMN["src_reg"]] and row[COLUMN["m"]] == 4
    ]
    assert kv_streams == keys + values
    for op, field in ((Op.SCORE, "dst"), (Op.AXPY, "src")):
        rows = [row for row in code[Engine.COMPUTE] if row[COLUMN["op"]] == op]
        first = rows[0][COLUMN[field]]
        assert [(r[COLUMN[field]] - first, r[COLUMN["q"]]) for r in rows] == [
            (head, count) for _, head, count in streams
        ]
        slots = [r[COLUMN["bux"]] for r in rows]
        assert slots == [i * mapping.rows_capacity for i in range(len(streams))]


def test_both_finishes_agree_where_there_is_one_shard():
    spec = small_model()
    results = [
        fed(spec, plan(spec.shape, TINY.on("flat:2"), kv_shards=1, softmax=softmax))[1]
        for softmax in ("exact", "merge")
    ]
    assert (np.stack(results[0]) == np.stack(results[1])).all()


def test_a_shard_without_rows_adds_nothing():
    """The first position lies in one of four shards; the others answer for no rows."""
    spec = small_model(layers=1)
    for softmax in ("exact", "merge"):
        mapping = plan(spec.shape, TINY, kv_shards=4, page=16, softmax=softmax)
        _, logits = fed(spec, mapping, [5])
        _, alone = fed(spec, plan(spec.shape, TINY.on("mesh:1x1"), softmax=softmax), [5])
        assert (logits[0] == alone[0]).all()
