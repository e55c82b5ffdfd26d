"""Link tiers and the dimensions whose product is a topology.

A dimension is a small graph on positions 0..size-1; a `switch` has one more position, its hub,
numbered `size`. Everything a topology says (ports, routes, distances, link counts) is composed
from the answers of its dimensions, so each rule of a shape is written once, here.
"""

import difflib
import functools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tokenpath.hw.arch.errors import InputError

SHAPES = ("line", "ring", "full", "switch")
MAX_TILES = 2**24
MAX_CHAIN = 2**16
MAX_TABLE = 4096
_MAX_CYCLES = 10**6
_TIER_KEYS = {"latency": "latency_cycles", "cpf": "cycles_per_flit", "pj": "energy_pj_per_bit"}


def unknown(what: str, word: str, words: Iterable[str]) -> InputError:
    """The error for a word outside a list: names it, the closest valid word, and the list."""
    valid = tuple(words)
    close = difflib.get_close_matches(word, valid, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return InputError(f"unknown {what} {word!r:.40}: {hint}use one of {', '.join(valid)}")


def _check_count(what: str, value: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InputError(f"{what} is {value!r}: use a whole number from 1 to {most}")


@dataclass(frozen=True, kw_only=True)
class Tier:
    """A class of links: where a wire runs decides what a flit pays on it.

    Members: `name` one of TIERS; `latency_cycles` from the sender's output register to the
    receiver's input, >= 1; `cycles_per_flit` between two flits on one link, >= 1;
    `energy_pj_per_bit` >= 0. Raises InputError.
    """

    name: str
    latency_cycles: int
    cycles_per_flit: int
    energy_pj_per_bit: float

    def __post_init__(self) -> None:
        if self.name not in TIER_NAMES:
            raise unknown("tier", self.name, TIER_NAMES)
        _check_count(f"latency of tier {self.name}", self.latency_cycles, _MAX_CYCLES)
        _check_count(f"cpf of tier {self.name}", self.cycles_per_flit, _MAX_CYCLES)
        energy = self.energy_pj_per_bit
        if not isinstance(energy, (int, float)) or not 0 <= energy < math.inf:
            raise InputError(f"pj of tier {self.name} is {energy!r}: use picojoules per bit, >= 0")

    def __str__(self) -> str:
        """`board`, or `board(latency=200)` where it differs from the preset of that name."""
        preset = TIERS[self.name]
        changes = [
            f"{key}={getattr(self, field)}"
            for key, field in _TIER_KEYS.items()
            if getattr(self, field) != getattr(preset, field)
        ]
        return f"{self.name}({','.join(changes)})" if changes else self.name

    @classmethod
    def parse(cls, text: str) -> "Tier":
        """Read `board` or `board(latency=200,cpf=8,pj=6.5)`; raises InputError."""
        found = re.fullmatch(r"([a-z]+)(?:\(([^()]*)\))?", text)
        if found is None:
            example = "board or board(latency=200,cpf=8,pj=6.5)"
            raise InputError(f"tier {text!r:.40}: write it as {example}")
        name, changes = found.groups()
        if name not in TIERS:
            raise unknown("tier", name, TIERS)
        values = {field: getattr(TIERS[name], field) for field in _TIER_KEYS.values()}
        for change in changes.split(",") if changes is not None else ():
            key, _, number = change.partition("=")
            if key not in _TIER_KEYS:
                raise unknown(f"setting of tier {name}", key, _TIER_KEYS)
            values[_TIER_KEYS[key]] = _number(f"{key} of tier {name}", number, whole=key != "pj")
        return cls(name=name, **values)


def _number(what: str, text: str, *, whole: bool) -> float:
    pattern = r"[0-9]{1,9}" if whole else r"[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?"
    if re.fullmatch(pattern, text) is None:
        kind = "a whole number" if whole else "a number"
        raise InputError(f"{what} is {text!r:.40}: use {kind}")
    return int(text) if whole else float(text)


TIER_NAMES = ("die", "package", "board", "rack", "optical")

# At a clock of 1 GHz (1 cycle = 1 ns) with flits of 64 bytes, per tile and direction. The sources
# are entries of the link survey (reference/tiers.json); P: read in the primary text.
#   die      1 ns: WSE-2 hop of 0.91 ns (WaferLLM, OSDI'25, P); 64 bytes/cycle, 0.019 pJ/bit:
#            FlooNoC (TVLSI'25, P)
#   package  10 ns end to end, 0.5 pJ/bit: UCIe (TCPMT'22, JSSC'26, P); a UCIe-S module of 64 GB/s
#            between two tiles: 32 GB/s each, so 2 cycles a flit
#   board    130 ns, 6.5 pJ/bit: 112G lane over PCB, light FEC (VLSI'22, JSSC'21); one lane a tile:
#            1.8 TB/s / 128 = 14 GB/s, so 5
#   rack     500 ns: UB-Mesh (arXiv 2503.20377); 13 pJ/bit: switched copper, 478-668 ns (SUE);
#            196 GB/s a die (CloudMatrix384, arXiv 2506.12708) among 16 tiles: 12.3 GB/s, so 6
#   optical  rack + two DSP modules of 100 ns + 100 m at 5 ns/m = 1200 ns, which CloudMatrix384
#            quotes too; 18.8 pJ/bit; 100 GB/s a module among 16 tiles: 6.3 GB/s, so 11
# How many tiles share a module and the 100 m are our assumptions.
TIERS: dict[str, Tier] = {}
for _name, _latency, _cpf, _pj in (
    ("die", 1, 1, 0.02),
    ("package", 10, 2, 0.5),
    ("board", 130, 5, 6.5),
    ("rack", 500, 6, 13.0),
    ("optical", 1200, 11, 18.8),
):
    TIERS[_name] = Tier(
        name=_name, latency_cycles=_latency, cycles_per_flit=_cpf, energy_pj_per_bit=_pj
    )


@dataclass(frozen=True, kw_only=True)
class Dim:
    """One dimension: `size` positions joined in a `shape` by links of one `tier`.

    Shapes: `line` (neighbours), `ring` (and the wrap link; of size 2 it is a line), `full` (every
    pair) and `switch` (every position to a hub, position `size`). Size 1 has no links.
    Routes take offsets: the port at a position, counted from 0 within this dimension.
    line, ring: 0 is +, 1 is -; full: k leads to (x + k + 1) % size; switch: 0 is the hub; at the
    hub, offset c leads to position c. Raises InputError.
    """

    size: int
    shape: str
    tier: Tier = TIERS["die"]

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise unknown("shape", self.shape, SHAPES)
        most = MAX_CHAIN if self.shape in ("line", "ring") else MAX_TILES
        _check_count(f"size of {self.shape}", self.size, most)
        if not isinstance(self.tier, Tier):
            raise InputError(f"tier is {self.tier!r}: give a Tier, such as TIERS['die']")

    def __str__(self) -> str:
        """Such as `line4@die`; `parse` reads it back."""
        return f"{self.shape}{self.size}@{self.tier}"

    @classmethod
    def parse(cls, text: str) -> "Dim":
        """Read `full8@board`, `line4` (that is, @die), `ring4@rack(latency=400)`.

        Raises InputError.
        """
        found = re.fullmatch(r"([a-z]+)([0-9]+)(?:@(.*))?", text)
        if found is None:
            raise InputError(f"dimension {text!r:.40}: write it as line4 or full8@board")
        shape, size, tier = found.groups("die")
        if shape not in SHAPES:
            raise unknown("shape", shape, SHAPES)
        return cls(size=parse_size(size), shape=shape, tier=Tier.parse(tier))

    @property
    def is_ring(self) -> bool:
        """Has a wrap link, and so a dateline: two virtual channels."""
        return self.shape == "ring" and self.size >= 3

    @property
    def has_hub(self) -> bool:
        """Has a switch node (size 1 has no links and so no switch)."""
        return self.shape == "switch" and self.size > 1

    @property
    def ports(self) -> int:
        """Link ports at a position: line and ring 2, full size - 1, switch 1 (its hub: size)."""
        if self.size == 1:
            return 0
        return {"line": 2, "ring": 2, "full": self.size - 1, "switch": 1}[self.shape]

    def step(self, x: int, offset: int) -> tuple[int, int] | None:
        """Where port `offset` of `x` leads: (position, its port back), None if unlinked."""
        size = self.size
        if self.shape == "switch":
            return (offset, 0) if x == size else (size, x)
        if self.shape == "full":
            return (x + offset + 1) % size, size - 2 - offset
        y = x + 1 if offset == 0 else x - 1
        if self.is_ring:
            y %= size
        return (y, 1 - offset) if 0 <= y < size else None

    def route(self, x: int, d: int) -> tuple[int, int]:
        """(port offset, virtual channel) of the next hop from `x` to `d`, x != d; minimal.

        A ring goes the shorter way; of two equal ways + from an even position, - from an odd one.
        Its vc is 1 as long as the way still has to cross the wrap link, the hop over it included,
        then 0: stateless, and no channel waits for itself (routing.check_deadlock_free).
        """
        if self.shape == "switch":
            return (d, 0) if x == self.size else (0, 0)
        if self.shape == "full":
            return (d - x - 1) % self.size, 0
        if not self.is_ring:
            return (0, 0) if d > x else (1, 0)
        forward = (d - x) % self.size
        backward = self.size - forward
        if forward < backward or (forward == backward and x % 2 == 0):
            return 0, int(d < x)
        return 1, int(d > x)

    def hops(self, x: int, d: int) -> int:
        """Links on the route from position `x` to `d`; through a hub 2."""
        away = abs(x - d)
        if self.shape == "line" or away == 0:
            return away
        if self.shape == "ring":
            return min(away, self.size - away)
        return 1 if self.shape == "full" else 2

    @property
    def diameter(self) -> int:
        """Most hops between two positions."""
        return self.hops(0, self.size // 2 if self.shape == "ring" else self.size - 1)

    @property
    def total_hops(self) -> int:
        """Hops summed over all ordered pairs of positions."""
        n = self.size
        if self.shape == "line":
            return n * (n * n - 1) // 3
        if self.shape == "ring":
            return n * (n * n // 4)
        return n * (n - 1) * self.diameter

    @property
    def links(self) -> int:
        """Links, each direction counted."""
        n = self.size
        if n == 1:
            return 0
        if self.shape == "full":
            return n * (n - 1)
        return 2 * (n if self.is_ring or self.shape == "switch" else n - 1)

    @property
    def cut(self) -> int:
        """Links in one direction between positions below size // 2 and the others (0 for size 1).

        A hub counts to the larger part.
        """
        half = self.size // 2
        if half == 0:
            return 0
        if self.shape == "full":
            return half * (self.size - half)
        return half if self.shape == "switch" else 1 + self.is_ring

    @property
    def table(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """`route` as a table, size x size: [x][d] -> (offset, vc); (0, 0), never read, at x == d.

        Raises InputError above size 4096, where a table is the wrong tool.
        """
        return _table(self.shape, self.size)


@functools.cache
def _table(shape: str, size: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    if size > MAX_TABLE:
        raise InputError(f"table of {shape}{size}: above size {MAX_TABLE} compute next_hop instead")
    route = Dim(size=size, shape=shape).route
    shared: dict[tuple[int, int], tuple[int, int]] = {}
    return tuple(
        tuple((0, 0) if d == x else shared.setdefault(hop := route(x, d), hop) for d in range(size))
        for x in range(size)
    )


def parse_size(text: str) -> int:
    """A size of digits as a number; raises InputError for anything else and above MAX_TILES."""
    if re.fullmatch(r"[0-9]+", text) is None:
        raise InputError(f"size {text!r:.40}: use a whole number from 1 to {MAX_TILES}")
    size = int(text[:40])
    if len(text) > 40 or not 1 <= size <= MAX_TILES:
        shown = text if len(text) <= 40 else f"{text[:40]}..."
        raise InputError(f"size {shown}: use a whole number from 1 to {MAX_TILES}")
    return size
