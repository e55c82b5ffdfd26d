"""Topology: a product of dimensions with its nodes, ports, links and routes.

`Topology.parse` reads one notation everywhere:

    mesh:8x8        line x line on the die          torus:4x4x4   ring x ring x ring on the die
    flat:64         every pair of tiles linked      flat:8x8      full x full
    line:4 ring:8   one dimension                   switch:72     all tiles on one switch
    tiered:4x4x8    dimensions on die, package, board, rack, optical in turn: a line on the die,
                    full above it, so line4@die,full4@package,full8@board
    line4@die,line4@die,full8@board,ring4@rack(latency=400)     any product, dimension by dimension

Nodes are the tiles 0..tiles-1, the first dimension varying fastest, then the switch nodes. At a
tile port 0 is the network interface and link ports count from 1, dimension after dimension, the
same at every tile (a line's end has a port without a link). At a switch node port 0 is unused and
port 1 + c leads to the tile of coordinate c.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property

from tokenpath.hw.arch.dims import (
    MAX_TILES,
    SHAPES,
    TIER_NAMES,
    TIERS,
    Dim,
    Tier,
    parse_size,
    unknown,
)
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.product import Product
from tokenpath.hw.arch.routing import Channel, check_deadlock_free

__all__ = ["MAX_TILES", "SHAPES", "TIERS", "TIER_NAMES", "Dim", "Link", "Tier", "Topology"]

_WORDS = {"mesh": "line", "torus": "ring", "flat": "full", "line": "line", "ring": "ring"}
_WORDS |= {"full": "full", "switch": "switch"}
_EXAMPLES = "write it as mesh:8x8, torus:4x4x4, flat:64, tiered:4x4x8 or line4@die,full8@board"


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One way of a wire: from output `src_port` of node `src` to input `dst_port` of `dst`."""

    index: int
    src: int
    src_port: int
    dst: int
    dst_port: int
    dim: int
    tier: Tier


