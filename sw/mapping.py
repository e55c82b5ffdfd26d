"""Mapping: which tile holds which heads, KV shard, hidden slice and vocabulary rows.

Pure arithmetic, no tensors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import local_rows

from .model import ModelShape

SPLITS = ("2d", "input", "output")
REDUCES = ("direct", "ring", "oneshot")
SOFTMAXES = ("exact", "merge")

RESIDUAL_FRAC = 14
"""Fraction bits of the residual stream: a range of 2**17 holds the massive activations of known
models."""

Span = tuple[int, int]
"""Half-open interval (first, end)."""


def part(total: int, parts: int, index: int) -> Span:
    """The ``index``-th of ``parts`` spans of ``total``, the longer ones first."""
    size, more = divmod(total, parts)
    first = index * size + min(index, more)
    return first, first + size + (1 if index < more else 0)


@dataclass(frozen=True, kw_only=True)
class Arrangement:
    """``groups`` x ``members`` of ``tiles``, tile = group * members + member; tiles behind them
    are idle.

    Seen as a mixed-radix number, a tile has ``sizes``: the digits of the member, the fastest
    first, then those of the
    group. Each digit is a line of tiles along which a collective proceeds.
    """

    tiles: int
    member_digits: tuple[int, ...]
    group_digits: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of all digits."""
        return self.member_digits + self.group_digits

    @property
    def members(self) -> int:
        """Tiles of one group."""
        return prod(self.member_digits)

    @property
    def groups(self) -> int:
        """Number of groups."""
        return prod(self.group_digits)

    @property
    def active(self) -> int:
        """Tiles in use."""
        return self.groups * self.members

    @property
    def member_lines(self) -> tuple[int, ...]:
        """Digits of the member that have more than one value."""
        return tuple(d for d, size in enumerate(self.member_digits) if size > 1)

    @property
    def group_lines(self) -> tuple[int, ...]:
        """Digits of the group that have more than one value."""
        first = len(self.member_digits)
        return tuple(first + d for d, size in enumerate(self.group_digits) if size > 1)

    def group(self, tile: int) -> int:
        """Group of a tile in use."""
        return tile // self.members

    def member(self, tile: int) -> int:
        """Member of a tile, -1 for an idle one."""
        return tile % self.members if tile < self.active else -1

    def coordinate(self, tile: int, digit: int) -> int:
        """Value of one digit of a tile."""
        return tile // prod(self.sizes[:digit]) % self.sizes[digit]

    def peer(self, tile: int, digit: int, value: int) -> int:
        """The tile that differs from ``tile`` in one digit."""
        return tile + (value - self.coordinate(tile, digit)) * prod(self.sizes[:digit])

    def interval(self, tile: int, digits: Sequence[int], words: int) -> Span:
        """The nested part of ``words`` that is left to a tile after a split by each of
        ``digits``; empty if idle."""
        if tile >= self.active:
            return 0, 0
        first, end = 0, words
        for digit in digits:
            low, high = part(end - first, self.sizes[digit], self.coordinate(tile, digit))
            first, end = first + low, first + high
        return first, end


