"""What came out of a network, against what was sent into it: every flit once, whole, in its place.

The words of a flit say which it is: the second has its packet's number and its place in the packet,
the first, in a head, the packed destination, and noise everywhere else.
"""

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.errors import require
from tokenpath.sim.traffic_trace import NEVER

I64 = NDArray[np.int64]

ARRIVAL = ("cycle", "tile", "vc", "ends", "first", "second")
"""Columns of a flit that arrived; ``ends`` is head | tail << 1, then its two words."""

(CYCLE, TILE, VC, ENDS, FIRST, SECOND) = range(len(ARRIVAL))
HEAD, TAIL = 1, 2
PLACE_BITS = 8
PLACE_MASK = (1 << PLACE_BITS) - 1
NOISE = 2654435761


class Sent:
    """The flits of packets ``rows`` (cycle, destination, flits), as ``Trace.by_source`` has them.

    ``words`` (flits, 2) uint32, packet by packet; a packet's begin at ``at``. ``destinations`` has
    the packed coordinates of each tile; with ``headers`` they are in every flit, not only in heads.
    """

    def __init__(self, rows: I64, destinations: I64, *, headers: bool) -> None:
        self.to, self.flits = rows[:, 1], np.where(rows[:, 0] < NEVER, rows[:, 2], 0)
        require(
            int(self.flits.max()) <= 1 << PLACE_BITS,
            f"a packet of {self.flits.max()} flits; give at most {1 << PLACE_BITS}",
        )
        self.at = np.cumsum(self.flits) - self.flits
        self.packet = np.repeat(np.arange(len(rows)), self.flits)
        self.place = np.arange(len(self.packet)) - self.at[self.packet]
        second = self.packet << PLACE_BITS | self.place
        noise = second * NOISE & 0xFFFFFFFF
        told = noise & 0xFF000000 | destinations[self.to[self.packet]]
        first = np.where((self.place == 0) | headers, told, noise)
        self.words = np.stack([first, second], axis=1).astype(np.uint32)

    def delivered(self, arrivals: I64) -> I64:
        """The cycle in which each packet's tail arrived, -1 for none. Packets must be known."""
        tails = arrivals[arrivals[:, ENDS] & TAIL != 0]
        found = np.full(len(self.flits), -1, np.int64)
        found[tails[:, SECOND] >> PLACE_BITS] = tails[:, CYCLE]
        return found

    def fault(self, arrivals: I64, *, woven: bool = False) -> str:
        """What is wrong with ``arrivals`` (flits, ARRIVAL), in the order in which they came; "" for
        nothing. With ``woven`` packets may come in between each other on a VC.
        """
        if fault := self._not_once(arrivals):
            return fault
        packet, place = arrivals[:, SECOND] >> PLACE_BITS, arrivals[:, SECOND] & PLACE_MASK
        here = self.at[packet] + place
        last = place == self.flits[packet] - 1
        checks = (
            ("at the wrong tile", arrivals[:, TILE] != self.to[packet]),
            ("with another first word", arrivals[:, FIRST] != self.words[here, 0]),
            ("wrongly marked", arrivals[:, ENDS] != (place == 0) * HEAD + last * TAIL),
            ("out of order", _disordered(packet, place)),
            ("between the flits of another packet", (not woven) & _between(arrivals, packet)),
        )
        for text, wrong in checks:
            if wrong.any():
                return f"{_named(arrivals[np.flatnonzero(wrong)[0]])} {text}"
        return ""

    def _not_once(self, arrivals: I64) -> str:
        """The first flit that nobody sent, or that came twice or never."""
        packet, place = arrivals[:, SECOND] >> PLACE_BITS, arrivals[:, SECOND] & PLACE_MASK
        known = packet < len(self.flits)
        known &= place < self.flits[np.where(known, packet, 0)]
        if not known.all():
            return f"{_named(arrivals[np.flatnonzero(~known)[0]])} was never sent"
        times = np.bincount(self.at[packet] + place, minlength=len(self.packet))
        for text, wrong in (("came twice", times > 1), ("never came", times == 0)):
            if wrong.any():
                flit = int(np.flatnonzero(wrong)[0])
                return f"flit {self.place[flit]} of packet {self.packet[flit]} {text}"
        return ""


def _named(arrival: I64) -> str:
    cycle, tile, vc, _, _, second = arrival.tolist()
    return (
        f"flit {second & PLACE_MASK} of packet {second >> PLACE_BITS}, in cycle {cycle} at tile "
        f"{tile} on VC {vc},"
    )


def _disordered(packet: I64, place: I64) -> NDArray[np.bool_]:
    """Which flits came when another place of their packet was due."""
    order = np.argsort(packet, kind="stable")
    begin = np.searchsorted(packet[order], packet[order])
    wrong = np.zeros(len(packet), np.bool_)
    wrong[order] = place[order] != np.arange(len(packet)) - begin
    return wrong


def _between(arrivals: I64, packet: I64) -> NDArray[np.bool_]:
    """Which flits that aren't heads follow one of another packet on the VC of their tile."""
    channel = arrivals[:, TILE] << 8 | arrivals[:, VC]
    order = np.argsort(channel, kind="stable")
    same = np.zeros(len(packet), np.bool_)
    follows = channel[order][1:] == channel[order][:-1]
    same[order[1:]] = follows & (packet[order][1:] == packet[order][:-1])
    found: NDArray[np.bool_] = ~same & (arrivals[:, ENDS] & HEAD == 0)
    return found
