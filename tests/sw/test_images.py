"""Images: each weight where the program reads it, rows in hardware order, honest remedies."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import small_model, small_shape

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.numeric import LOG2E, ZERO_EXPONENT
from tokenpath.hw.arch.params import PRESETS
from tokenpath.sw import images
from tokenpath.sw.mapping import plan
from tokenpath.sw.quantise import scale_values

TINY = PRESETS["tiny"]
LANES, BLOCK = TINY.lanes, TINY.numeric.block


def rotate(heads, angles, pairs):
    """RoPE of (heads, dim) by the angle of each pair of elements."""
    out = heads.copy()
    for (a, b), angle in zip(pairs, angles, strict=True):
        out[:, a] = heads[:, a] * np.cos(angle) - heads[:, b] * np.sin(angle)
        out[:, b] = heads[:, b] * np.cos(angle) + heads[:, a] * np.sin(angle)
    return out


@pytest.mark.parametrize("dim", [2, 4, 10])
def test_pairing_keeps_scores(dim):
    """Scores of pairs (i, i + half) are those of permuted rows in pairs (2i, 2i + 1)."""
    rng, half = np.random.default_rng(dim), dim // 2
    q, k = rng.normal(size=(2, 3, dim))
    angles_q, angles_k = rng.normal(size=(2, half))
    apart = [(i, i + half) for i in range(half)]
    together = [(2 * i, 2 * i + 1) for i in range(half)]
    wanted = (rotate(q, angles_q, apart) * rotate(k, angles_k, apart)).sum(axis=1)
    q2, k2 = (images.pair_rows(x.reshape(-1), dim, "half").reshape(3, dim) for x in (q, k))
    got = (rotate(q2, angles_q, together) * rotate(k2, angles_k, together)).sum(axis=1)
    assert np.allclose(got, wanted)
    assert images.pair_rows(q, dim, "adjacent") is q
    matrix = rng.normal(size=(3 * dim, 5))
    assert (
        images.pair_rows(matrix, dim, "half")[:, 2]
        == images.pair_rows(matrix[:, 2].copy(), dim, "half")
    ).all()


class Image:
    """The store of every tile, read as a program reads it."""

    def __init__(self, store, spec):
        images.fill_store(store, spec)
        self.store, self.read = store, set()
        k = store.arch.numeric.weight.mantissa_bits
        self.scales = np.repeat(scale_values(store.scales.astype(np.int32), k), BLOCK, axis=2)
        self.words = store.elements * self.scales

    def row(self, tile, name, row, width):
        """(values, scales) of row ``row`` of ``width`` elements; what pads its beats is zero."""
        beats = self.store.arch.row_beats(width)
        at = self.store.at[name] + row * beats
        self.read |= {(tile, beat) for beat in range(at, at + beats)}
        values, scales = (x[tile, at : at + beats].reshape(-1) for x in (self.words, self.scales))
        assert not values[width:].any()
        return values[:width], scales[:width]

    def holds(self, tile, name, row, wanted):
        values, scales = self.row(tile, name, row, len(wanted))
        assert np.all(np.abs(values - wanted) <= scales * 0.501), f"tile {tile} {name} row {row}"


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("topology", "options"),
    [
        ("mesh:1x1", {}),
        ("mesh:3x2", {"split": "output", "kv_shards": 3}),
        ("mesh:2x4", {"split": "input", "kv_shards": 2}),
        ("flat:5", {}),
    ],
)
def test_every_weight_is_where_the_program_reads_it(topology, options, tied):
    spec = small_model(tied=tied, layers=1)
    shape = spec.shape
    mapping = plan(shape, TINY.on(topology), **options)
    image = Image(images.Store(mapping), spec)
    team, padded = mapping.attention, np.zeros((3, 12))
    qkv = images.attention_rows(spec, mapping, 0, "")
    for tile in range(mapping.arch.tiles):
        for name in ("head", "embed"):
            for row, token in enumerate(range(*mapping.vocab_span(tile))):
                image.holds(tile, name, row, spec.tensor(name)[token])
        group, wide = team.group(tile), mapping.group_heads * shape.head_dim
        for row, index in enumerate(range(*mapping.qkv_rows(tile))):
            image.holds(tile, "0.qkv", row, qkv[group][index])
        for row, index in enumerate(range(*mapping.output_rows(tile))):
            mine = spec.tensor("layers.0.o")[index, group * wide : (group + 1) * wide]
            image.holds(tile, "0.o", row, mine)
        first, end = mapping.hidden_slice(tile)
        for name in ("gate", "up"):
            matrix = np.concatenate([spec.tensor(f"layers.0.{name}"), padded])
            for row, index in enumerate(range(*mapping.hidden_rows(tile))):
                image.holds(tile, f"0.{name}", row, matrix[first + index])
        down = np.concatenate([spec.tensor("layers.0.down"), padded.T], axis=1)
        for row, index in enumerate(range(*mapping.down_rows(tile))):
            image.holds(tile, "0.down", row, down[index, first:end])
        for name in images.GAINS:
            (high, scale), (low, fine) = (image.row(tile, f"0.{name}", r, 12) for r in (0, 1))
            wanted = spec.tensor(f"layers.0.{name}")
            assert np.all(np.abs(high + low - wanted) <= fine * 0.501 + 1e-7)
            assert fine.max() < scale.max() / 64
    unread = np.ones(image.words.shape[:2], bool)
    unread[tuple(zip(*image.read, strict=True))] = False
    assert not image.store.elements[unread].any()  # and nothing anywhere else
    zero = ZERO_EXPONENT << mapping.arch.numeric.weight.mantissa_bits
    assert (image.store.scales[unread] == zero).all()


def test_areas_follow_one_another():
    mapping = plan(small_shape(), TINY, page=2, kv_shards=2)
    store = images.Store(mapping)
    order = ["head", "embed"] + [
        f"{layer}.{name}"
        for layer in range(2)
        for name in ("qkv", "o", "gate", "up", "down", "attn_norm", "ffn_norm", "k0", "v0")
    ]
    assert list(store.at) == order
    assert list(store.at.values()) == sorted(set(store.at.values()))
    assert store.used - store.at["1.v0"] == mapping.rows_capacity == 8
    assert images.Store(plan(small_shape(tied=True), TINY)).at["embed"] == 0


def test_queries_carry_the_factor_of_the_scores():
    spec = small_model(rope_pairing="adjacent", layers=1)
    mapping = plan(spec.shape, TINY.on("mesh:1x1"))
    (rows,) = images.attention_rows(spec, mapping, 0, "")
    factor = math.log2(math.e) / math.sqrt(4)
    assert images.query_scale(4) == pytest.approx(factor, abs=2**-17)
    assert round(math.log2(math.e) * 2**16) == LOG2E
    assert np.allclose(rows[:16], spec.tensor("layers.0.q") * factor, rtol=1e-4)
    assert np.allclose(rows[16:24], spec.tensor("layers.0.k"))
    normed = small_model(rope_pairing="adjacent", qk_norm=True, layers=1)
    (rows,) = images.attention_rows(normed, plan(normed.shape, TINY.on("mesh:1x1")), 0, "")
    assert (rows[:16] == normed.tensor("layers.0.q")).all()  # it is in the gain of q's norm


def test_a_store_that_is_too_small_names_a_context_that_fits():
    arch = replace(TINY, store_beats=196)
    options = {"page": 2, "kv_shards": 3}
    with pytest.raises(InputError) as refusal:
        images.Store(plan(small_shape(context=400), arch, **options))
    assert str(refusal.value) == (
        "small needs 13029 bytes of store on a tile and tiny has 2107; of it the KV shard takes "
        "11524: give --context 19 or less, more --kv-shards or more tiles"
    )


@given(
    st.sampled_from(["mesh:1x1", "mesh:2x2", "flat:3", "mesh:4x2"]),
    st.integers(1, 17),
    st.integers(150, 700),
    st.integers(1, 3),
)
def test_the_context_it_names_is_the_longest_that_fits(topology, page, beats, shards):
    arch = replace(TINY, store_beats=beats).on(topology)

    def complaint(context):
        shape = small_shape(context=400)
        options = {"page": page, "kv_shards": min(shards, arch.tiles), "context": context}
        try:
            images.Store(plan(shape, arch, **options))
        except InputError as error:
            return str(error)
        return ""

    match = re.search(r"--context (\d+) or less", complaint(400))
    if match:
        assert complaint(int(match[1])) == ""
        assert complaint(int(match[1]) + 1) != ""


def test_weights_alone_may_be_too_many():
    with pytest.raises(InputError, match="give more tiles or an architecture with a larger store_"):
        images.Store(plan(small_shape(), replace(TINY, store_beats=60)))


def test_constants():
    assert images.to_fixed(np.array([1.5, -0.26, 1e9, -1e9]), 2).tolist() == [
        *(6, -1),
        *(2**31 - 1, -(2**31)),
    ]
    rows = images.rope_rows(np.array([0, 3]), 4, 100.0)
    angles = [3 * 1.0, 3 * 0.1]
    assert rows[0].tolist() == [65536, 0, 65536, 0]
    wanted = [f(a) for a in angles for f in (math.cos, math.sin)]
    assert np.allclose(rows[1] / 2**16, wanted, atol=2**-16)
    for n in (1, 3, 12, 576, 4096):
        eps, root, exponent = images.rms_constants(n, 1e-5, 14)
        assert 2**16 <= root < 2**17 and eps == round(n * 1e-5 * 2**16)
        assert root / 2**16 * 2**exponent == pytest.approx(math.sqrt(n), rel=1e-5)
