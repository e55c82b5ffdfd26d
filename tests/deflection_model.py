"""A network of deflection routers in plain Python, cycle by cycle, by hw.arch.deflection.decide."""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import NamedTuple

from tokenpath.hw.arch.deflection import QUEUE, SLOTS, Decision, Lanes, Seen, decide, epoch_bits
from tokenpath.hw.arch.topology import Topology


class Flit(NamedTuple):
    """A flit by a name of its own, its tile, and the cycle in which it entered the network."""

    name: int
    to: int
    entered: int = -1


class DeflectionModel:
    """``lanes[tile][lane]``: the flits in the registers at the start of cycle ``now``.

    ``rule`` stands in for ``decide``, ``bits`` for the length of an epoch. ``longest``: the most
    cycles from a flit's entry to its delivery, both included.
    """

    def __init__(
        self, topology: Topology, *, rule: Callable[..., Decision] = decide, bits: int | None = None
    ) -> None:
        self.topology, self.rule = topology, rule
        self.bits = epoch_bits(topology) if bits is None else bits
        self.shape = Lanes.of(topology.dims)
        count = len(self.shape.inputs)
        self.lanes: list[list[Flit | None]] = [[None] * count for _ in range(topology.tiles)]
        self.queues: list[deque[Flit]] = [deque() for _ in range(topology.tiles)]
        self.due: defaultdict[int, list[tuple[int, int, Flit]]] = defaultdict(list)
        self.now = self.longest = self.deflected = 0
        self.lane_at = {p: i for i, p in enumerate(self.shape.inputs) if p is not None}

    @property
    def flits(self) -> int:
        """Flits in routers, links and queues."""
        return (
            sum(flit is not None for lanes in self.lanes for flit in lanes)
            + sum(map(len, self.due.values()))
            + sum(map(len, self.queues))
        )

    def room(self, tile: int) -> int:
        """Credits of a tile at the start of the cycle."""
        return SLOTS - len(self.queues[tile])

    def epoch(self, flit: Flit) -> int:
        """The parity of its epoch."""
        return flit.entered >> self.bits & 1

    def _seen(self, tile: int, flit: Flit | None, old: bool = True) -> Seen | None:
        if flit is None:
            return None
        at, to = self.topology.coordinates(tile), self.topology.coordinates(flit.to)
        wishes = self.shape.wishes(self.topology.dims, at, to)
        return Seen(wishes, old and self.epoch(flit) != self.now >> self.bits & 1, flit.to)

    def step(self, pushes: dict[int, Flit]) -> tuple[dict[int, Flit], set[int]]:
        """A cycle, in which tiles send flits to their routers. What is delivered, and the tiles
        that get a credit."""
        delivered, popped = {}, set()
        before = self.lanes
        self.lanes = [[None] * len(self.shape.inputs) for _ in before]
        for tile, lanes in enumerate(before):
            queue = self.queues[tile]
            first = queue[0] if queue else None
            found = self.rule(
                [self._seen(tile, flit) for flit in lanes], self._seen(tile, first, old=False)
            )
            if found.delivered == QUEUE or found.enters is not None:
                queue.popleft()
                popped.add(tile)
            if found.delivered == QUEUE:
                delivered[tile] = first
            elif found.delivered is not None:
                delivered[tile] = flit = lanes[found.delivered]
                lanes[found.delivered] = None
                self.longest = max(self.longest, self.now - flit.entered + 1)
            if found.enters is not None:
                assert lanes[found.enters] is None
                lanes[found.enters] = first._replace(entered=self.now)
            self._send(tile, [lanes[i] for i in found.takes])
        self.now += 1
        for tile, lane, flit in self.due.pop(self.now, ()):
            assert self.lanes[tile][lane] is None
            self.lanes[tile][lane] = flit
        for tile, flit in pushes.items():
            assert self.room(tile) > 0
            self.queues[tile].append(flit)
        return delivered, popped

    def _send(self, tile: int, leaving: list[Flit | None]) -> None:
        for lane, flit in enumerate(leaving):
            if flit is None:
                continue
            port = self.shape.outputs[lane]
            there = self.topology.neighbour(tile, port) if port is not None else None
            if there is None:
                self.due[self.now + 1].append((tile, self.shape.back[lane], flit))
                continue
            latency = self.topology.dims[self.topology.port_dim(tile, port)].tier.latency_cycles
            self.due[self.now + latency].append((there[0], self.lane_at[there[1]], flit))
            self.deflected += self.topology.hops(there[0], flit.to) > self.topology.hops(
                tile, flit.to
            )
