"""Images: the weights of a model, quantised and laid out in the stores of the tiles."""

import math

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.numeric import LOG2E, ROPE_FRAC, ZERO_EXPONENT

from .mapping import Mapping
from .model import ModelSpec
from .quantise import block_quantise, scale_values

Floats = NDArray[np.float32]

GAINS = ("attn_norm", "ffn_norm")
"""The norms of a layer; the store keeps their gains as two rows whose sum has twice the
precision of an element."""


class Store:
    """Addresses of the matrices and KV rows in every tile's store, and the image itself once
    :meth:`allocate` was called."""

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.arch = mapping.arch
        self.used = 0
        self.elements: NDArray[np.int8] | None = None
        self.scales: NDArray[np.int16] | None = None
        self.at: dict[str, int] = {}
        self._reserve_all()

    def _reserve(self, name: str, beats: int) -> None:
        self.at[name] = self.used
        self.used += beats

    def _reserve_all(self) -> None:
        mapping, shape, arch = self.mapping, self.mapping.shape, self.arch
        wide = arch.row_beats(shape.d_model)
        tiles = range(arch.tiles)

        def most(spans: list[tuple[int, int]]) -> int:
            return max(end - first for first, end in spans)

        qkv = most([mapping.qkv_rows(t) for t in tiles]) * wide
        out_row = arch.row_beats(mapping.group_heads * shape.head_dim)
        out = most([mapping.output_rows(t) for t in tiles]) * out_row
        hidden = most([mapping.hidden_rows(t) for t in tiles]) * wide
        down_row = arch.row_beats(most([mapping.hidden_slice(t) for t in tiles]))
        down = most([mapping.down_rows(t) for t in tiles]) * down_row
        kv = mapping.rows_capacity * arch.row_beats(shape.head_dim)
        self._reserve("head", mapping.vocab_rows * wide)
        if shape.tied:
            self.at["embed"] = self.at["head"]
        else:
            self._reserve("embed", mapping.vocab_rows * wide)
        for layer in range(shape.layers):
            for name, beats in (
                ("qkv", qkv),
                ("o", out),
                ("gate", hidden),
                ("up", hidden),
                ("down", down),
            ):
                self._reserve(f"{layer}.{name}", beats)
            for name in GAINS:
                self._reserve(f"{layer}.{name}", 2 * wide)
            for head in range(mapping.group_kv_heads):
                self._reserve(f"{layer}.k{head}", kv)
                self._reserve(f"{layer}.v{head}", kv)
        if self.used > arch.store_beats:
            raise InputError(self._too_small(kv))

    def _too_small(self, kv_beats: int) -> str:
        mapping, arch = self.mapping, self.arch
        rows = 2 * kv_beats * mapping.group_kv_heads * mapping.shape.layers
        need, have = self.used * arch.beat_bits // 8, arch.store_bytes
        left = (arch.store_beats - self.used + rows) * mapping.rows_capacity // max(rows, 1)
        pages, more = divmod(left, mapping.page)  # of the first shard, which is the fullest
        fits = pages * mapping.page * mapping.attention.members + more
        if fits < 1:
            remedy = "give more tiles or an architecture with a larger store_beats"
        else:
            remedy = (
                f"of it the KV shard takes {rows * arch.beat_bits // 8}: give "
                f"--context {fits} or less, more --kv-shards or more tiles"
            )
        return (
            f"{mapping.shape.name} needs {need} bytes of store on a tile and "
            f"{arch.name} has {have}; {remedy}"
        )

    def allocate(self) -> None:
        """Zeroed image of all tiles."""
        tiles, lanes, blocks = self.arch.tiles, self.arch.lanes, self.arch.blocks_per_beat
        self.elements = np.zeros((tiles, self.used, lanes), np.int8)
        zero = ZERO_EXPONENT << self.arch.numeric.weight.mantissa_bits
        self.scales = np.full((tiles, self.used, blocks), zero, np.int16)

    def place(
        self,
        name: str,
        spans: list[tuple[int, int]],
        columns: list[tuple[int, int]],
        matrix: Floats,
    ) -> None:
        """Quantise ``matrix`` (out, in) and write rows ``spans[tile]`` x elements
        ``columns[tile]`` to each tile."""
        block, lanes = self.arch.numeric.block, self.arch.lanes
        rows, width = matrix.shape
        padded = -(-width // block) * block
        if padded != width:
            matrix = np.concatenate([matrix, np.zeros((rows, padded - width), np.float32)], axis=1)
        elements, codes = block_quantise(
            np.ascontiguousarray(matrix), block, self.arch.numeric.weight
        )
        assert self.elements is not None and self.scales is not None
        at = self.at[name]
        for tile, ((first, end), (left, right)) in enumerate(zip(spans, columns, strict=True)):
            if end <= first or right <= left:
                continue
            right = -(-right // block) * block
            beats = self.arch.row_beats(right - left)
            area = self.elements[tile, at : at + (end - first) * beats].reshape(
                end - first, beats * lanes
            )
            area[:, : right - left] = elements[first:end, left:right]
            marks = self.scales[tile, at : at + (end - first) * beats].reshape(end - first, -1)
            marks[:, : (right - left) // block] = codes[first:end, left // block : right // block]

    def two_rows(self, vector: Floats) -> Floats:
        """``vector`` and what its quantisation loses, as two rows."""
        block, fmt = self.arch.numeric.block, self.arch.numeric.weight
        width = -(-len(vector) // block) * block
        padded = np.zeros((1, width), np.float32)
        padded[0, : len(vector)] = vector
        elements, codes = block_quantise(padded, block, fmt)
        scales = np.repeat(scale_values(codes.astype(np.int32), fmt.mantissa_bits), block, axis=1)
        return np.concatenate([padded, padded - elements * scales])[:, : len(vector)]


def pair_rows(matrix: Floats, head_dim: int, pairing: str) -> Floats:
    """Rows of q or k (or a bias) in the order of the hardware: the two elements of a rotary
    pair side by side."""
    if pairing == "adjacent":
        return matrix
    half = head_dim // 2
    order = np.arange(head_dim).reshape(2, half).T.reshape(-1)
    heads = matrix.reshape(-1, head_dim, *matrix.shape[1:])
    return heads[:, order].reshape(matrix.shape)


def query_scale(head_dim: int) -> float:
    """Factor folded into q: log2(e) / sqrt(head_dim), so that scores are exponents of 2."""
    return LOG2E / 2**16 / math.sqrt(head_dim)


def attention_rows(spec: ModelSpec, mapping: Mapping, layer: int, suffix: str) -> list[Floats]:
    """[q, k, v] of each attention group, rows in hardware order; ``suffix`` is "" for weights,
    "_bias" for biases."""
    shape, dim = spec.shape, spec.shape.head_dim
    q, k, v = (np.asarray(spec.tensor(f"layers.{layer}.{name}{suffix}")) for name in "qkv")
    q, k = (pair_rows(matrix, dim, shape.rope_pairing) for matrix in (q, k))
    if not shape.qk_norm:
        q = q * np.float32(query_scale(dim))
    heads, kv = mapping.group_heads * dim, mapping.group_kv_heads * dim
    return [
        np.concatenate(
            [q[g * heads : (g + 1) * heads], k[g * kv : (g + 1) * kv], v[g * kv : (g + 1) * kv]]
        )
        for g in range(mapping.attention.groups)
    ]


def fill_store(store: Store, spec: ModelSpec) -> None:
    """Write every weight of ``spec`` to its place."""
    mapping, shape = store.mapping, spec.shape
    tiles = range(store.arch.tiles)
    whole = [(0, shape.d_model)] * len(tiles)
    vocab = [mapping.vocab_span(t) for t in tiles]
    store.allocate()
    store.place("head", vocab, whole, spec.tensor("head"))
    if not shape.tied:
        store.place("embed", vocab, whole, spec.tensor("embed"))
    for layer in range(shape.layers):
        _fill_attention(store, spec, layer)
        _fill_hidden(store, spec, layer)
        for name in GAINS:
            gain = store.two_rows(spec.tensor(f"layers.{layer}.{name}"))
            store.place(f"{layer}.{name}", [(0, 2)] * len(tiles), whole, gain)


def _fill_attention(store: Store, spec: ModelSpec, layer: int) -> None:
    mapping, shape = store.mapping, spec.shape
    team, tiles = mapping.attention, range(store.arch.tiles)
    whole = [(0, shape.d_model)] * len(tiles)
    for group, matrix in enumerate(attention_rows(spec, mapping, layer, "")):
        mine = [t < team.active and team.group(t) == group for t in tiles]
        store.place(
            f"{layer}.qkv",
            [mapping.qkv_rows(t) if m else (0, 0) for t, m in enumerate(mine)],
            whole,
            matrix,
        )
    wide = mapping.group_heads * shape.head_dim
    columns = [(team.group(t) * wide, (team.group(t) + 1) * wide) for t in tiles]
    store.place(
        f"{layer}.o",
        [mapping.output_rows(t) for t in tiles],
        columns,
        spec.tensor(f"layers.{layer}.o"),
    )


def _fill_hidden(store: Store, spec: ModelSpec, layer: int) -> None:
    mapping, shape = store.mapping, spec.shape
    tiles = range(store.arch.tiles)
    whole = [(0, shape.d_model)] * len(tiles)
    padding = mapping.hidden_blocks * store.arch.numeric.block - shape.ffn
    slices = [mapping.hidden_slice(t) for t in tiles]
    rows = []
    for t in tiles:
        first, end = mapping.hidden_rows(t)
        rows.append((slices[t][0] + first, slices[t][0] + end))
    for name in ("gate", "up"):
        matrix = spec.tensor(f"layers.{layer}.{name}")
        matrix = (
            np.concatenate([matrix, np.zeros((padding, shape.d_model), np.float32)])
            if padding
            else matrix
        )
        store.place(f"{layer}.{name}", rows, whole, matrix)
    store.place(
        f"{layer}.down",
        [mapping.down_rows(t) for t in tiles],
        slices,
        spec.tensor(f"layers.{layer}.down"),
    )


def to_fixed(values: NDArray[np.floating], frac: int) -> NDArray[np.int64]:
    """Words with ``frac`` fraction bits, rounded to nearest and clamped."""
    return np.clip(np.rint(np.asarray(values, np.float64) * 2.0**frac), -(2**31), 2**31 - 1).astype(
        np.int64
    )


def rope_rows(positions: NDArray[np.int64], head_dim: int, theta: float) -> NDArray[np.int64]:
    """(cos, sin) pairs of each position, (positions, head_dim) words with ROPE_FRAC fraction
    bits."""
    rates = theta ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    angles = positions[:, None] * rates
    pairs = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return to_fixed(pairs, ROPE_FRAC).reshape(len(positions), head_dim)


def rms_constants(n: int, eps: float, frac: int) -> list[int]:
    """The constants of an RMS instruction: n * eps at the sum's binary point, sqrt(n)
    normalised, its exponent."""
    exponent = int(math.log2(n)) // 2
    return [
        round(n * eps * 2.0 ** (2 * frac - 12)),
        round(math.sqrt(n) / 2**exponent * 2**16),
        exponent,
    ]
