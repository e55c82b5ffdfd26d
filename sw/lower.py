"""Lowering: a mapped model becomes the Program of one decode step."""

from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import REGISTERS, Engine, Op
from tokenpath.hw.arch.program import Code, Program

from . import images
from .attention import Attention
from .collectives import Collective
from .emit import Emitter, Operand
from .images import Store
from .mapping import Mapping
from .model import ModelSpec

GAIN_FRAC = 16
"""Fraction bits of the gains of RMSNorm."""


class Step:
    """Builds the program of one decode step: buffers and constants first, then stage after
    stage."""

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
        self.attention = Attention(self)  # its biases are constants, too
        width = self.shape.d_model
        self.x, self.xn = self.emitter.scratch(width), self.emitter.scratch(width)
        self.gain, self.gain_rows = self.emitter.scratch(width), self.emitter.scratch(2 * width)

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

    # --- stages ---

    def headroom(self, elements: int) -> int:
        """Log2 of the number of blocks of a whole contraction of ``elements``, rounded up."""
        return (-(-elements // self.numeric.block) - 1).bit_length()

    @property
    def passes(self) -> int:
        """Streams of K that one layer needs on a tile: one for each KV head and ``queries`` of
        its query heads."""
        per_head = self.mapping.group_heads // self.mapping.group_kv_heads
        return self.mapping.group_kv_heads * -(-per_head // self.arch.queries)

    def collective(self, name: str, parity: int, team: Any) -> Collective:
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

    def linear(
        self,
        name: str,
        *,
        rows: Operand,
        elements: Operand,
        width: int,
        dst: int,
        frac: int,
        src: int = 0,
    ) -> None:
        """GEMV of a tile's rows with the operand at ``src``; ``width`` is the length of the
        whole contraction."""
        self.emitter.stream(
            Op.DOT, self.store.at[name], n=rows, m=elements, dst=dst, src=src, x=frac
        )

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

    def embed(self) -> None:
        """The token's embedding row, from the tile that holds it along its row of the array,
        then down the columns."""
        emitter, mapping, width = self.emitter, self.mapping, self.shape.d_model
        rows, columns = self.arch.topology.grid
        tiles = range(self.arch.tiles)
        wide, per_tile = self.arch.row_beats(width), mapping.vocab_rows
        owner = emitter.step_rule("token_owner", span=per_tile)
        at = emitter.step_rule(
            "token_row", scale=wide, span=per_tile, offset=self.store.at["embed"]
        )
        emitter.stream(Op.LOAD, at, n=owner, m=width, dst=self.x, x=self.mapping.residual_frac)
        if self.arch.tiles > 1:
            emitter.hand_over(Engine.COMPUTE, Emitter.TO_NETWORK)
            along, down = emitter.inbox(width), emitter.inbox(width)
            row_sem, column_sem = emitter.semaphore("embed.row"), emitter.semaphore("embed.column")
            line = tuple(
                tuple(
                    (t // columns * columns + (t % columns + away) % columns, 0, width, 0)
                    for away in range(1, columns + 1)
                )
                for t in tiles
            )
            emitter.wait(Engine.NETWORK, Emitter.TO_NETWORK)
            emitter.emit(
                Engine.NETWORK,
                Op.PUT,
                src=self.x,
                dst=along,
                aux=emitter.descriptors(line),
                y=row_sem,
                m=emitter.step_rule("token_owner", scale=columns, span=per_tile),
            )
            column = tuple(
                tuple(
                    ((t + away * columns) % len(tiles), 0, width, 0) for away in range(1, rows + 1)
                )
                for t in tiles
            )
            emitter.wait(
                Engine.NETWORK,
                row_sem,
                emitter.step_rule("token_group", span=per_tile, span2=columns),
            )
            emitter.emit(
                Engine.NETWORK,
                Op.PUT,
                src=along,
                dst=down,
                aux=emitter.descriptors(column),
                y=column_sem,
                m=emitter.step_rule("token_group", scale=rows, span=per_tile, span2=columns),
            )
            self.fetch_gain("0.attn_norm")
            emitter.wait(Engine.COMPUTE, column_sem)
            emitter.compute(Op.SUM, dst=self.x, src=down, n=width, m=1)
        else:
            self.fetch_gain("0.attn_norm")

    def rope_angles(self) -> None:
        """Cosines and sines of the position, from the two tables, once a step."""
        dim = self.shape.head_dim
        self.angles = self.buffer("angles", dim)
        high = self.emitter.step_rule(
            "position_high", scale=dim, span=self.rope_span, offset=self.rope_high
        )
        low = self.emitter.step_rule(
            "position_low", scale=dim, span=self.rope_span, offset=self.rope_low
        )
        self.emitter.compute(Op.ROPE, dst=self.angles, src=high, aux=low, n=dim, m=1)

    def hidden(self, layer: int) -> None:
        """The SwiGLU layer: gate and up by rows, SiLU, hidden slice gathered in its group,
        down, sum."""
        emitter, mapping, numeric = self.emitter, self.mapping, self.numeric
        tiles, width = range(self.arch.tiles), self.shape.d_model
        team = mapping.hidden
        rows = [end - first for first, end in (mapping.hidden_rows(t) for t in tiles)]
        slices = [end - first for first, end in (mapping.hidden_slice(t) for t in tiles)]
        down = [end - first for first, end in (mapping.down_rows(t) for t in tiles)]
        gate, up = self.buffer("gate", max(rows)), self.buffer("up", max(rows))
        mine = self.buffer("hidden", max(rows))
        count = emitter.per_tile(rows)
        self.norm(self.gain)
        for name, dst in (("gate", gate), ("up", up)):
            self.linear(
                f"{layer}.{name}",
                rows=count,
                elements=width,
                width=width,
                dst=dst,
                frac=numeric.act_frac,
            )
        emitter.compute(Op.SILU, dst=mine, src=gate, aux=up, n=count, x=numeric.act_frac)
        gather = self.collective("hidden", layer % 2, team).all_reduce(
            mine, slices, reduce=(), segments=team.member_lines, algorithm=mapping.reduce
        )
        length = emitter.per_tile(slices)
        emitter.compute(Op.QUANT, dst=0, src=gather[0], n=length, m=1, x=numeric.act_frac)
        part = self.buffer("down", max(down))
        self.linear(
            f"{layer}.down",
            rows=emitter.per_tile(down),
            elements=length,
            width=mapping.hidden_blocks * numeric.block,
            dst=part,
            frac=mapping.residual_frac,
        )
        self.add_residual(
            self.collective("down", layer % 2, team).all_reduce(
                part,
                [width] * len(tiles),
                reduce=team.group_lines,
                segments=team.member_lines,
                algorithm=mapping.reduce,
                spread=True,
            ),
            f"{layer + 1}.attn_norm" if layer + 1 < self.shape.layers else None,
        )

    def head(self) -> None:
        """Final norm, logits of each tile's vocabulary, arg max over all of them on tile 0."""
        emitter, mapping, tiles = self.emitter, self.mapping, range(self.arch.tiles)
        spans = [mapping.vocab_span(t) for t in tiles]
        words = emitter.per_tile([end - first for first, end in spans])
        self.logits, self.best = self.buffer("logits", mapping.vocab_rows), self.buffer("best", 2)
        self.norm(self.final_gain)
        width = self.shape.d_model
        self.linear(
            "head",
            rows=words,
            elements=width,
            width=width,
            dst=self.logits,
            frac=self.numeric.act_frac,
        )
        pair = self.buffer("pair", 2)
        emitter.compute(
            Op.ARGMAX,
            dst=pair,
            src=self.logits,
            n=words,
            aux=emitter.per_tile([first for first, _ in spans]),
        )
        emitter.hand_over(Engine.COMPUTE, Emitter.TO_NETWORK)
        emitter.wait(Engine.NETWORK, Emitter.TO_NETWORK)
        pairs, arrived = emitter.inbox(2 * len(tiles)), emitter.semaphore("best")
        to_first = tuple(((0, 0, 2, 2 * t),) for t in tiles)
        count = emitter.put(to_first, src=pair, dst=pairs, semaphore=arrived)
        emitter.wait(Engine.COMPUTE, arrived, count)
        emitter.compute(Op.ARGPAIR, dst=self.best, src=pairs, n=count)

    # --- the whole ---

    def build(self) -> Program:
        """Emit every stage and freeze the program."""
        emitter = self.emitter
        with emitter.label("embed"):
            self.embed()
            self.rope_angles()
        for layer in range(self.shape.layers):
            with emitter.label(f"{layer}.attention"):
                self.attention.emit(layer)
            with emitter.label(f"{layer}.hidden"):
                self.hidden(layer)
        with emitter.label("head"):
            self.head()
        if self.values:
            images.fill_store(self.store, self.spec)
        return self._freeze()

    def _freeze(self) -> Program:
        emitter, mapping, tiles = self.emitter, self.mapping, range(self.arch.tiles)
        code = Code(
            engines=tuple(tuple(i.columns() for i in queue) for queue in emitter.code),  # type: ignore[arg-type]
            labels=tuple(tuple(names) for names in emitter.labels),  # type: ignore[arg-type]
        )
        for engine, rows in zip(Engine, code.engines, strict=True):
            if len(rows) > self.arch.code_words:
                raise InputError(
                    f"the program has {len(rows)} {engine.name.lower()} instructions "
                    f"and {self.arch.name} "
                    f"code_words {self.arch.code_words}; give an architecture with more"
                )
        registers = np.zeros((len(tiles), REGISTERS), np.int32)
        registers[:, : len(emitter.columns)] = np.array(emitter.columns, np.int64).T
        own = np.concatenate([*self.own, np.zeros((len(tiles), 0), np.int64)], axis=1).astype(
            np.int32
        )
        spans = [mapping.vocab_span(t) for t in tiles]
        team = mapping.attention
        return Program(
            arch=self.arch,
            code=(code,),
            tile_code=(0,) * len(tiles),
            registers=_buffer(registers),
            descriptors=_buffer(np.array(emitter.tables, np.int32).reshape(len(tiles), -1, 4)),
            vector_shared=_buffer(np.array(self.shared, np.int64).astype(np.int32)),
            vector_tile=_buffer(own),
            elements=_buffer(self.store.elements) if self.store.elements is not None else None,
            scales=_buffer(self.store.scales) if self.store.scales is not None else None,
            store_beats_used=self.store.used,
            rules=tuple(emitter.rules),
            shards_of=tuple(team.member(t) for t in tiles),
            shards=team.members,
            page=mapping.page,
            context=mapping.context,
            vocab=self.shape.vocab,
            logits_at=self.logits,
            logit_words=tuple(end - first for first, end in spans),
            logit_first=tuple(first for first, _ in spans),
            result_tile=0,
            result_at=self.best,
            meta={
                "model": self.shape.name,
                "split": mapping.split,
                "softmax": mapping.softmax,
                "reduce": mapping.reduce,
                "groups": team.groups,
                "kv_shards": team.members,
            },
        )


def _buffer(array: NDArray[Any]) -> memoryview:
    """The buffer of an array, without a copy."""
    return memoryview(np.ascontiguousarray(array))  # type: ignore[arg-type]


def lower(mapping: Mapping, spec: ModelSpec, *, values: bool = True) -> Program:
    """Program of one decode step; without ``values`` it has no weights and serves timing only.

    Raises InputError when the model doesn't fit the machine.
    """
    return Step(mapping, spec, values).build()
