"""Arch: the frozen, checked description of one machine, its presets and its fingerprint."""

import hashlib
import json
import tomllib
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from .dims import Tier
from .errors import InputError, require
from .route_table import read_table
from .router_params import RouterParams, routes_of
from .timing import put_flits
from .topology import Topology


@dataclass(frozen=True, kw_only=True)
class Format:
    """Block-scaled elements: ``bits`` a signed element, ``mantissa_bits`` of the scale (0 is
    the OCP E8M0 scale)."""

    bits: int = 8
    mantissa_bits: int = 3

    def __post_init__(self) -> None:
        require(
            self.bits in (4, 8, 16), f"element bits {self.bits} is not supported; give 4, 8 or 16"
        )
        require(
            0 <= self.mantissa_bits <= 7,
            f"scale mantissa bits {self.mantissa_bits} is outside 0..7; the default is 3",
        )


@dataclass(frozen=True, kw_only=True)
class Numeric:
    """Formats of the three kinds of elements and the binary points of words (see
    docs/numerics.md).

    Words have 32 bits. ``act_frac`` is the binary point of activations and logits,
    ``score_frac`` that of attention scores in base 2; that of the residual stream belongs to
    the program, since models differ widely in its range.
    """

    block: int = 32
    weight: Format = field(default_factory=Format)
    kv: Format = field(default_factory=Format)
    act: Format = field(default_factory=Format)
    act_frac: int = 16
    score_frac: int = 12

    def __post_init__(self) -> None:
        require(
            self.block in (4, 8, 16, 32, 64),
            f"block {self.block} is not supported; give 4, 8, 16, 32 (OCP Microscaling) or 64",
        )
        require(
            self.weight.bits <= 8,
            f"weight bits {self.weight.bits} is too wide for the store; give 4 or 8",
        )
        require(self.kv.bits <= 8, f"kv bits {self.kv.bits} is too wide for the store; give 4 or 8")
        for name in ("act_frac", "score_frac"):
            value = getattr(self, name)
            require(
                8 <= value <= 20,
                f"{name} {value} is outside 8..20; the default is 16 (score_frac 12)",
            )

    def sum_frac(self, headroom: int) -> int:
        """Binary point of the sums of p, so that 2**headroom of them fit a word."""
        return min(16, 30 - headroom)

    def value_frac(self, headroom: int) -> int:
        """Binary point of the weighted sums of V, so that 2**headroom summands below 2**6 fit a
        word."""
        return min(16, 31 - headroom - 6)


