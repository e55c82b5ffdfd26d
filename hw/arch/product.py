"""The geometry of a product of dimensions: coordinates, distances, cuts, the logical grid.

All closed forms over the dimensions, cheap for any number of tiles. Ports, links and routes are
`topology.Topology`, which is a Product.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tokenpath.hw.arch.dims import MAX_TILES, Dim
from tokenpath.hw.arch.errors import InputError

_MAX_DIMS = 24


@dataclass(frozen=True, kw_only=True)
class Product:
    """A product of `dims`, the first varying fastest. Raises InputError above 2**24 tiles."""

    dims: tuple[Dim, ...]

    def __post_init__(self) -> None:
        dims = self.dims
        if not isinstance(dims, tuple) or not all(isinstance(dim, Dim) for dim in dims):
            raise InputError(f"dims are {dims!r:.60}: give a tuple of Dim")
        if not 1 <= len(dims) <= _MAX_DIMS:
            raise InputError(f"{len(dims)} dimensions: use 1 to {_MAX_DIMS}")
        if self.tiles > MAX_TILES:
            raise InputError(f"topology of {self.tiles} tiles: use at most {MAX_TILES}")

    @cached_property
    def tiles(self) -> int:
        """Number of tiles."""
        return math.prod(dim.size for dim in self.dims)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Per dimension: tile = sum(coordinate * stride)."""
        return tuple(math.prod(dim.size for dim in self.dims[:i]) for i in range(len(self.dims)))

    @property
    def tile_bits(self) -> int:
        """Width of a field that holds any tile, at least 1."""
        return max(1, (self.tiles - 1).bit_length())

    def coordinates(self, tile: int) -> tuple[int, ...]:
        """One coordinate per dimension; raises InputError unless 0 <= tile < tiles."""
        self._check_tile(tile)
        return tuple(tile // s % dim.size for s, dim in zip(self.strides, self.dims, strict=True))

    def tile_at(self, coordinates: tuple[int, ...]) -> int:
        """The inverse of `coordinates`; raises InputError outside of the dimensions."""
        sizes = [dim.size for dim in self.dims]
        if len(coordinates) != len(sizes) or any(
            not 0 <= x < size for x, size in zip(coordinates, sizes, strict=True)
        ):
            raise InputError(f"coordinates {coordinates}: give one below each of {sizes}")
        return sum(x * stride for x, stride in zip(coordinates, self.strides, strict=True))

    def _check_tile(self, tile: int) -> None:
        if not 0 <= tile < self.tiles:
            raise InputError(f"tile {tile} of {self}: use 0 to {self.tiles - 1}")

    def _distances(self, src: int, dest: int) -> Iterator[tuple[int, Dim]]:
        for x, d, dim in zip(self.coordinates(src), self.coordinates(dest), self.dims, strict=True):
            yield dim.hops(x, d), dim

    def hops(self, src: int, dest: int) -> int:
        """Links on the route from tile `src` to tile `dest`; a switch costs two."""
        return sum(hops for hops, _ in self._distances(src, dest))

    def distance_cycles(self, src: int, dest: int) -> int:
        """Link latencies along the route, in cycles: no router, no serialisation, no load."""
        return sum(hops * dim.tier.latency_cycles for hops, dim in self._distances(src, dest))

    @property
    def diameter_hops(self) -> int:
        """Most `hops` of any pair of tiles."""
        return sum(dim.diameter for dim in self.dims)

    @property
    def diameter_cycles(self) -> int:
        """Most `distance_cycles` of any pair of tiles."""
        return sum(dim.diameter * dim.tier.latency_cycles for dim in self.dims)

    @property
    def mean_hops(self) -> float:
        """Mean `hops` over all ordered pairs of different tiles; 0 for one tile."""
        total = sum(dim.total_hops * (self.tiles // dim.size) ** 2 for dim in self.dims)
        return total / (self.tiles * (self.tiles - 1)) if self.tiles > 1 else 0.0

    @cached_property
    def _bisection(self) -> tuple[float, int]:
        cuts = (
            (dim.cut * (self.tiles // dim.size), dim.tier.cycles_per_flit)
            for dim in self.dims
            if dim.size > 1
        )
        return min(((links / cycles, links) for links, cycles in cuts), default=(0.0, 0))

    @property
    def bisection_flits_per_cycle(self) -> float:
        """Flits/cycle in one direction over the narrowest cut that halves a dimension.

        A cut parts coordinates below size // 2 of one dimension from the others (a switch node
        goes to the larger part); the dimension is chosen that gives the fewest flits/cycle. With
        even sizes the parts are halves of the tiles; with odd ones the smaller part has
        (size - 1) / (2 size) of them. One tile: 0.
        """
        return self._bisection[0]

    @property
    def bisection_links(self) -> int:
        """Links in one direction over the cut of `bisection_flits_per_cycle`."""
        return self._bisection[1]

    @cached_property
    def grid(self) -> tuple[int, int]:
        """(rows, columns) of a logical grid of the tiles: tile = row * columns + column.

        The dimensions are parted in a leading group, whose product is the columns, and a trailing
        one, the rows, as near to a square as possible; of two equally near the one with more
        columns. A single dimension (longer than 1) is factored, rows <= columns.
        """
        sizes = [dim.size for dim in self.dims if dim.size > 1]
        if len(sizes) > 1:
            columns = [math.prod(sizes[:i]) for i in range(1, len(sizes))]
            best = min(columns, key=lambda c: (max(c, self.tiles // c), -c))
            return self.tiles // best, best
        rows = next(r for r in range(math.isqrt(self.tiles), 0, -1) if self.tiles % r == 0)
        return rows, self.tiles // rows

    def factor_grid(self) -> tuple[int, int]:
        """`grid`, as a call."""
        return self.grid

    @property
    def link_count(self) -> int:
        """Number of links, each direction counted; `len(links)` without building them."""
        return sum(self.links_per_tier.values())

    @property
    def links_per_tier(self) -> dict[str, int]:
        """Links, each direction counted, by tier as text."""
        count: Counter[str] = Counter()
        for dim in self.dims:
            if dim.links:
                count[str(dim.tier)] += dim.links * (self.tiles // dim.size)
        return dict(count)
