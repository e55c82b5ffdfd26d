"""RouterParams: kinds of routers and their sizes."""

import re
from dataclasses import dataclass

from .dims import Dim, Tier
from .errors import require

ROUTERS = ("wormhole", "vc")


@dataclass(frozen=True, kw_only=True)
class RouterParams:
    """Router microarchitecture.

    ``wormhole``: one cycle a hop, ``depth`` flits a virtual channel (VC), round robin; the VCs that
    the topology needs, one or, in a ring, two. ``vc``: the same with ``vcs`` VCs on every link, of
    which a packet takes any that its route allows, and, with ``stages`` of 2, a register between
    switch allocation and the link, which adds a cycle to every hop.
    """

    kind: str = "wormhole"
    depth: int = 4
    vcs: int = 1
    stages: int = 1

    def __post_init__(self) -> None:
        require(self.kind in ROUTERS, f"unknown router {self.kind!r}; give {' or '.join(ROUTERS)}")
        require(
            1 <= self.depth <= 64,
            f"router depth {self.depth} flits is outside 1..64; the default is 4",
        )
        for name, most in (("vcs", 8), ("stages", 2)):
            value = getattr(self, name)
            require(1 <= value <= most, f"router {name} {value} is outside 1..{most}")
            require(
                value == 1 or self.kind == "vc",
                f"a {self.kind} router has no {name} to choose; give kind 'vc'",
            )

    @classmethod
    def parse(cls, text: str) -> "RouterParams":
        """Read ``wormhole-d4`` or ``vc4-d8-s2``: kind and VCs, depth, stages (1 if not given).

        Raises InputError.
        """
        found = re.fullmatch(r"([a-z]+?)(\d*)-d(\d+)(?:-s(\d+))?", text)
        require(found is not None, f"router {text!r}: write it as wormhole-d4, vc2-d4 or vc4-d8-s2")
        assert found is not None
        kind, vcs, depth, stages = found.groups()
        return cls(kind=kind, depth=int(depth), vcs=int(vcs or 1), stages=int(stages or 1))

    def __str__(self) -> str:
        """Canonical text, ``parse`` of which is equal to these parameters."""
        vcs = str(self.vcs) if self.kind == "vc" else ""
        return f"{self.kind}{vcs}-d{self.depth}" + (f"-s{self.stages}" if self.stages > 1 else "")

    def channels(self, dims: tuple[Dim, ...]) -> int:
        """VCs of a link, the most of any. Raises InputError where a ring would not have two
        classes."""
        ring = any(dim.is_ring for dim in dims)
        if self.kind == "wormhole":
            return 2 if ring else 1
        require(
            not ring or self.vcs % 2 == 0,
            f"router vcs {self.vcs} can't be halved at a ring's dateline; give an even number",
        )
        return self.vcs

    def allowed(self, dim: Dim, dateline: int) -> int:
        """The VCs, a bit each, that a packet of a dateline class (0, 1 behind it) may take on a
        link of ``dim``: of a ring, its half."""
        if self.kind == "wormhole":
            return 1 << dateline
        if not dim.is_ring:
            return (1 << self.vcs) - 1
        half = self.vcs // 2
        return ((1 << half) - 1) << half * dateline

    @property
    def local(self) -> int:
        """VCs of the port between a tile and its router, both ways."""
        return self.vcs

    @property
    def extra_cycles(self) -> int:
        """Cycles that a flit spends in the router behind that of its grant."""
        return self.stages - 1

    def buffer_flits(self, tier: Tier) -> int:
        """Depth of an input buffer behind a link: ``depth``, and what the credit loop of a
        longer link adds."""
        return self.depth + -(-2 * (tier.latency_cycles - 1) // tier.cycles_per_flit)
