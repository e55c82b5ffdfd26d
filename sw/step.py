"""The step under construction: constants, buffers, and the pieces that all stages share."""

from math import isqrt

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import Op

from . import images
from .collectives import Collective
from .emit import Emitter, Operand
from .images import Store
from .mapping import Arrangement, Mapping
from .model import ModelSpec

GAIN_FRAC = 16
"""Fraction bits of the gains of RMSNorm."""


class Step:
    """What the stages of one decode step build on: constants first, then buffers, then code.

    Members
    -------
    emitter : Emitter
    store : Store
        Addresses of matrices and KV rows.
    x, gain, angles, logits, best : int
        Addresses of the residual stream, of the gains of the next norm, of the position's cosines
        and sines, of this tile's logits, and (on tile 0) of the arg max and its index.
    """

    def __init__(self, mapping: Mapping, spec: ModelSpec, values: bool = True) -> None:
        self.mapping, self.spec, self.values = mapping, spec, values
        self.shape, self.arch, self.numeric = mapping.shape, mapping.arch, mapping.arch.numeric
        self.emitter = Emitter(self.arch)
        self.store = Store(mapping)
        self.shared: list[int] = []
        self.own: list[NDArray[np.int64]] = []  # (tiles, words) constants behind the shared ones
        self.places: dict[str, int] = {}
        self._check_sizes()
        self._constants()
        self.biases = self._biases() if self.shape.attention_bias else []
        width = self.shape.d_model
        self.x, self.xn = self.emitter.scratch(width), self.emitter.scratch(width)
        self.gain, self.gain_rows = self.emitter.scratch(width), self.emitter.scratch(2 * width)
        self.angles = self.emitter.scratch(self.shape.head_dim)
        self.logits, self.best = self.emitter.scratch(mapping.vocab_rows), self.emitter.scratch(2)

    def _check_sizes(self) -> None:
        arch, shape, mapping = self.arch, self.shape, self.mapping
        longest = max(
            shape.d_model, mapping.group_heads * shape.head_dim, max(mapping.hidden_slice(0))
        )
        for what, need, have, field in (
            ("an input row", arch.row_beats(longest), arch.operand_beats, "operand_beats"),
            ("a head", arch.row_beats(shape.head_dim), arch.accumulator_beats, "accumulator_beats"),
            (
                "new K and V rows",
                2 * mapping.group_kv_heads * arch.row_beats(shape.head_dim),
                arch.append_beats,
                "append_beats",
            ),
            (
                "the scores of a KV shard",
                self.passes * mapping.rows_capacity,
                arch.score_rows,
                "score_rows",
            ),
        ):
            if need > have:
                raise InputError(
                    f"{what} of {shape.name} needs {field} {need} and {arch.name} has {have}; "
                    f"give an architecture with more, more tiles, or more --kv-shards"
                )

    # --- constants ---

    def shared_words(self, words: list[int]) -> int:
        """Address of constants that all tiles have."""
        at = self.emitter.scratch(len(words))
        assert at == len(self.shared), "shared constants come first"
        self.shared.extend(int(w) for w in words)
        return at

    def _constants(self) -> None:
        shape, numeric = self.shape, self.numeric
        dim = shape.head_dim
        self.rope_span = max(1, isqrt(self.mapping.context - 1) + 1)
        rows = -(-self.mapping.context // self.rope_span)
        high = images.rope_rows(np.arange(rows) * self.rope_span, dim, shape.rope_theta)
        low = images.rope_rows(np.arange(self.rope_span), dim, shape.rope_theta)
        self.rope_high = self.shared_words(high.reshape(-1).tolist())
        self.rope_low = self.shared_words(low.reshape(-1).tolist())
        self.rms_model = self.shared_words(
            images.rms_constants(shape.d_model, shape.norm_eps, self.mapping.residual_frac)
        )
        self.rms_head = self.shared_words(
            images.rms_constants(dim, shape.norm_eps, numeric.act_frac)
        )
        self.final_gain = self.shared_words(self._gain("final_norm", shape.d_model))
        self.head_gains = (
            [self._head_gains(layer) for layer in range(shape.layers)] if shape.qk_norm else []
        )

    def _gain(self, name: str, words: int) -> list[int]:
        if not self.values:
            return [1 << GAIN_FRAC] * words
        return [int(v) for v in images.to_fixed(self.spec.tensor(name), GAIN_FRAC)]

    def _head_gains(self, layer: int) -> tuple[int, int]:
        """Addresses of the q and k gains of one layer, in hardware order, the score factor
        folded into q's."""
        dim = self.shape.head_dim
        places = []
        for name, factor in (("q_norm", images.query_scale(dim)), ("k_norm", 1.0)):
            gain = (
                self.spec.tensor(f"layers.{layer}.{name}")
                if self.values
                else np.ones(dim, np.float32)
            )
            paired = images.pair_rows(gain, dim, self.shape.rope_pairing)
            places.append(self.shared_words(images.to_fixed(paired * factor, GAIN_FRAC).tolist()))
        return places[0], places[1]

    def own_words(self, words: NDArray[np.int64]) -> int:
        """Address of constants (tiles, words) that differ from tile to tile."""
        at = self.emitter.scratch(words.shape[1])
        assert at == len(self.shared) + sum(w.shape[1] for w in self.own), (
            "constants come before buffers"
        )
        self.own.append(words)
        return at

    def _biases(self) -> list[int]:
        """Addresses of each tile's part of the [q, k, v] biases, by layer."""
        mapping, team, places = self.mapping, self.mapping.attention, []
        spans = [mapping.qkv_rows(t) for t in range(self.arch.tiles)]
        for layer in range(self.shape.layers):
            words = np.zeros((self.arch.tiles, max(end - first for first, end in spans)), np.int64)
            if self.values:
                groups = images.attention_rows(self.spec, mapping, layer, "_bias")
                for tile, (first, end) in enumerate(spans[: team.active]):
                    rows = groups[team.group(tile)][first:end]
                    words[tile, : end - first] = images.to_fixed(rows, self.numeric.act_frac)
            places.append(self.own_words(words))
        return places

    # --- stages ---

    def headroom(self, elements: int) -> int:
        """log2 of the number of blocks of a whole contraction of ``elements``, rounded up."""
        return (-(-elements // self.numeric.block) - 1).bit_length()

    @property
    def passes(self) -> int:
        """Streams of K that one layer needs on a tile: one for each KV head and ``queries`` of
        its query heads."""
        per_head = self.mapping.group_heads // self.mapping.group_kv_heads
        return self.mapping.group_kv_heads * -(-per_head // self.arch.queries)

    def collective(self, name: str, parity: int, team: Arrangement) -> Collective:
        """A collective whose buffers alternate with ``parity``."""
        return Collective(self.emitter, team, name, parity, self.places)

    def settle(self, name: str, parts: tuple[int, int, int], words: int) -> int:
        """Address of a collective's finished vector: its slots are summed if it has several."""
        at, slots, stride = parts
        if slots == 1:
            return at
        result = self.buffer(name, words)
        self.emitter.compute(Op.SUM, dst=result, src=at, aux=stride, n=words, m=slots)
        return result

    def buffer(self, name: str, words: int) -> int:
        """Scratch buffer by name, the same in every layer."""
        if name not in self.places:
            self.places[name] = self.emitter.scratch(max(1, words))
        return self.places[name]

    def linear(self, name: str, *, rows: Operand, elements: Operand, dst: int, frac: int) -> None:
        """GEMV of a tile's rows with the operand."""
        at = self.store.at[name]
        self.emitter.stream(Op.DOT, at, n=rows, m=elements, dst=dst, src=0, x=frac)

    def fetch_gain(self, name: str) -> None:
        """Gains of the next norm from the store, while the compute engine would wait for a
        collective."""
        width = self.shape.d_model
        with self.emitter.ahead_of_waits():
            self.emitter.stream(
                Op.LOAD, self.store.at[name], n=2, m=width, dst=self.gain_rows, x=GAIN_FRAC
            )
            self.emitter.compute(Op.SUM, dst=self.gain, src=self.gain_rows, aux=width, n=width, m=2)

    def norm(self, gain: int) -> None:
        """RMSNorm of the residual stream with the gains at ``gain``, into the operand
        memory."""
        width, numeric = self.shape.d_model, self.numeric
        self.emitter.compute(
            Op.RMS,
            dst=self.xn,
            src=self.x,
            aux=self.rms_model,
            n=width,
            m=1,
            bux=gain,
            q=1,
            x=self.mapping.residual_frac,
            y=numeric.act_frac,
        )
        self.emitter.compute(Op.QUANT, dst=0, src=self.xn, n=width, m=1, x=numeric.act_frac)

    def add_residual(self, parts: tuple[int, int, int], gain: str | None) -> None:
        """Add a collective's result to the residual stream; the gains of the norm behind it are
        fetched meanwhile."""
        at, slots, stride = parts
        if gain:
            self.fetch_gain(gain)
        self.emitter.compute(
            Op.SUM, dst=self.x, src=at, aux=stride, bux=self.x, n=self.shape.d_model, m=slots, q=1
        )
