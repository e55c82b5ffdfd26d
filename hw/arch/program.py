"""Program: what the compiler hands to every executor, frozen and stamped with the machine's
fingerprint."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .isa import COLUMN, REGISTERS, Engine, Op
from .params import Arch

Rows = tuple[tuple[int, ...], ...]
"""Instructions as rows of :data:`tokenpath.hw.arch.isa.LAYOUT`'s columns."""

BUFFERS = {
    "registers": "i",
    "descriptors": "i",
    "vector_shared": "i",
    "vector_tile": "i",
    "elements": "b",
    "scales": "h",
}
"""Buffers of a program, with the format of their elements (int32, int8, int16)."""

DESCRIPTOR = ("tile", "source", "words", "target")
"""Columns of a put descriptor: destination tile, offset to ``src``, payload words, offset to
``dst``."""


def local_rows(positions: int, shard: int, shards: int, page: int) -> int:
    """How many of the first ``positions`` positions lie in ``shard``: pages of ``page``
    positions go round robin."""
    turn = page * shards
    return positions // turn * page + min(max(positions % turn - shard * page, 0), page)


@dataclass(frozen=True, kw_only=True)
class StepRule:
    """How a register follows from a step's position and token: ``offset + scale * f``, with
    ``f`` by ``kind``.

    ``token_row``: token modulo ``span``. ``token_owner``: 1 on tile ``token // span``.
    ``token_group``: 1 on the tiles whose index over ``span2`` equals the owner's.
    ``position_high``, ``position_low``: position over and modulo ``span``. In units of rows of
    this tile's KV shard, a window of ``span`` positions (0: all): ``kv_rows`` up to and with
    the position, ``kv_first`` the first of them; ``kv_append``: 1 where the position is
    appended; ``kv_next``: its row.
    """

    register: int
    kind: str
    scale: int = 1
    offset: int = 0
    span: int = 0
    span2: int = 1

    def value(
        self, *, position: int, token: int, tile: int, shard: int, shards: int, page: int
    ) -> int:
        """The register's value on ``tile``; ``shard`` is -1 on a tile without KV."""
        return self.offset + self.scale * self._count(position, token, tile, shard, shards, page)

    def _count(
        self, position: int, token: int, tile: int, shard: int, shards: int, page: int
    ) -> int:
        match self.kind:
            case "token_row":
                return token % self.span
            case "token_owner":
                return int(token // self.span == tile)
            case "token_group":
                return int(token // self.span // self.span2 == tile // self.span2)
            case "position_high":
                return position // self.span
            case "position_low":
                return position % self.span
        if shard < 0:
            return 0
        first = local_rows(
            max(0, position + 1 - self.span) if self.span else 0, shard, shards, page
        )
        match self.kind:
            case "kv_rows":
                return local_rows(position + 1, shard, shards, page) - first
            case "kv_first":
                return first
            case "kv_append":
                return int(position // page % shards == shard)
            case "kv_next":
                return local_rows(position, shard, shards, page)
        raise ValueError(f"unknown step rule {self.kind!r}")


@dataclass(frozen=True, kw_only=True)
class Code:
    """Instructions of one class of tiles, by engine; ``labels`` names the stage of the model at
    each instruction."""

    engines: tuple[Rows, Rows, Rows]
    labels: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Program:
    """One decode step for an array, with the images it starts from.

    Arrays are C-contiguous buffers: ``registers`` (tiles, REGISTERS) int32; ``descriptors``
    (tiles, count, 4) int32, columns
    of :data:`DESCRIPTOR`; ``vector_shared`` (words,) int32 at address 0 of every scratch;
    ``vector_tile`` (tiles, words) int32 behind
    it; ``elements`` (tiles, beats, lanes) int8 and ``scales`` (tiles, beats, blocks) int16 of the
    store, or None for a program
    without weights. ``shards_of`` gives each tile's KV shard or -1. Logits: tile t holds
    ``logit_words[t]`` words at
    ``logits_at``, the vocabulary from ``logit_first[t]``. The result (value, index) is at
    ``result_at`` of ``result_tile``.
    """

    arch: Arch
    code: tuple[Code, ...]
    tile_code: tuple[int, ...]
    registers: memoryview
    descriptors: memoryview
    vector_shared: memoryview
    vector_tile: memoryview
    elements: memoryview | None
    scales: memoryview | None
    store_beats_used: int
    rules: tuple[StepRule, ...]
    shards_of: tuple[int, ...]
    shards: int
    page: int
    context: int
    vocab: int
    logits_at: int
    logit_words: tuple[int, ...]
    logit_first: tuple[int, ...]
    result_tile: int
    result_at: int
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return self.arch.tiles

    def step_registers(self, position: int, token: int) -> Iterator[tuple[int, int, int]]:
        """(tile, register, value) of every position-dependent register of one step."""
        for tile, shard in enumerate(self.shards_of):
            for rule in self.rules:
                yield (
                    tile,
                    rule.register,
                    rule.value(
                        position=position,
                        token=token,
                        tile=tile,
                        shard=shard,
                        shards=self.shards,
                        page=self.page,
                    ),
                )

    def where(self, tile: int, engine: Engine, index: int) -> str:
        """An instruction as messages name it: tile, engine, number, operation and stage."""
        code = self.code[self.tile_code[tile]]
        op = code.engines[engine][index][COLUMN["op"]]
        name = Op(op).name if op in tuple(Op) else f"operation {op}"
        label = code.labels[engine][index]
        return f"tile {tile} {engine.name.lower()} instruction {index} ({name}, {label})"

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the buffers, as far as the rest of the program says what they are."""
        arch, beats = self.arch, self.store_beats_used
        return {
            "registers": (arch.tiles, REGISTERS),
            "descriptors": (arch.tiles, (self.descriptors.shape or (0, 0))[1], len(DESCRIPTOR)),
            "vector_shared": (len(self.vector_shared),),
            "vector_tile": (arch.tiles, (self.vector_tile.shape or (0, 0))[1]),
            "elements": (arch.tiles, beats, arch.lanes),
            "scales": (arch.tiles, beats, arch.blocks_per_beat),
        }

    def check(
        self,
        level: Literal["static", "full"] = "static",
        steps: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """Raise InputError if the program has a fault; see :mod:`tokenpath.hw.arch.check`."""
        from tokenpath.hw.arch.check import check

        check(self, level, steps)

    def save(self, path: Path) -> None:
        """Write the program to a file; see :mod:`tokenpath.hw.arch.program_file`."""
        from tokenpath.hw.arch.program_file import save

        save(self, path)

    @classmethod
    def load(cls, path: Path, expect: Arch | None = None) -> "Program":
        """Read a program that was compiled for ``expect`` (None: for any architecture)."""
        from tokenpath.hw.arch.program_file import load

        return load(path, expect)

    def instructions(self, tile: int, engine: Engine) -> Rows:
        """The instructions of one engine of one tile."""
        return self.code[self.tile_code[tile]].engines[engine]