@dataclass(frozen=True, kw_only=True)
class Mapping:
    """A model on an array.

    ``attention``: groups of KV heads x KV shards; ``hidden``: slices of the hidden layer x
    members.
    """

    shape: ModelShape
    arch: Arch
    attention: Arrangement
    hidden: Arrangement
    context: int
    page: int
    softmax: str
    reduce: str
    split: str
    residual_frac: int

    @property
    def group_kv_heads(self) -> int:
        """KV heads of one attention group."""
        return self.shape.kv_heads // self.attention.groups

    @property
    def group_heads(self) -> int:
        """Query heads of one attention group."""
        return self.shape.heads // self.attention.groups

    @property
    def hidden_blocks(self) -> int:
        """Blocks of the hidden layer, the last one padded."""
        return -(-self.shape.ffn // self.arch.numeric.block)

    @property
    def rows_capacity(self) -> int:
        """Most KV rows that one shard holds."""
        return max(
            local_rows(self.context, shard, self.attention.members, self.page)
            for shard in range(min(self.attention.members, 1 + self.context // self.page))
        )

    @property
    def qkv_words(self) -> int:
        """Rows of one group's [q, k, v]."""
        return (self.group_heads + 2 * self.group_kv_heads) * self.shape.head_dim

    def qkv_rows(self, tile: int) -> Span:
        """Rows of its group's [q, k, v] that a tile computes."""
        return self.attention.interval(tile, self.attention.member_lines, self.qkv_words)

    def output_rows(self, tile: int) -> Span:
        """Rows of the attention's output projection that a tile computes, over its group's
        heads."""
        return self.attention.interval(tile, self.attention.member_lines, self.shape.d_model)

    def hidden_slice(self, tile: int) -> Span:
        """Padded hidden units of a tile's group, whole blocks."""
        first, end = part(self.hidden_blocks, self.hidden.groups, self.hidden.group(tile))
        return first * self.arch.numeric.block, end * self.arch.numeric.block

    def hidden_rows(self, tile: int) -> Span:
        """Rows of its group's hidden slice that a tile computes, relative to the slice."""
        first, end = self.hidden_slice(tile)
        return self.hidden.interval(tile, self.hidden.member_lines, end - first)

    def down_rows(self, tile: int) -> Span:
        """Rows of the down projection that a tile computes, over its group's hidden slice; none
        if that is empty."""
        first, end = self.hidden_slice(tile)
        return (
            self.hidden.interval(tile, self.hidden.member_lines, self.shape.d_model)
            if end > first
            else (0, 0)
        )

    @property
    def vocab_rows(self) -> int:
        """Vocabulary rows of a full tile; the last ones may hold fewer or none."""
        return -(-self.shape.vocab // self.arch.tiles)

    def vocab_span(self, tile: int) -> Span:
        """Vocabulary rows of a tile."""
        first = min(tile * self.vocab_rows, self.shape.vocab)
        return first, min(first + self.vocab_rows, self.shape.vocab)


def _digits(size: int, line: int) -> tuple[int, ...]:
    """Factors of ``size`` that follow the array's lines of ``line`` tiles, the fastest
    first."""
    if size > line > 1 and size % line == 0:
        return (line, size // line)
    return (size,)


def _attention(shape: ModelShape, arch: Arch, shards: int | None) -> Arrangement:
    tiles, block = arch.tiles, arch.numeric.block
    if shards is not None and not 1 <= shards <= tiles:
        raise InputError(
            f"{shards} KV shards on {tiles} tiles; give 1..{tiles} or a larger topology"
        )
    most = tiles // (shards or 1)
    groups = max(
        g
        for g in range(1, min(most, shape.kv_heads) + 1)
        if shape.kv_heads % g == 0 and (g == 1 or shape.heads // g * shape.head_dim % block == 0)
    )
    _, columns = arch.topology.grid
    members = _digits(shards or tiles // groups, columns)
    return Arrangement(tiles=tiles, member_digits=members, group_digits=(groups,))


def _hidden(arch: Arch, split: str) -> Arrangement:
    rows, columns = arch.topology.grid
    if split == "2d":
        return Arrangement(tiles=arch.tiles, member_digits=(columns,), group_digits=(rows,))
    if split == "input":
        return Arrangement(tiles=arch.tiles, member_digits=(), group_digits=(columns, rows))
    return Arrangement(tiles=arch.tiles, member_digits=(columns, rows), group_digits=())


def plan(
    shape: ModelShape,
    arch: Arch,
    *,
    kv_shards: int | None = None,
    split: str = "2d",
    softmax: str = "exact",
    reduce: str = "direct",
    context: int | None = None,
    page: int = 16,
    residual_frac: int = RESIDUAL_FRAC,
) -> Mapping:
    """Place a model on an array.

    The defaults: as many attention groups as the KV heads and tiles allow, the other tiles as KV
    shards; the model's whole context. Raises InputError when a name is unknown or something
    doesn't fit.
    """
    for what, value, words in (
        ("split", split, SPLITS),
        ("softmax", softmax, SOFTMAXES),
        ("reduce", reduce, REDUCES),
    ):
        if value not in words:
            raise InputError(f"unknown {what} {value!r}; give {', '.join(words)}")
    context = shape.context if context is None else context
    if not 1 <= context <= shape.context:
        raise InputError(
            f"context {context} is outside 1..{shape.context}, what {shape.name} was trained for"
        )
    if page < 1:
        raise InputError(f"page {page} is not a number of positions; give 1 or more, 16 is usual")
    if not 6 <= residual_frac <= 20:
        raise InputError(
            f"residual_frac {residual_frac} is outside 6..20; {RESIDUAL_FRAC} is usual"
        )
    return Mapping(
        shape=shape,
        arch=arch,
        attention=_attention(shape, arch, kv_shards),
        hidden=_hidden(arch, split),
        context=context,
        page=page,
        softmax=softmax,
        reduce=reduce,
        split=split,
        residual_frac=residual_frac,
    )