@dataclass(frozen=True, kw_only=True)
class Arch:
    """One machine: an array of equal tiles on a topology.

    ``lanes`` multipliers as wide as the memory port, whole blocks; ``queries`` copies of them
    share a stream; ``vlanes`` 32-bit lanes of the vector unit. Sizes: ``operand_beats`` a
    query, ``append_beats``, ``score_rows`` a query, ``accumulator_beats`` a query, scratch and
    inbox of vector memory in words, store in beats. ``store_latency`` cycles from a read's
    issue to its beat; ``stream_depth`` beats may be on their way to the lanes.
    """

    name: str = "custom"
    topology: Topology = field(default_factory=lambda: Topology.parse("mesh:4x4"))
    clock_hz: int = 1_000_000_000
    numeric: Numeric = field(default_factory=Numeric)
    router: RouterParams = field(default_factory=RouterParams)
    lanes: int = 32
    queries: int = 4
    vlanes: int = 8
    operand_beats: int = 64
    append_beats: int = 32
    score_rows: int = 8192
    accumulator_beats: int = 8
    scratch_words: int = 1 << 15
    inbox_words: int = 1 << 15
    store_beats: int = 1 << 17
    store_latency: int = 3
    stream_depth: int = 16
    flit_words: int = 4
    max_packet_words: int = 62
    descriptors: int = 1 << 10
    code_words: int = 1 << 14

    def __post_init__(self) -> None:
        block = self.numeric.block
        require(
            self.lanes > 0 and self.lanes % block == 0,
            f"lanes {self.lanes} is not a multiple of the block of {block} elements; "
            f"give {max(1, self.lanes // block) * block}",
        )
        for name, low, high in _RANGES:
            value = getattr(self, name)
            require(
                low <= value <= high,
                f"{name} {value} is outside {low}..{high}; change it in the architecture",
            )
        require(
            self.vlanes & (self.vlanes - 1) == 0,
            f"vlanes {self.vlanes} is not a power of two, which the banks of vector memory need; "
            f"give {1 << max(1, self.vlanes.bit_length() - 1)}",
        )
        require(
            self.lanes % self.vlanes == 0 and self.lanes <= 4 * self.vlanes,
            f"vlanes {self.vlanes} doesn't suit {self.lanes} lanes: a beat fills "
            f"vector memory in one "
            f"to four cycles; give a divisor from {self.lanes // 4} to {self.lanes}",
        )
        require(
            self.queries <= 6 * self.vlanes,
            f"queries {self.queries} are too many for {self.vlanes} vlanes, whose maxima an AXPY "
            f"reads ahead; give at most {6 * self.vlanes}",
        )
        require(
            self.stream_depth > self.store_latency,
            f"stream_depth {self.stream_depth} can't hide a store latency of "
            f"{self.store_latency} cycles; "
            f"give at least {self.store_latency + 1}",
        )
        self.router.channels(self.topology.dims)
        if self.router.routing == "table":
            read_table(self.router.routes, self.topology)
        for flits in {self.router.local_flits, *map(self.router.buffer_flits, self._tiers)}:
            self.router.slots(flits, self.packet_flits)

    @property
    def _tiers(self) -> tuple[Tier, ...]:
        return tuple(dim.tier for dim in self.topology.dims)

    @property
    def packet_flits(self) -> int:
        """Flits of the longest packet."""
        return put_flits(self.max_packet_words, self.flit_words)

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return self.topology.tiles

    @property
    def vcs(self) -> int:
        """Virtual channels of a link, the most of any."""
        return self.router.channels(self.topology.dims)

    @property
    def vector_words(self) -> int:
        """Words of vector memory: scratch, then inbox."""
        return self.scratch_words + self.inbox_words

    @property
    def blocks_per_beat(self) -> int:
        """Blocks, and so scales, of one beat of the store."""
        return self.lanes // self.numeric.block

    @property
    def beat_bits(self) -> int:
        """Bits of one beat of the store: elements and their scales."""
        numeric = self.numeric
        element = max(numeric.weight.bits, numeric.kv.bits)
        mantissa = max(numeric.weight.mantissa_bits, numeric.kv.mantissa_bits)
        return self.lanes * element + self.blocks_per_beat * (8 + mantissa)

    @property
    def store_bytes(self) -> int:
        """Capacity of one tile's store in bytes, scales included."""
        return self.store_beats * self.beat_bits // 8

    def row_beats(self, elements: int) -> int:
        """Beats of a row of ``elements``."""
        return -(-elements // self.lanes)

    def as_dict(self) -> dict[str, Any]:
        """Plain nested values; :meth:`from_dict` reads them back."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any], base: "Arch | None" = None) -> "Arch":
        """An Arch from nested values over ``base``.

        Raises InputError for an unknown or ill-typed key, by name.
        """
        filled: Arch = _fill(base or cls(), values, "")
        return filled

    @classmethod
    def load(cls, name_or_path: str) -> "Arch":
        """A preset by name, or a TOML file of the fields to change (with ``preset = NAME`` as the
        base). ``router.routes`` may be the name of a CSV file beside it."""
        if name_or_path in PRESETS:
            return PRESETS[name_or_path]
        path = Path(name_or_path)
        if path.suffix != ".toml" and not path.exists():
            near = get_close_matches(name_or_path, PRESETS, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise InputError(
                f"unknown architecture {name_or_path!r}; {hint}presets are "
                f"{', '.join(PRESETS)}, or give a .toml file"
            )
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(
                f"no architecture file {name_or_path!r}; presets are {', '.join(PRESETS)}"
            ) from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(
                f"can't read the architecture {name_or_path!r}: {error}; give a TOML file"
            ) from None
        router = values.get("router")
        if isinstance(router, dict) and str(router.get("routes", "")).endswith(".csv"):
            router["routes"] = routes_of(path.parent / router["routes"])
        base = values.pop("preset", None)
        if base is not None and base not in PRESETS:
            raise InputError(
                f"unknown preset {base!r} in {name_or_path}; presets are {', '.join(PRESETS)}"
            )
        return cls.from_dict({"name": path.stem, **values}, PRESETS[base] if base else None)

    def on(
        self, topology: Topology | str | None = None, router: RouterParams | str | None = None
    ) -> "Arch":
        """The same tile on another topology, with another router."""
        topology = Topology.parse(topology) if isinstance(topology, str) else topology
        router = RouterParams.parse(router) if isinstance(router, str) else router
        return replace(self, topology=topology or self.topology, router=router or self.router)

    @property
    def fingerprint(self) -> str:
        """16 hex digits over every parameter but the name; stamped on programs and runs."""
        values = {k: v for k, v in self.as_dict().items() if k != "name"}
        values["tiers"] = [asdict(dim.tier) for dim in self.topology.dims]
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


_RANGES: tuple[tuple[str, int, int], ...] = (
    ("clock_hz", 1, 10**12),
    ("lanes", 4, 4096),
    ("queries", 1, 64),
    ("vlanes", 2, 1024),
    ("operand_beats", 1, 1 << 16),
    ("append_beats", 1, 1 << 12),
    ("score_rows", 1, 1 << 20),
    ("accumulator_beats", 1, 64),
    ("scratch_words", 16, 1 << 24),
    ("inbox_words", 16, 1 << 24),
    ("store_beats", 1, 1 << 31),
    ("store_latency", 1, 1000),
    ("stream_depth", 2, 4096),
    ("flit_words", 2, 64),
    ("max_packet_words", 1, 254),
    ("descriptors", 1, 1 << 20),
    ("code_words", 16, 1 << 20),
)


def _plain(value: Any) -> Any:
    """A field's value in plain types."""
    if isinstance(value, Topology):
        return str(value)
    return asdict(value) if isinstance(value, (Numeric, RouterParams)) else value


def _fill(base: Any, values: dict[str, Any], where: str) -> Any:
    """``base`` with ``values`` in place of its fields, nested dataclasses included."""
    known = {f.name for f in fields(base)}
    changes: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            near = get_close_matches(key, known, 1)
            raise InputError(
                f"unknown architecture field {where + key!r}; "
                + (
                    f"did you mean {near[0]!r}?"
                    if near
                    else f"fields are {', '.join(sorted(known))}"
                )
            )
        old = getattr(base, key)
        if isinstance(old, Topology) and isinstance(value, str):
            changes[key] = Topology.parse(value)
        elif is_dataclass(old) and isinstance(value, dict):
            changes[key] = _fill(old, value, f"{where}{key}.")
        elif type(value) is type(old):
            changes[key] = value
        else:
            raise InputError(
                f"architecture field {where + key!r} is {value!r}; give a {type(old).__name__}"
            )
    return replace(base, **changes)


PRESETS: dict[str, Arch] = {
    "tiny": Arch(
        name="tiny",
        topology=Topology.parse("mesh:2x2"),
        numeric=Numeric(block=4),
        router=RouterParams(depth=2),
        lanes=8,
        queries=2,
        vlanes=4,
        operand_beats=16,
        append_beats=8,
        score_rows=256,
        accumulator_beats=2,
        scratch_words=1 << 11,
        inbox_words=1 << 11,
        store_beats=1 << 11,
        store_latency=2,
        stream_depth=4,
        flit_words=2,
        max_packet_words=14,
    ),
    "edge": Arch(name="edge"),
    "server": Arch(
        name="server",
        topology=Topology.parse("mesh:8x8"),
        router=RouterParams(depth=8),
        lanes=64,
        queries=8,
        vlanes=16,
        operand_beats=512,
        append_beats=64,
        score_rows=1 << 16,
        accumulator_beats=4,
        scratch_words=1 << 17,
        inbox_words=1 << 17,
        store_beats=1 << 20,
        store_latency=4,
        stream_depth=16,
        flit_words=16,
        max_packet_words=254,
        descriptors=1 << 13,
        code_words=1 << 16,
    ),
}
"""Tiny for tests, edge (4.4 MB of store a tile), server (70 MB a tile)."""
