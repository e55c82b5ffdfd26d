"""Packets for a network: traffic like that of the field, and what is worst for routers."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.topology import Topology
from tokenpath.sim.traffic_patterns import PERMUTATIONS
from tokenpath.sim.traffic_trace import Trace

I64 = NDArray[np.int64]
Random = np.random.Generator

LONGEST = 16
"""Flits of the longest packets."""

FLITS = 40
"""Flits that a tile sends, roughly."""


def draw_packets(random: Random, shape: str, topology: Topology, longest: int = LONGEST) -> Trace:
    """The packets of a shape of SHAPES, of up to ``longest`` flits, in the order in which they are
    made.
    """
    rows = SHAPES[shape](random, topology, longest)
    return Trace(rows=rows[np.argsort(rows[:, 0], kind="stable")])


def _rows(cycle: I64, source: I64, to: I64, flits: I64) -> I64:
    return np.stack(np.broadcast_arrays(cycle, source, to, flits), axis=1).astype(np.int64)


def _lengths(random: Random, count: int, longest: int) -> I64:
    """All of one flit, all of one length, any lengths, or short and long ones."""
    kind = random.integers(4)
    if kind < 2:
        return np.full(count, 1 if kind == 0 else random.integers(1, longest + 1))
    if kind == 2:
        return random.integers(1, longest + 1, count)
    return np.where(random.random(count) < 0.7, 1, min(5, longest))


def _to(random: Random, topology: Topology, to: Callable[[I64], I64], longest: int) -> I64:
    """Every tile sends packets at random times, at a load from low to beyond what fits."""
    tiles, flits = topology.tiles, _lengths(random, FLITS * topology.tiles, longest)
    count = max(tiles, int(np.searchsorted(np.cumsum(flits), FLITS * tiles)))
    flits, source = flits[:count], random.integers(tiles, size=count)
    cycles = int(FLITS / random.choice([0.1, 0.3, 0.6, 1.0, 4.0])) + 1
    return _rows(random.integers(cycles, size=count), source, to(source), flits)


def uniform(random: Random, topology: Topology, longest: int) -> I64:
    """Every tile to any."""
    tiles = topology.tiles
    return _to(random, topology, lambda source: random.integers(tiles, size=len(source)), longest)


def hot(random: Random, topology: Topology, longest: int) -> I64:
    """Every tile to the same one."""
    tile = random.integers(topology.tiles)
    return _to(random, topology, lambda source: np.full(len(source), tile), longest)


def two_hot(random: Random, topology: Topology, longest: int) -> I64:
    """Every tile to one of two, and sometimes to another."""
    spots = random.integers(topology.tiles, size=2)

    def to(source: I64) -> I64:
        others = random.integers(topology.tiles, size=len(source))
        return np.where(random.random(len(source)) < 0.1, others, random.choice(spots, len(source)))

    return _to(random, topology, to, longest)


def permutation(random: Random, topology: Topology, longest: int) -> I64:
    """Every tile to its own partner: one of PERMUTATIONS, or a drawn one."""
    try:
        name = str(random.choice([*PERMUTATIONS, ""]))
        table = PERMUTATIONS[name](topology) if name else random.permutation(topology.tiles)
    except InputError:  # a transpose of unequal dimensions
        table = random.permutation(topology.tiles)
    return _to(random, topology, lambda source: table[source], longest)


def flood(random: Random, topology: Topology, longest: int) -> I64:
    """A packet of one flit from every tile in every cycle."""
    tiles, cycles = topology.tiles, int(random.integers(FLITS // 4, FLITS))
    cycle, source = np.divmod(np.arange(tiles * cycles), tiles)
    to = random.integers(tiles, size=tiles * cycles)
    if random.random() < 0.3:  # each tile its own, for as long as it lasts
        to = random.permutation(tiles)[source]
    return _rows(cycle, source, to, np.array(1))


def trains(random: Random, topology: Topology, longest: int) -> I64:
    """The longest packets, back to back from every tile, from one cycle on."""
    count = max(2, FLITS // longest) * topology.tiles
    source, to = np.arange(count) % topology.tiles, random.integers(topology.tiles, size=count)
    return _rows(np.array(0), source, to, np.array(longest))


def bursts(random: Random, topology: Topology, longest: int) -> I64:
    """All tiles at once, and then nothing for a while, again and again."""
    gap, each = int(random.integers(1, 80)), int(random.integers(1, 4))
    flits = _lengths(random, FLITS // 4 // each * each * topology.tiles, longest)
    number = np.arange(len(flits))
    burst, source = number // (each * topology.tiles), number % topology.tiles
    return _rows(burst * gap, source, random.integers(topology.tiles, size=len(flits)), flits)


def one_against_all(random: Random, topology: Topology, longest: int) -> I64:
    """One tile sends single flits through what long packets of all others fill."""
    tiles, count = topology.tiles, FLITS // 2
    one, to = random.integers(tiles, size=2)
    alone = _rows(random.integers(3 * FLITS, size=count), one, to, np.array(1))
    source = np.arange(3 * tiles) % tiles
    return np.concatenate([alone, _rows(np.array(0), source, to, np.array(longest))])


SHAPES: dict[str, Callable[[Random, Topology, int], I64]] = {
    "uniform": uniform,
    "hot": hot,
    "two hot": two_hot,
    "permutation": permutation,
    "flood": flood,
    "trains": trains,
    "bursts": bursts,
    "one against all": one_against_all,
}
"""By name: rows of a Trace in any order."""
