"""The attention layer on the tiles: q, k, v by rows, KV rows appended to their shard, two
passes, output projection."""

from typing import TYPE_CHECKING

from tokenpath.hw.arch.isa import Engine, Op

from .emit import Emitter, Operand

if TYPE_CHECKING:
    from .step import Step


class Attention:
    """Emits attention layers; constants and buffers are those of ``step``."""

    def __init__(self, step: "Step") -> None:
        self.step, self.emitter, self.mapping = step, step.emitter, step.mapping
        shape, mapping = step.shape, step.mapping
        self.dim, self.heads, self.kv_heads = (
            shape.head_dim,
            mapping.group_heads,
            mapping.group_kv_heads,
        )
        self.team = mapping.attention
        self.row_beats = step.arch.row_beats(self.dim)
        self.headroom = (mapping.context - 1).bit_length()
        tiles = range(step.arch.tiles)
        self.qkv_counts = [end - first for first, end in (mapping.qkv_rows(t) for t in tiles)]
        self.out_counts = [end - first for first, end in (mapping.output_rows(t) for t in tiles)]
        words = self.heads * self.dim
        self.qkv = self.emitter.scratch(max(self.qkv_counts))
        self.q, self.k = self.emitter.scratch(words), self.emitter.scratch(self.kv_heads * self.dim)
        self.record = self.emitter.scratch(
            2 * self.heads + words
        )  # maxima, weighted sums or sums of p
        self.result = self.emitter.scratch(words)
        self.part = self.emitter.scratch(max(self.out_counts))

    def emit(self, layer: int) -> None:
        """One attention layer, the residual stream updated."""
        step, mapping = self.step, self.mapping
        q, k, v = self._project(layer)
        self._append(layer, k, v)
        merge = mapping.softmax == "merge"
        sums = self._merged(layer, q) if merge else self._exact(layer, q)
        above, below = sums
        self.emitter.compute(
            Op.DIV,
            dst=self.result,
            src=above,
            aux=below,
            n=self.dim,
            m=self.heads,
            q=step.numeric.act_frac,
            x=step.numeric.value_frac(self.headroom),
            y=step.numeric.sum_frac(self.headroom),
        )
        words = self.heads * self.dim
        self.emitter.compute(
            Op.QUANT, dst=0, src=self.result, n=words, m=1, x=step.numeric.act_frac
        )
        step.linear(
            f"{layer}.o",
            rows=self.emitter.per_tile(self.out_counts),
            elements=words,
            dst=self.part,
            frac=step.mapping.residual_frac,
        )
        width = step.shape.d_model
        step.add_residual(
            step.collective("output", layer % 2, self.team).all_reduce(
                self.part,
                [width] * step.arch.tiles,
                reduce=self.team.group_lines,
                segments=self.team.member_lines,
                algorithm=mapping.reduce,
                spread=True,
            ),
            f"{layer}.ffn_norm",
        )

    def _project(self, layer: int) -> tuple[int, int, int]:
        """Rotated q, rotated k and v of the group, on each of its tiles."""
        step, emitter, frac = self.step, self.emitter, self.step.numeric.act_frac
        count, width = emitter.per_tile(self.qkv_counts), step.shape.d_model
        step.norm(step.gain)
        step.linear(f"{layer}.qkv", rows=count, elements=width, dst=self.qkv, frac=frac)
        if step.biases:
            emitter.compute(
                Op.SUM, dst=self.qkv, src=step.biases[layer], bux=self.qkv, n=count, m=1, q=1
            )
        at = step.collective("qkv", layer % 2, self.team).all_reduce(
            self.qkv,
            [self.mapping.qkv_words] * step.arch.tiles,
            reduce=(),
            segments=self.team.member_lines,
            algorithm=self.mapping.reduce,
        )[0]
        q, k = at, at + self.heads * self.dim
        v = k + self.kv_heads * self.dim
        for source, dst, heads, which in (
            (q, self.q, self.heads, 0),
            (k, self.k, self.kv_heads, 1),
        ):
            if step.head_gains:
                emitter.compute(
                    Op.RMS,
                    dst=dst,
                    src=source,
                    aux=step.rms_head,
                    bux=step.head_gains[layer][which],
                    n=self.dim,
                    m=heads,
                    q=1,
                    x=frac,
                    y=frac,
                )
                source = dst
            emitter.compute(Op.ROPE, dst=dst, src=source, aux=step.angles, n=self.dim, m=heads)
        return self.q, self.k, v

    def _append(self, layer: int, k: int, v: int) -> None:
        """New K and V rows into the store of the shard that owns the position."""
        emitter, store, beats = self.emitter, self.step.store, self.row_beats
        for index, source in enumerate((k, v)):
            emitter.compute(
                Op.QUANT,
                dst=index * self.kv_heads * beats,
                src=source,
                n=self.dim,
                m=self.kv_heads,
                x=self.step.numeric.act_frac,
                y=1,
            )
        emitter.hand_over(Engine.COMPUTE, Emitter.TO_MEMORY)
        emitter.wait(Engine.MEMORY, Emitter.TO_MEMORY)
        mine = emitter.step_rule("kv_append", scale=beats)
        for index, name in enumerate("kv"):
            for head in range(self.kv_heads):
                at = emitter.step_rule(
                    "kv_next", scale=beats, offset=store.at[f"{layer}.{name}{head}"]
                )
                emitter.emit(
                    Engine.MEMORY,
                    Op.APPEND,
                    dst=at,
                    src=(index * self.kv_heads + head) * beats,
                    n=mine,
                )

    def _rows(self, layer: int, name: str) -> tuple[Operand, Operand]:
        """Address and number of a shard's rows that the layer attends to."""
        window = self.step.shape.windows[layer] or 0
        at = self.emitter.step_rule(
            "kv_first",
            scale=self.row_beats,
            span=window,
            offset=self.step.store.at[f"{layer}.{name}"],
        )
        return at, self.emitter.step_rule("kv_rows", span=window)

    def _passes(self) -> list[tuple[int, int, int]]:
        """(KV head, first query head, query heads) of each stream over the keys."""
        per_head = self.heads // self.kv_heads
        queries = self.step.arch.queries
        return [
            (kv, kv * per_head + first, min(queries, per_head - first))
            for kv in range(self.kv_heads)
            for first in range(0, per_head, queries)
        ]

    def _score(
        self, layer: int, index: int, kv: int, head: int, count: int, q: int, maxima: int
    ) -> None:
        """Pass 1 of one stream: scores of ``count`` query heads and their running maxima."""
        self.emitter.compute(
            Op.QUANT,
            dst=0,
            src=q + head * self.dim,
            n=self.dim,
            m=count,
            x=self.step.numeric.act_frac,
        )
        at, rows = self._rows(layer, f"k{kv}")
        self.emitter.stream(
            Op.SCORE,
            at,
            n=rows,
            m=self.dim,
            dst=maxima + head,
            src=0,
            bux=index * self.mapping.rows_capacity,
            q=count,
            y=self.step.headroom(self.dim),
        )

    def _weigh(
        self,
        layer: int,
        index: int,
        kv: int,
        head: int,
        count: int,
        maxima: int,
        to: tuple[int, int],
    ) -> None:
        """Pass 2 of one stream: sums of p at ``to[1]`` and of p times V at ``to[0]``."""
        at, rows = self._rows(layer, f"v{kv}")
        self.emitter.stream(
            Op.AXPY,
            at,
            n=rows,
            m=self.dim,
            dst=to[0] + head * self.dim,
            aux=to[1] + head,
            src=maxima + head,
            bux=index * self.mapping.rows_capacity,
            q=count,
            x=self.step.numeric.value_frac(self.headroom),
            y=self.headroom,
        )

    def _exact(self, layer: int, q: int) -> tuple[int, int]:
        """One maximum for all shards between the passes, then plain sums.

        Returns (weighted sums, sums of p).
        """
        step, words = self.step, self.heads * self.dim
        maxima, sums = self.record, self.record + self.heads
        for index, (kv, head, count) in enumerate(self._passes()):
            self._score(layer, index, kv, head, count, q, maxima)
        lines = self.team.member_lines
        together = step.collective("maxima", layer % 2, self.team).all_max(
            maxima, self.heads, lines
        )
        for index, (kv, head, count) in enumerate(self._passes()):
            self._weigh(layer, index, kv, head, count, together, (sums, sums + words))
        length = words + self.heads
        parts = step.collective("sums", layer % 2, self.team).all_reduce(
            sums,
            [length] * step.arch.tiles,
            reduce=lines,
            segments=(),
            algorithm=self.mapping.reduce,
        )
        at = step.settle("sums", parts, length)
        return at, at + words

    def _merged(self, layer: int, q: int) -> tuple[int, int]:
        """Each shard with its own maximum; the records are aligned by shifts and added, shard
        after shard."""
        step, heads, words = self.step, self.heads, self.heads * self.dim
        maxima, below, above = self.record, self.record + heads, self.record + 2 * heads
        for index, (kv, head, count) in enumerate(self._passes()):
            self._score(layer, index, kv, head, count, q, maxima)
            self._weigh(layer, index, kv, head, count, maxima, (above, below))
        collective = step.collective("records", layer % 2, self.team)
        at = collective.merge(
            maxima, 2 * heads + words, self.team.member_lines, n=self.dim, q=heads
        )
        return at + 2 * heads, at + heads
