"""The deadlock proof: no cycle of channels that wait for each other (Dally and Seitz, 1987).

A channel is a virtual channel of a link, `(node, port, vc)`: the buffer behind output `port` of
`node`. A packet that holds one and wants another makes the second a dependency of the first.
With an acyclic graph of dependencies the network can't deadlock, whatever the traffic.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

from tokenpath.hw.arch.dims import Dim
from tokenpath.hw.arch.errors import InputError

Channel = tuple[int, int, int]
NextHop = Callable[[int, int], tuple[int, int]]
Graph = Mapping[Channel, set[Channel]]


class DeadlockError(InputError):
    """A routing function whose channels wait for each other in a circle; names the circle.

    `cycle` holds the channels, each depending on the next and the last on the first.
    """

    def __init__(self, message: str, cycle: tuple[Channel, ...] = ()) -> None:
        super().__init__(message)
        self.cycle = cycle


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What was looked at: channels in use, dependencies among them, ordered pairs of tiles."""

    channels: int
    dependencies: int
    pairs: int
    method: str


class Network(Protocol):
    """What the proof asks of a topology."""

    @property
    def dims(self) -> tuple[Dim, ...]: ...
    @property
    def tiles(self) -> int: ...
    def neighbour(self, node: int, port: int) -> tuple[int, int] | None: ...
    def next_hop(self, node: int, dest: int) -> tuple[int, int]: ...
    def node_name(self, node: int) -> str: ...
    def channel_name(self, channel: Channel) -> str: ...
    def dim_channel(self, dim: int, channel: Channel) -> Channel: ...


def check_deadlock_free(network: Network, next_hop: NextHop | None = None) -> Proof:
    """Prove that no traffic can deadlock `network`; raises DeadlockError naming a cycle.

    Without `next_hop` it is the network's own dimension order, proved dimension by dimension in
    time linear in their sizes: a packet never returns to an earlier dimension, so a cycle would
    lie within one. With `next_hop(node, dest) -> (port, vc)` all pairs are followed, O(tiles^2).
    """
    if next_hop is None:
        return _prove_dimensions(network)
    graph = channel_dependencies(network, next_hop)
    _refuse_cycle(network, find_cycle(graph))
    return Proof(
        channels=len(graph),
        dependencies=sum(map(len, graph.values())),
        pairs=network.tiles * (network.tiles - 1),
        method="all pairs",
    )


def _refuse_cycle(network: Network, cycle: tuple[Channel, ...]) -> None:
    if cycle:
        names = " -> ".join(network.channel_name(channel) for channel in (*cycle, cycle[0]))
        raise DeadlockError(
            f"routing can deadlock: {names}: break the cycle with another virtual channel or turn",
            cycle,
        )


def channel_dependencies(
    network: Network, next_hop: NextHop | None = None
) -> dict[Channel, set[Channel]]:
    """All channels that some pair of tiles uses, each with the channels it waits for.

    Follows every pair, O(tiles^2). Raises InputError where `next_hop` takes a port without a link
    or ends a packet anywhere but at its destination.
    """
    hop = network.next_hop if next_hop is None else next_hop
    graph: dict[Channel, set[Channel]] = {}
    for dest in range(network.tiles):
        taken: dict[int, Channel] = {}
        for source in range(network.tiles):
            node, held = source, set[Channel]()
            while node != dest and node not in taken:
                channel = taken[node] = (node, *hop(node, dest))
                held.add(channel)
                held = graph.setdefault(channel, set())
                node = _cross(network, channel, dest)
            if node != dest:
                held.add(taken[node])
    return graph


def _cross(network: Network, channel: Channel, dest: int) -> int:
    """The node at the other end of a channel on the way to `dest`."""
    node, port, vc = channel
    arrived = network.neighbour(node, port)
    if arrived is None or vc < 0:
        names = f"{network.node_name(node)} to {network.node_name(dest)}"
        raise InputError(
            f"next_hop from {names} is port {port} vc {vc}: take a port with a link, vc >= 0"
        )
    return arrived[0]


def find_cycle(graph: Graph) -> tuple[Channel, ...]:
    """A shortest cycle of `graph` through the least channel that is in any; () when none is."""
    core = _waiting_forever(graph)
    cycles = (_shortest_cycle(graph, core, start) for start in sorted(core))
    return next((cycle for cycle in cycles if cycle), ())


