"""Where packets go: the patterns of the field (Dally and Towles, 2004, section 3.2)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.topology import Topology
from tokenpath.sim.fast.traffic import PERMUTATION, UNIFORM, WEIGHTS

I64 = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """Destinations by source (a permutation), or by chance (cumulated weights, 2**32 in all)."""

    name: str
    kind: int
    table: I64

    @classmethod
    def parse(cls, text: str, topology: Topology) -> "Pattern":
        """``uniform``, a permutation by name, or ``hotspot:TILE+TILE[@SHARE]``: that share of the
        traffic, all of it if none is given, goes to those tiles alike and the rest to the others.

        Raises InputError for another, or one that the topology doesn't have.
        """
        name, _, rest = text.partition(":")
        if name == "uniform" and not rest:
            return cls(name=text, kind=UNIFORM, table=np.zeros(1, np.int64))
        if name == "hotspot" and rest:
            return cls(name=text, kind=WEIGHTS, table=_hotspot(rest, topology))
        if name not in PERMUTATIONS or rest:
            raise InputError(
                f"unknown traffic {text!r}; give uniform, {', '.join(PERMUTATIONS)} or "
                "hotspot:27+28@0.2"
            )
        return cls(name=text, kind=PERMUTATION, table=PERMUTATIONS[name](topology))


def _hotspot(text: str, topology: Topology) -> I64:
    tiles, _, share = text.partition("@")
    try:
        hot, part = [int(tile) for tile in tiles.split("+")], float(share or 1)
    except ValueError:
        raise InputError(f"hotspot {text!r}: write it as 27+28+35+36@0.2") from None
    outside = [tile for tile in hot if not 0 <= tile < topology.tiles]
    if outside or len(set(hot)) < len(hot) or not 0 < part <= 1:
        raise InputError(
            f"hotspot {text!r}: give different tiles of 0..{topology.tiles - 1} and a share in 0..1"
        )
    others = topology.tiles - len(hot)
    weights = np.full(topology.tiles, (1 - part) / others if others else 0.0)
    weights[hot] = part / len(hot)
    cumulated: I64 = np.round(np.cumsum(weights) / weights.sum() * 2**32).astype(np.int64)
    cumulated[-1] = 1 << 32
    return cumulated


def _coordinates(topology: Topology) -> I64:
    """(dimensions, tiles)."""
    tile = np.arange(topology.tiles)
    pairs = zip(topology.dims, topology.strides, strict=True)
    return np.stack([tile // stride % dim.size for dim, stride in pairs])


def _tiles(coordinates: I64, topology: Topology) -> I64:
    tiles: I64 = np.array(topology.strides, np.int64) @ coordinates
    return tiles


def _sizes(topology: Topology) -> I64:
    return np.array([dim.size for dim in topology.dims], np.int64)[:, None]


def transpose(topology: Topology) -> I64:
    """Coordinates in reverse order."""
    sizes = [dim.size for dim in topology.dims]
    if sizes != sizes[::-1]:
        raise InputError(f"transpose needs equal dimensions, {topology} has {sizes}")
    return _tiles(_coordinates(topology)[::-1], topology)


def bitcomp(topology: Topology) -> I64:
    """Every coordinate to the opposite end."""
    return _tiles(_sizes(topology) - 1 - _coordinates(topology), topology)


def neighbor(topology: Topology) -> I64:
    """One on in every dimension."""
    return _tiles((_coordinates(topology) + 1) % _sizes(topology), topology)


def tornado(topology: Topology) -> I64:
    """Nearly half way round every dimension."""
    sizes = _sizes(topology)
    return _tiles((_coordinates(topology) + (sizes + 1) // 2 - 1) % sizes, topology)


PERMUTATIONS: dict[str, Callable[[Topology], I64]] = {
    "transpose": transpose,
    "bitcomp": bitcomp,
    "neighbor": neighbor,
    "tornado": tornado,
}
"""Destinations of all tiles by name of the permutation."""
