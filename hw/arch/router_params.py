"""RouterParams: kinds of routers and their sizes."""

import re
from dataclasses import dataclass
from pathlib import Path

from . import deflection
from .dims import Dim, Tier
from .errors import InputError, require

ROUTERS = ("wormhole", "vc", "deflection")
ALLOCATORS = ("input_first", "output_first", "wavefront")
ARBITERS = ("round_robin", "matrix")
ROUTINGS = ("dimension_order", "o1turn", "west_first", "odd_even", "table")
SWITCHINGS = ("wormhole", "cut_through", "bubble")

MOST_ROUTES = 1 << 24
"""Bytes of a routing table's file."""

MOST_MATCHED = 32
"""Ports of a router that matches all inputs and outputs at once."""

_CHOICES = {"allocator": ALLOCATORS, "arbiter": ARBITERS, "routing": ROUTINGS}
_CHOICES |= {"switching": SWITCHINGS}
_SIZES = {"vcs": 8, "stages": 3, "iterations": 4}
_FORM = "write it as wormhole-d4, vc2-d4, vc4-d8-s2 or deflection"


@dataclass(frozen=True, kw_only=True)
class RouterParams:
    """Router microarchitecture.

    ``wormhole``: one cycle a hop, ``depth`` flits a virtual channel (VC), round robin; the VCs that
    the topology needs, one or, in a ring, two. ``vc``: the same with ``vcs`` VCs on every link, of
    which a packet takes any that its route allows, and everything below to choose. ``deflection``:
    no buffers but a register at each input, packets of one flit, one cycle a hop, nothing to choose
    (``hw.arch.deflection``).

    ``local_depth``: flits of a VC's buffer at the local port, 0 for ``depth``. ``stages``: with 2 a
    register between switch allocation and the link, which adds a cycle to every hop; with 3 a head
    takes its VC in the cycle before it asks for the switch.
    ``allocator``, ``arbiter`` and ``iterations`` (of output_first; more than one is iSLIP):
    ``hw.arch.allocation``. ``routing``: ``hw.arch.ways``; west_first and odd_even are adaptive.
    ``switching``: with cut_through a credit is room for a whole packet, of which a buffer has
    ``depth`` over the flits of the longest; with bubble, too, a ring needs no dateline, as a packet
    enters only where room for another is left. ``ordered``: the VC of a packet follows from its
    destination, so that packets from one tile to another stay in order. ``routes``: with routing
    table that table, as text (``hw.arch.route_table``).
    """

    kind: str = "wormhole"
    depth: int = 4
    local_depth: int = 0
    vcs: int = 1
    stages: int = 1
    allocator: str = "input_first"
    iterations: int = 1
    arbiter: str = "round_robin"
    routing: str = "dimension_order"
    switching: str = "wormhole"
    ordered: bool = False
    routes: str = ""

    def __post_init__(self) -> None:
        require(self.kind in ROUTERS, f"unknown router {self.kind!r}; give {' or '.join(ROUTERS)}")
        require(
            1 <= self.depth <= 64,
            f"router depth {self.depth} flits is outside 1..64; the default is 4",
        )
        require(
            self.kind != "deflection" or self.depth == RouterParams.depth,
            f"a deflection router has no depth to choose, not {self.depth}; leave it out",
        )
        require(
            0 <= self.local_depth <= 64 and (self.kind != "deflection" or not self.local_depth),
            f"router local_depth {self.local_depth} flits is outside 0..64, or of a deflection "
            "router, which has none; give 0 for that of the links",
        )
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            require(
                value in choices, f"unknown router {name} {value!r}; give {' or '.join(choices)}"
            )
        for name, most in _SIZES.items():
            value = getattr(self, name)
            require(1 <= value <= most, f"router {name} {value} is outside 1..{most}")
        for name, default in {**_DEFAULTS, "vcs": 1, "stages": 1}.items():
            require(
                getattr(self, name) == default or self.kind == "vc",
                f"a {self.kind} router has no {name} to choose; give kind 'vc'",
            )
        require(
            self.iterations == 1 or self.allocator == "output_first",
            f"router iterations {self.iterations} need the allocator output_first, not "
            f"{self.allocator}",
        )
        require(
            self.routing != "o1turn" or self.vcs % 2 == 0,
            f"o1turn needs a half of the VCs for each order of dimensions; router vcs {self.vcs} "
            "is odd",
        )
        require(
            (self.routing == "table") == bool(self.routes),
            "routing table needs routes, and no other routing has some; give table=FILE.csv, such "
            "as 'tokenpath topology routes' writes",
        )
        require(
            self.routing != "table" or self.switching != "bubble",
            "switching bubble is for rings in dimension order, not for routing table; give "
            "cut_through or wormhole",
        )
        require(
            not self.ordered or self.routing in ("dimension_order", "table"),
            f"routing {self.routing} doesn't keep packets in order; leave 'ordered' out",
        )
        require(
            not self.ordered or self.vcs & (self.vcs - 1) == 0,
            f"router vcs {self.vcs} is no power of two, which 'ordered' needs; give 1, 2, 4 or 8",
        )

    @classmethod
    def parse(cls, text: str) -> "RouterParams":
        """Read ``deflection``, ``wormhole-d4``, ``vc4-d8-s2``, ``vc2-d4-l8``: kind and VCs, depth,
        that of the local port and stages where they are given; behind them, in any order, a choice
        each: ``output_first``, ``islip2`` (output_first of two iterations), ``wavefront``,
        ``matrix``, ``o1turn``, ``west_first``, ``odd_even``, ``cut_through``, ``bubble``,
        ``ordered``; at the end ``table=FILE``, which is read.

        Raises InputError.
        """
        text, table, file = text.partition("-table=")
        if text == "deflection":
            return cls(kind=text)
        found = re.fullmatch(
            r"([a-z]+?)(\d*)-d(\d+)(?:-l(\d+))?(?:-s(\d+))?((?:-[a-z][a-z_0-9]+)*)", text
        )
        require(found is not None, f"router {text!r}: {_FORM}")
        assert found is not None
        kind, vcs, depth, local, stages, rest = found.groups()
        require(kind != "deflection", f"router {text!r}: deflection has nothing to choose; {_FORM}")
        require(kind != "vc" or bool(vcs), f"router {text!r}: how many VCs? {_FORM}")
        require(
            kind != "wormhole" or not vcs,
            f"router {text!r}: a wormhole router has no vcs to choose; give kind 'vc'",
        )
        chosen: dict[str, object] = {}
        for word in rest.split("-")[1:]:
            one = _word(word)
            require(bool(one), f"router {text!r}: unknown {word!r}; give {', '.join(_WORDS)}")
            require(not chosen.keys() & one.keys(), f"router {text!r}: {word!r} is a second choice")
            chosen |= one
        if table:
            require("routing" not in chosen, f"router {text!r}: a table is a second routing")
            chosen |= {"routing": "table", "routes": routes_of(Path(file))}
        return cls(
            kind=kind, depth=int(depth), local_depth=int(local or 0), vcs=int(vcs or 1),
            stages=int(stages or 1),
            **chosen,  # type: ignore[arg-type]
        )  # fmt: skip

    def __str__(self) -> str:
        """Canonical text, ``parse`` of which is equal to these parameters."""
        if self.kind == "deflection":
            return self.kind
        parts = [self.kind + (str(self.vcs) if self.kind == "vc" else ""), f"d{self.depth}"]
        parts += [f"l{self.local_depth}"] if self.local_depth else []
        parts += [f"s{self.stages}"] if self.stages > 1 else []
        if self.iterations > 1:
            parts.append(f"islip{self.iterations}")
        elif self.allocator != "input_first":
            parts.append(self.allocator)
        for name in ("arbiter", "routing", "switching"):
            if getattr(self, name) != _DEFAULTS[name]:
                parts.append(getattr(self, name))
        return "-".join([*parts, *(["ordered"] if self.ordered else [])])

    def channels(self, dims: tuple[Dim, ...]) -> int:
        """VCs of a link, the most of any. Raises InputError for dims that routing or allocator are
        not for, or where a ring would not have two classes."""
        ring = any(dim.is_ring for dim in dims)
        shapes = [dim.shape for dim in dims]
        if self.kind == "deflection":
            deflection.check_dims(dims)
            return 1
        if self.kind == "wormhole":
            return 2 if ring else 1
        require(
            not ring or not self.dateline or self.vcs % 2 == 0,
            f"router vcs {self.vcs} can't be halved at a ring's dateline; give an even number",
        )
        require(
            not ring or self.routing in ("dimension_order", "table"),
            f"routing {self.routing} has no dateline for a ring; give dimension_order",
        )
        require(
            self.routing not in ("west_first", "odd_even") or shapes == ["line", "line"],
            f"routing {self.routing} is for two lines, not for {len(dims)} dimensions of "
            f"{' and '.join(sorted(set(shapes)))}; give mesh:NxM",
        )
        ports = max(1 + sum(dim.ports for dim in dims), *(1 + d.size for d in dims if d.has_hub), 1)
        require(
            self.allocator == "input_first" or ports <= MOST_MATCHED,
            f"router allocator {self.allocator} is for at most {MOST_MATCHED} ports, not for "
            f"{ports}; give input_first, or smaller dimensions",
        )
        return self.vcs

    def allowed(self, dim: Dim | None, dateline: int, vc: int = 0) -> int:
        """The VCs, a bit each, that a packet on ``vc`` may take on a link of ``dim`` (None: to its
        tile): of a ring, the half of its dateline class (0, 1 behind it)."""
        if self.kind == "wormhole":
            return 1 << dateline
        rings = dim is not None and dim.is_ring and self.dateline
        size = self.vcs // 2 if rings or self.routing == "o1turn" else self.vcs
        first = size * (dateline if rings else self.order(vc))
        return 1 << (first + vc % size) if self.ordered else ((1 << size) - 1) << first

    def order(self, vc: int) -> int:
        """1 where a packet on ``vc`` takes the dimensions the other way round."""
        return int(self.routing == "o1turn" and vc >= self.vcs // 2)

    @property
    def dateline(self) -> bool:
        """Whether the VCs of a ring are halved: before its dateline, and behind it."""
        return self.switching != "bubble" and self.routing != "table"

    @property
    def keeps_order(self) -> bool:
        """Whether packets from one tile to another arrive as they were sent."""
        return self.kind != "deflection" and not self.adaptive and (self.vcs == 1 or self.ordered)

    def check_programs(self) -> None:
        """Raises InputError for a router that programs can't run on."""
        require(
            self.kind != "deflection",
            "a deflection router takes packets of one flit, and changes their order: programs need "
            "whole packets; give router kind 'wormhole' or 'vc'",
        )

    @property
    def adaptive(self) -> bool:
        """Whether a packet may have two outputs to choose from."""
        return self.routing in ("west_first", "odd_even")

    @property
    def whole_packets(self) -> bool:
        """Whether a credit is room for a packet, not for a flit."""
        return self.switching != "wormhole"

    @property
    def knows_ahead(self) -> bool:
        """Whether its hardware keeps in registers who will have a credit in the next cycle."""
        return self.stages < 3 and not (self.whole_packets or self.adaptive)

    @property
    def local(self) -> int:
        """VCs of the port between a tile and its router, both ways."""
        return self.vcs

    @property
    def local_flits(self) -> int:
        """Depth of the buffer between a tile and its router."""
        if self.kind == "deflection":
            return deflection.SLOTS
        return self.local_depth or self.depth

    @property
    def extra_cycles(self) -> int:
        """Cycles that a flit spends in the router behind that of its grant."""
        return min(self.stages, 2) - 1

    def buffer_flits(self, tier: Tier) -> int:
        """Depth of an input buffer behind a link: ``depth``, and what the credit loop of a
        longer link adds."""
        return self.depth + -(-2 * (tier.latency_cycles - 1) // tier.cycles_per_flit)

    def slots(self, flits: int, packet_flits: int) -> int:
        """Credits for a buffer of ``flits``: flits, or packets of the longest kind.

        Raises InputError where no packet fits, or no bubble beside it.
        """
        if not self.whole_packets:
            return flits
        least = 2 * packet_flits if self.switching == "bubble" else packet_flits
        require(
            flits >= least,
            f"router depth {flits} flits is too little for {self.switching} with packets of "
            f"{packet_flits} flits; give at least {least}, or smaller packets (max_packet_words)",
        )
        return flits // packet_flits


_DEFAULTS = {name: getattr(RouterParams, name) for name in (*_CHOICES, "iterations", "ordered")}
_WORDS = (
    "output_first", "islip2", "wavefront", "matrix", "o1turn", "west_first", "odd_even",
    "cut_through", "bubble", "ordered",
)  # fmt: skip


def _word(word: str) -> dict[str, object]:
    """The field that a word of a router's text sets, or none."""
    if word == "ordered":
        return {"ordered": True}
    islip = re.fullmatch(r"islip(\d)", word)
    if islip:
        return {"allocator": "output_first", "iterations": int(islip[1])}
    words = _CHOICES.items()
    return {name: word for name, choices in words if word in choices[1:] and word != "table"}


def routes_of(file: Path) -> str:
    """The text of a routing table's file. Raises InputError if it can't be read or is too long."""
    try:
        size = file.stat().st_size
        require(
            size <= MOST_ROUTES,
            f"routing table {str(file)!r} has {size:,} bytes; give at most {MOST_ROUTES:,}",
        )
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"can't read the routing table {str(file)!r}: {error}; give a CSV file, such as "
            "'tokenpath topology routes' writes"
        ) from None