def _waiting_forever(graph: Graph) -> set[Channel]:
    """The channels that are in a cycle or wait for one: what is left when all others drain."""
    waits = {channel: len(after) for channel, after in graph.items()}
    holders: defaultdict[Channel, list[Channel]] = defaultdict(list)
    for channel, after in graph.items():
        for wanted in after:
            holders[wanted].append(channel)
    draining = [channel for channel in {*waits, *holders} if not waits.get(channel)]
    while draining:
        channel = draining.pop()
        waits.pop(channel, None)
        for holder in holders[channel]:
            waits[holder] -= 1
            if waits[holder] == 0:
                draining.append(holder)
    return set(waits)


def _shortest_cycle(graph: Graph, core: set[Channel], start: Channel) -> tuple[Channel, ...]:
    before: dict[Channel, Channel] = {}
    queue = deque([start])
    while queue:
        channel = queue.popleft()
        for wanted in sorted(graph[channel] & core):
            if wanted == start:
                cycle = [channel]
                while cycle[-1] != start:
                    cycle.append(before[cycle[-1]])
                return tuple(reversed(cycle))
            if wanted not in before:
                before[wanted] = channel
                queue.append(wanted)
    return ()


@dataclass(frozen=True, kw_only=True)
class _DimProof:
    """One copy of a dimension: channels used, dependencies among them, and how packets pass.

    `entries` are the channels a packet can take first, `exits` those it can take last.
    """

    channels: int
    dependencies: int
    entries: int
    exits: int
    cycle: tuple[Channel, ...]


def _prove_dim(dim: Dim) -> _DimProof:
    links = dim.links
    if dim.shape == "full":  # one hop: nothing to wait for
        return _DimProof(channels=links, dependencies=0, entries=links, exits=links, cycle=())
    if dim.shape == "switch":  # up, then down: no down link waits for anything
        up, waits = links // 2, dim.size * (dim.size - 1)
        return _DimProof(channels=links, dependencies=waits, entries=up, exits=up, cycle=())
    graph = dim_dependencies(dim)
    return _DimProof(
        channels=len(graph),
        dependencies=sum(map(len, graph.values())),
        entries=len(graph),
        exits=links,
        cycle=find_cycle(graph),
    )


def dim_dependencies(dim: Dim) -> dict[Channel, set[Channel]]:
    """Dependencies within one line or ring, channels as (position, port offset, vc)."""
    graph: dict[Channel, set[Channel]] = {}
    for x in range(dim.size):
        for d in _telling_destinations(dim, x):
            channel = (x, *dim.route(x, d))
            graph.setdefault(channel, set())
            arrived = dim.step(x, channel[1])
            if arrived is not None and arrived[0] != d:
                graph[channel].add((arrived[0], *dim.route(arrived[0], d)))
    return graph


def _telling_destinations(dim: Dim, x: int) -> Iterator[int]:
    """Destinations after which no other one, seen from `x`, shows another channel.

    In each direction that is one and two hops away, and the nearest one behind the wrap link:
    further ones take the same two channels first. (A test compares with all destinations.)
    """
    near = {(x + away) % dim.size for away in (-2, -1, 1, 2)}
    return (d for d in near | {0, dim.size - 1} if d != x)


def _prove_dimensions(network: Network) -> Proof:
    tiles = network.tiles
    answers = {dim: _prove_dim(dim) for dim in set(network.dims)}
    proofs = [answers[dim] for dim in network.dims]
    channels = dependencies = 0
    for index, (dim, proof) in enumerate(zip(network.dims, proofs, strict=True)):
        _refuse_cycle(network, tuple(network.dim_channel(index, one) for one in proof.cycle))
        channels += proof.channels * (tiles // dim.size)
        dependencies += proof.dependencies * (tiles // dim.size)
    for (one, before), (two, after) in combinations(zip(network.dims, proofs, strict=True), 2):
        dependencies += before.exits * after.entries * (tiles // (one.size * two.size))
    pairs = tiles * (tiles - 1)
    return Proof(
        channels=channels, dependencies=dependencies, pairs=pairs, method="dimension order"
    )
