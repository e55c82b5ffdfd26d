"""Bufferless deflection: what a router does in a cycle, and why no flit stays for ever.

A router's links in and out are *lanes*, as many each way, a power of two. Every flit that comes in
goes out again in the same cycle, nearer to its tile or not, so nothing is ever stored. An output
without a link (at the end of a line, or where there are fewer dimensions than half the lanes) leads
back to the input of the same place: a flit there waits.

The lanes go through stages of two-way switches, a butterfly. A switch asks the flit that comes
first, then the other, which half of the outputs it wishes to go to; one that wishes both or none
lets the other say. The first is the *old* one, of two old ones that of the lower tile, else that of
the lower lane.

Time is divided into epochs of 2**epoch_bits cycles, and a flit carries the parity of the epoch in
which it entered the network: with the other parity it is old.

No flit stays longer than two epochs:

1. Take the old flits, and of those the set S for the lowest tile d. In each router all of S are
   equally far from d and wish the same outputs, and nobody comes before them. In every switch with
   a flit of S one of S comes first; if it wishes an output behind the switch it gets into a half
   where it, and so all of S, wish one. Hence in each router with flits of S one gets nearer, or, at
   d, is delivered: one flit a cycle is, an old one first.
2. The nearest flit of S (time to d, on a link what is left of it included) therefore gets nearer by
   a cycle each cycle. It is at most ``longest link - 1 + diameter`` away, so in ``diameter +
   longest link`` cycles at least one old flit is delivered.
3. Flits only enter young. At the begin of an epoch, all flits in the network, no more than it has
   places, become old at once, if none is left that was old before. After ``places * (diameter +
   longest link)`` cycles, which is at most an epoch, none of them is left, and so on for ever.

The tile's next flit enters before the last stage, where a lane is empty, behind which there is an
output that it wishes, if it can. It may wait for that without a bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .dims import Dim
from .errors import require
from .topology import Topology

SLOTS = 2
"""Flits of the queue between a tile and its router, which has a flit a cycle then."""


class Seen(NamedTuple):
    """A flit as its router sees it: the output lanes that bring it nearer, a bit each (none: it is
    there), whether it is of an older epoch, and its tile."""

    wishes: int
    old: bool
    to: int


class Decision(NamedTuple):
    """What a router does in a cycle.

    ``delivered``: the lane whose flit leaves to the tile, :data:`QUEUE` for the queue's first one,
    or None. ``enters``: the lane that the queue's first flit takes, or None. ``takes``: for each
    output lane, the input lane whose flit, if it has one by then, leaves there.
    """

    delivered: int | None
    enters: int | None
    takes: tuple[int, ...]


QUEUE = -1


@dataclass(frozen=True, kw_only=True)
class Lanes:
    """The lanes of a router of ``dims``: the port of each input and output lane, None where there
    is none, and for each output lane the input lane that it leads to where it has no link.

    Outputs: + of each dimension, then - of each. Inputs are in such an order that flits which go
    straight on and meet in the first switch wish different halves.
    """

    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    back: tuple[int, ...]

    @classmethod
    def of(cls, dims: Sequence[Dim]) -> "Lanes":
        plus, port = [], 1
        for dim in dims:
            plus += [port] if dim.ports else []
            port += dim.ports
        ways = 1 << max(0, len(plus) - 1).bit_length()
        firsts: list[int | None] = [*plus, *[None] * (ways - len(plus))]
        seconds = [None if first is None else first + 1 for first in firsts]
        turned = [*seconds[1:], seconds[0]]
        minus_at = {(i + 1) % ways: ways + i for i in range(ways)}
        return cls(
            inputs=(*firsts, *turned),
            outputs=(*firsts, *seconds),
            back=(*range(ways), *(minus_at[i] for i in range(ways))),
        )

    def wishes(self, dims: Sequence[Dim], here: Sequence[int], there: Sequence[int]) -> int:
        """The output lanes, a bit each, that bring a flit nearer from coordinates to others: one
        for each dimension in which they differ."""
        found, way = 0, 0
        for dim, x, d in zip(dims, here, there, strict=True):
            if x != d:
                found |= 1 << way + len(self.outputs) // 2 * dim.route(x, d)[0]
            way += dim.ports > 0
        return found


def check_dims(dims: Sequence[Dim]) -> None:
    """Raises InputError for dimensions that deflection can't work on."""
    for dim in dims:
        require(
            dim.ports == 0 or dim.shape in ("line", "ring"),
            f"a deflection router has no {dim.shape}, as in {dim}; give dimensions of line and "
            "ring, or another router",
        )
        require(
            dim.ports == 0 or dim.tier.cycles_per_flit == 1,
            f"a deflection router sends a flit each cycle, {dim} takes one in "
            f"{dim.tier.cycles_per_flit}; give cpf=1, or another router",
        )