@dataclass(frozen=True, kw_only=True)
class Topology(Product):
    """The network over a product of `dims`; immutable, hashable, equal by its dims.

    Distances, cuts and the logical grid are those of Product.
    """

    @classmethod
    def parse(cls, text: str) -> "Topology":
        """Read the notation of this module; raises InputError."""
        try:
            return cls(dims=tuple(_parse_dims(text.strip().lower())))
        except InputError as error:
            shown = text if len(text) <= 60 else f"{text[:60]}..."
            raise InputError(f"topology {shown!r}: {error}") from None

    def __str__(self) -> str:
        """Canonical text, `parse` of which is equal to this topology."""
        shapes = {dim.shape for dim in self.dims}
        if len(shapes) == 1 and all(dim.tier == TIERS["die"] for dim in self.dims):
            shape = shapes.pop()
            several = {"line": "mesh", "ring": "torus"} if len(self.dims) > 1 else {}
            word = several.get(shape, "flat" if shape == "full" else shape)
            return f"{word}:{'x'.join(str(dim.size) for dim in self.dims)}"
        return ",".join(map(str, self.dims))

    @cached_property
    def switch_base(self) -> tuple[int, ...]:
        """Per dimension: its first switch node (of tiles / size, if it has a hub); then `nodes`."""
        base = [self.tiles]
        for dim in self.dims:
            base.append(base[-1] + (self.tiles // dim.size if dim.has_hub else 0))
        return tuple(base)

    @property
    def nodes(self) -> int:
        """Tiles and switch nodes together."""
        return self.switch_base[-1]

    def switch_of(self, node: int) -> tuple[int, int]:
        """(dimension, tile at coordinate 0) of a switch node; raises InputError for others."""
        if not self.tiles <= node < self.nodes:
            raise InputError(f"switch node {node} of {self}: use {self.tiles} to {self.nodes - 1}")
        dim = next(i for i in range(len(self.dims)) if node < self.switch_base[i + 1])
        above, below = divmod(node - self.switch_base[dim], self.strides[dim])
        return dim, above * self.strides[dim] * self.dims[dim].size + below

    def _hub(self, tile: int, dim: int) -> int:
        above, inside = divmod(tile, self.strides[dim] * self.dims[dim].size)
        return self.switch_base[dim] + above * self.strides[dim] + inside % self.strides[dim]

    @cached_property
    def port_base(self) -> tuple[int, ...]:
        """Per dimension: its first port at a tile; then the number of ports of a tile."""
        base = [1]
        for dim in self.dims:
            base.append(base[-1] + dim.ports)
        return tuple(base)

    def ports(self, node: int) -> int:
        """Number of ports of `node`, port 0 included."""
        if 0 <= node < self.tiles:
            return self.port_base[-1]
        return 1 + self.dims[self.switch_of(node)[0]].size

    def port_dim(self, node: int, port: int) -> int:
        """The dimension of link port `port` at `node`; raises InputError for other ports."""
        if not 1 <= port < self.ports(node):
            raise InputError(f"link port {port} of node {node}: use 1 to {self.ports(node) - 1}")
        if node >= self.tiles:
            return self.switch_of(node)[0]
        return next(i for i in range(len(self.dims)) if port < self.port_base[i + 1])

    def neighbour(self, node: int, port: int) -> tuple[int, int] | None:
        """Where output `port` leads: (node, its input port); None for port 0 or without a link."""
        if port == 0:
            return None
        i = self.port_dim(node, port)
        dim, stride, base = self.dims[i], self.strides[i], self.port_base[i]
        if node >= self.tiles:
            return self.switch_of(node)[1] + (port - 1) * stride, base
        x = node // stride % dim.size
        arrived = dim.step(x, port - base)
        if arrived is None:
            return None
        y, back = arrived
        if y == dim.size:
            return self._hub(node, i), 1 + back
        return node + (y - x) * stride, base + back

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """All links by source node, then port; links[i].index == i. (`link_count` builds none.)"""
        links: list[Link] = []
        for node in range(self.nodes):
            for port in range(1, self.ports(node)):
                arrived = self.neighbour(node, port)
                if arrived is not None:
                    dim, (dst, dst_port) = self.port_dim(node, port), arrived
                    links.append(
                        Link(index=len(links), src=node, src_port=port, dst=dst,
                             dst_port=dst_port, dim=dim, tier=self.dims[dim].tier)
                    )  # fmt: skip
        return tuple(links)

    @property
    def vcs(self) -> int:
        """Virtual channels that routing needs: 2 with a ring of 3 or more (dateline), else 1."""
        return 2 if any(dim.is_ring for dim in self.dims) else 1

    def dim_table(self, dim: int) -> tuple[tuple[tuple[int, int], ...], ...]:
        """[coordinate here][coordinate of dest] -> (port offset, vc) within dimension `dim`.

        The whole of `next_hop` at a tile: in the first dimension whose coordinates differ, port =
        port_base[dim] + offset. At a switch node of `dim`: port = 1 + coordinate of dest, vc 0.
        """
        return self.dims[dim].table

    def next_hop(self, node: int, dest: int) -> tuple[int, int]:
        """(output port, virtual channel) at `node` for a packet to tile `dest`; (0, 0) at dest.

        The dimensions in listed order, minimal in each. Raises InputError unless dest is a tile.
        """
        self._check_tile(dest)
        if not 0 <= node < self.tiles:
            dim = self.switch_of(node)[0]
            return 1 + dest // self.strides[dim] % self.dims[dim].size, 0
        for i, dimension in enumerate(self.dims):
            x, d = node % dimension.size, dest % dimension.size
            if x != d:
                offset, vc = dimension.route(x, d)
                return self.port_base[i] + offset, vc
            node, dest = node // dimension.size, dest // dimension.size
        return 0, 0

    def path(self, src: int, dest: int) -> list[Channel]:
        """The channels (node, port, vc) from tile `src` to tile `dest`, in order; [] to itself."""
        self._check_tile(src)
        path, node = [], src
        while node != dest:
            port, vc = self.next_hop(node, dest)
            path.append((node, port, vc))
            arrived = self.neighbour(node, port)
            assert arrived is not None, f"{self}: no link at port {port} of node {node}"
            node = arrived[0]
        return path

    def node_name(self, node: int) -> str:
        """`(3,0)` for a tile, `(*,0)` for the switch of the first dimension there."""
        if node < self.tiles:
            return f"({','.join(map(str, self.coordinates(node)))})"
        dim, tile = self.switch_of(node)
        names = list(map(str, self.coordinates(tile)))
        names[dim] = "*"
        return f"({','.join(names)})"

    def channel_name(self, channel: Channel) -> str:
        """`(3,0)+x vc0`; a link of `full` or from a switch to coordinate 5 is `(3,0)x5 vc0`."""
        node, port, vc = channel
        return f"{self.node_name(node)}{self.port_name(node, port)} vc{vc}"

    def port_name(self, node: int, port: int) -> str:
        """The way of link port `port`: `+x`; of `full` or from a switch `x5`; to a switch `x*`."""
        i = self.port_dim(node, port)
        letter = "xyzw"[i] if len(self.dims) <= 4 else f"d{i}:"
        shape, arrived = self.dims[i].shape, self.neighbour(node, port)
        if shape in ("line", "ring"):
            return f"{'+-'[port - self.port_base[i]]}{letter}"
        if arrived is None or arrived[0] >= self.tiles:
            return f"{letter}*"
        return f"{letter}{self.coordinates(arrived[0])[i]}"

    def dim_channel(self, dim: int, channel: Channel) -> Channel:
        """The channel (position, port offset, vc) of dimension `dim`, other coordinates 0."""
        position, offset, vc = channel
        if position == self.dims[dim].size:
            return self._hub(0, dim), 1 + offset, vc
        return position * self.strides[dim], self.port_base[dim] + offset, vc

    def describe(self) -> dict[str, object]:
        """What `topology show` prints, ready for JSON; proves freedom from deadlock on the way."""
        return {
            "text": str(self),
            "tiles": self.tiles,
            "nodes": self.nodes,
            "dims": [{"size": d.size, "shape": d.shape, "tier": asdict(d.tier)} for d in self.dims],
            "ports_per_tile": self.port_base[-1],
            "vcs": self.vcs,
            "grid": list(self.grid),
            "diameter_hops": self.diameter_hops,
            "diameter_cycles": self.diameter_cycles,
            "mean_hops": self.mean_hops,
            "bisection_links": self.bisection_links,
            "bisection_flits_per_cycle": self.bisection_flits_per_cycle,
            "links": self.link_count,
            "links_per_tier": self.links_per_tier,
            "deadlock_free": asdict(check_deadlock_free(self)),
        }


def _parse_dims(text: str) -> Iterator[Dim]:
    word, colon, sizes = text.partition(":")
    if not colon:
        for part in re.split(r",(?![^(]*\))", text):
            yield _parse_dim(part.strip())
        return
    if word not in (*_WORDS, "tiered"):
        raise unknown("word", word, (*_WORDS, "tiered"))
    numbers = [parse_size(size) for size in sizes.split("x")]
    if word != "tiered":
        for size in numbers:
            yield Dim(size=size, shape=_WORDS[word])
        return
    if len(numbers) > len(TIER_NAMES):
        raise InputError(
            f"{len(numbers)} tiers: use at most {len(TIER_NAMES)}, or name each dimension"
        )
    for size, name in zip(numbers, TIER_NAMES, strict=False):
        yield Dim(size=size, shape="line" if name == "die" else "full", tier=TIERS[name])


def _parse_dim(part: str) -> Dim:
    if not re.fullmatch(r"[a-z]+[0-9]+(@.*)?", part):
        raise InputError(f"{part!r:.40} is no dimension: {_EXAMPLES}")
    return Dim.parse(part)
