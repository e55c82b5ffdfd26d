"""The units that can be measured alone, sized by an Arch."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.timing import put_flits
from tokenpath.hw.compute import Compute
from tokenpath.hw.exp2 import Exp2
from tokenpath.hw.reciprocal import Reciprocal
from tokenpath.hw.routers import constants_of, make_injector, make_router
from tokenpath.hw.rsqrt import Rsqrt
from tokenpath.hw.sigmoid import Sigmoid
from tokenpath.hw.sink import Sink
from tokenpath.hw.tile import Tile
from tokenpath.hw.words import ADDRESS_BITS

WORD_BITS = 32
FLIT_WORDS = range(1, 65)


@dataclass(frozen=True)
class Unit:
    """A component, and the inputs that are constants where it is used."""

    component: Any
    ties: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What units are sized by: an Arch, and flits of any size (an Arch's have at least 2 words)."""

    arch: Arch
    flit_words: int

    def __post_init__(self) -> None:
        if self.flit_words not in FLIT_WORDS:
            raise InputError(f"flit words {self.flit_words} is outside 1..64; 1 is 32 bits")

    @property
    def whole(self) -> Arch:
        """The Arch with the flits."""
        return replace(self.arch, flit_words=self.flit_words)

    @property
    def flits(self) -> dict[str, Any]:
        """Shape of the flits of its network."""
        return {
            "flit_words": self.flit_words,
            "vcs": self.arch.vcs,
            "lanes": self.arch.router.local,
        }

    @property
    def constants(self) -> dict[str, int]:
        """A tile in the middle, where every port is used."""
        tile = 0
        for dim in reversed(self.arch.topology.dims):
            tile = tile * dim.size + (dim.size - 1) // 2
        return constants_of(self.arch, tile)


def _router(sizes: Sizes) -> Unit:
    arch = sizes.arch
    dims, words = arch.topology.dims, sizes.flit_words
    packet_flits = put_flits(arch.max_packet_words, words)
    router = make_router(dims=dims, flit_words=words, params=arch.router, packet_flits=packet_flits)
    return Unit(router, sizes.constants)


def _injector(sizes: Sizes) -> Unit:
    arch = sizes.arch
    return Unit(make_injector(arch=arch, flit_words=sizes.flit_words, descriptors=arch.descriptors))


def _compute(sizes: Sizes) -> Compute:
    return Compute(arch=sizes.arch, address_bits=ADDRESS_BITS)


UNITS: dict[str, tuple[str, Callable[[Sizes], Unit]]] = {
    "router": ("the router of a tile in the middle", _router),
    "tile": ("a tile with its memories", lambda s: Unit(Tile(arch=s.whole), s.constants)),
    "compute": ("the compute engine", lambda s: Unit(_compute(s))),
    "lanes": ("the multipliers behind the store", lambda s: Unit(_compute(s).lanes)),
    "vector": ("the vector unit", lambda s: Unit(_compute(s).unit)),
    "injector": ("from memory to the router", _injector),
    "sink": ("from the router to memory", lambda s: Unit(Sink(**s.flits))),
    "exp2": ("2^x of scores", lambda s: Unit(Exp2(frac=s.arch.numeric.score_frac))),
    "reciprocal": ("1/x", lambda s: Unit(Reciprocal(width=WORD_BITS - 1))),
    "rsqrt": ("1/sqrt(x)", lambda s: Unit(Rsqrt(width=2 * WORD_BITS - 1))),
    "sigmoid": ("1/(1 + e^-x)", lambda s: Unit(Sigmoid())),
}
"""Name: what it is, and how it is made."""


def build(name: str, sizes: Sizes) -> Unit:
    """The unit of that name. Raises InputError for an unknown one."""
    # a part of a whole leaves the rest of it without use
    warnings.filterwarnings("ignore", message=".* created but never used")
    if name not in UNITS:
        near = get_close_matches(name, UNITS, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(f"unknown unit {name!r}; {hint}units are {', '.join(UNITS)}")
    return UNITS[name][1](sizes)