def places(topology: Topology) -> int:
    """The most flits in the network: one for each cycle of each link, and those that wait."""
    latencies = [2 * dim.tier.latency_cycles for dim in topology.dims if dim.ports]
    spare = len(Lanes.of(topology.dims).outputs) - 2 * len(latencies)
    return topology.tiles * (sum(latencies) + spare)


def epoch_bits(topology: Topology) -> int:
    """Bits of the count of an epoch's cycles: at least 1, and enough for all old flits to go."""
    longest = max([1, *(dim.tier.latency_cycles for dim in topology.dims if dim.ports)])
    return max(1, (places(topology) * (topology.diameter_cycles + longest) - 1).bit_length())


def most_cycles(topology: Topology) -> int:
    """The bound: a flit that enters in cycle t is delivered before t + this."""
    return 2 << epoch_bits(topology)


def decide(lanes: Sequence[Seen | None], first: Seen | None) -> Decision:
    """What a router does with the flits of its input lanes and the first one of its queue."""
    delivered = _delivered(lanes, first)
    inside = [None if i == delivered else flit for i, flit in enumerate(lanes)]
    places, step = list(range(len(lanes))), len(lanes) // 2
    while step > 1:
        _switch(inside, places, step)
        step //= 2
    enters = None
    if first is not None and first.wishes:
        empty = [place for place, lane in enumerate(places) if inside[lane] is None]
        near = [place for place in empty if first.wishes & 3 << (place & ~1)]
        enters = places[(near or empty)[0]] if empty else None
    if enters is not None:
        inside[enters] = first
    _switch(inside, places, 1)
    return Decision(delivered, enters, tuple(places))


def _delivered(lanes: Sequence[Seen | None], first: Seen | None) -> int | None:
    here = [i for i, flit in enumerate(lanes) if flit is not None and not flit.wishes]
    old = [i for i in here if (flit := lanes[i]) is not None and flit.old]
    if here:
        return (old or here)[0]
    return QUEUE if first is not None and not first.wishes else None


def _switch(lanes: Sequence[Seen | None], places: list[int], step: int) -> None:
    """A stage of switches between places that are ``step`` apart; ``places`` has the lane that each
    flit came from."""
    for upper in (i for i in range(len(places)) if not i & step):
        a, b = places[upper], places[upper + step]
        outputs = (1 << step) - 1 << (upper & -step)  # that are behind the upper place
        if _crosses(lanes, a, b, outputs, outputs << step):
            places[upper], places[upper + step] = b, a


def _crosses(lanes: Sequence[Seen | None], a: int, b: int, upper: int, lower: int) -> bool:
    """Whether a switch sends the flit of lane ``a`` to its lower outputs, that of ``b`` to the
    upper ones."""
    for lane, straight, cross in sorted(
        [(a, upper, lower), (b, lower, upper)], key=lambda each: _order(lanes, each[0])
    ):
        flit = lanes[lane]
        wishes = flit.wishes if flit is not None else 0
        if bool(wishes & straight) != bool(wishes & cross):
            return bool(wishes & cross)
    return False


def _order(lanes: Sequence[Seen | None], lane: int) -> tuple[bool, int, int]:
    """Sorts the lanes by who comes first."""
    flit = lanes[lane]
    old = flit is not None and flit.old
    return not old, flit.to if flit is not None and old else 0, lane
