"""Routing functions: they arrive without detours, and can't deadlock."""

from dataclasses import replace
from itertools import product

import pytest

from tokenpath.hw.arch import ways as w
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.route_table import up_down, write_table
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.routing import DeadlockError, check_deadlock_free
from tokenpath.hw.arch.topology import Topology

CASES = [
    ("vc2-d4", "mesh:4x3"), ("vc2-d4", "torus:5x3"), ("vc4-d4-ordered", "torus:4x4"),
    ("wormhole-d4", "torus:3x3"), ("vc4-d4-o1turn", "mesh:3x4"), ("vc2-d4-west_first", "mesh:5x4"),
    ("vc1-d4-odd_even", "mesh:5x4"), ("vc1-d4-odd_even", "mesh:4x5"), ("vc3-d4", "switch:5"),
    ("vc2-d4-o1turn", "full3@die,line3@die,switch2@die"), ("vc2-d8-bubble", "torus:4x3"),
]  # fmt: skip


def all_paths(router, topology, source, vc, to):
    """(length, ways offered) of every path that a packet may take."""
    paths = [(0, source, 0, vc)]
    for hops, node, port, vc in paths:
        found = w.ways(router, topology, node, port, vc, to)
        assert found
        for output, allowed in found:
            assert allowed
            if output == 0:
                assert node == to
                yield hops
                continue
            arrived = topology.neighbour(node, output)
            assert arrived is not None
            paths.append((hops + 1, *arrived, (allowed & -allowed).bit_length() - 1))


@pytest.mark.parametrize(("text", "where"), CASES)
def test_every_way_arrives_without_a_detour(text: str, where: str) -> None:
    router, topology = RouterParams.parse(text), Topology.parse(where)
    for source in range(topology.tiles):
        for to in range(topology.tiles):
            for vc in range(router.local):
                hops = set(all_paths(router, topology, source, vc, to))
                assert hops == {topology.hops(source, to)}


@pytest.mark.parametrize(("text", "where"), [c for c in CASES if "bubble" not in c[0]])
def test_no_traffic_can_deadlock(text: str, where: str) -> None:
    topology = Topology.parse(where)
    proof = w.check_ways(RouterParams.parse(text), topology)
    assert proof.channels > 0 and proof.pairs == topology.tiles * (topology.tiles - 1)


def test_dimension_order_is_that_of_the_topology() -> None:
    router, topology = RouterParams(kind="vc", vcs=2), Topology.parse("torus:5x4")
    proof, known = w.check_ways(router, topology), check_deadlock_free(topology)
    assert proof.channels == known.channels
    for node in range(20):
        for to in range(20):
            port, vc = topology.next_hop(node, to)
            (found,) = w.ways(router, topology, node, 0, 0, to)
            assert found == (port, 1 << vc if port else 3)


def test_a_table_says_the_way_from_every_input() -> None:
    topology = Topology.parse("torus:3x3")
    table = up_down(topology, [(0, 1)])
    routes = write_table(table, topology)
    router = RouterParams(kind="vc", vcs=4, routing="table", routes=routes)
    for node, port, to in product(range(9), range(5), range(9)):
        assert w.ways(router, topology, node, port, 2, to) == ((table[node][to], 15),)
    ordered = replace(router, ordered=True)
    assert w.ways(ordered, topology, 4, 1, 2, 0) == ((table[4][0], 4),)
    assert w.check_ways(router, topology).pairs == 72


@pytest.mark.parametrize(
    ("text", "where"),
    [("vc2-d4", "torus:3x3"), ("vc2-d4-odd_even", "mesh:3x3"), ("vc4-d4-ordered", "switch:3")],
)
def test_what_arrives_at_a_node_is_what_paths_bring(text: str, where: str) -> None:
    """Against all paths from all tiles, any VC that is allowed taken at every hop."""
    router, net = RouterParams.parse(text), Topology.parse(where)
    brought: dict[int, dict[tuple[int, int], set[int]]] = {n: {} for n in range(net.nodes)}
    for source, to in product(range(net.tiles), range(net.tiles)):
        first = w.first_channels(router, net, to)
        paths = {(source, 0, vc) for vc in range(router.local) if first >> vc & 1}
        for _ in range(2 * net.nodes):  # longer than any path
            for node, port, vc in paths:
                brought[node].setdefault((port, vc), set()).add(to)
            paths = {
                (*arrived, taken)
                for node, port, vc in paths
                for output, allowed in w.ways(router, net, node, port, vc, to)
                if (arrived := net.neighbour(node, output)) is not None
                for taken in range(8)
                if allowed >> taken & 1
            }
    for node in range(net.nodes):
        found = w.arrivals(router, net, node)
        assert {channel: set(there) for channel, there in found.items()} == brought[node]
        for (port, vc), there in found.items():
            assert there == {to: w.ways(router, net, node, port, vc, to) for to in there}


def test_a_ring_without_dateline_is_refused_with_its_cycle(monkeypatch) -> None:
    """Bubbles, not channels, keep such a ring going: as a graph of channels it has a cycle."""
    router = RouterParams(kind="vc", vcs=1, depth=8, switching="bubble")
    with pytest.raises(DeadlockError, match=r"can deadlock: \(0\)\+x vc0 -> \(1\)\+x vc0 -> "):
        w.check_ways(router, Topology.parse("ring:5"))


def test_adaptive_routing_that_turns_everywhere_is_refused(monkeypatch) -> None:
    def everywhere(routing, topology, here, there, port):
        return [i for i in (0, 1) if here[i] != there[i]]

    monkeypatch.setattr(w, "_adaptive", everywhere)
    router = RouterParams(kind="vc", vcs=2, routing="odd_even")
    with pytest.raises(DeadlockError, match="routing odd_even can deadlock"):
        w.check_ways(router, Topology.parse("mesh:3x3"))


def test_o1turn_goes_both_ways_and_stays_in_its_half() -> None:
    router, mesh = RouterParams(kind="vc", vcs=4, routing="o1turn"), Topology.parse("mesh:3x3")
    assert w.ways(router, mesh, 0, 0, 1, 8) == ((1, 0b0011),)
    assert w.ways(router, mesh, 0, 0, 2, 8) == ((3, 0b1100),)
    assert w.ways(router, mesh, 8, 2, 3, 8) == ((0, 0b1100),)


def test_odd_even_turns_by_column() -> None:
    router, mesh = RouterParams(kind="vc", routing="odd_even"), Topology.parse("mesh:6x6")
    west = mesh.port_base[0] + 1
    assert w.ways(router, mesh, 2, west, 0, 35) == ((1, 1),)  # east in an even column: no turn
    assert w.ways(router, mesh, 1, west, 0, 35) == ((1, 1), (3, 1))
    assert w.ways(router, mesh, 2, 0, 0, 35) == ((1, 1), (3, 1))  # nothing to turn from
    assert w.ways(router, mesh, 3, 0, 0, 12) == ((2, 1),)  # west in an odd column
    assert w.ways(router, mesh, 4, 0, 0, 12) == ((2, 1), (3, 1))


def test_ordered_packets_have_one_channel() -> None:
    router, ring = RouterParams(kind="vc", vcs=4, ordered=True), Topology.parse("ring:6")
    for to in range(6):
        entry = w.first_channels(router, ring, to)
        assert entry == 1 << to % 4
    assert w.ways(router, ring, 0, 0, 3, 3) == ((1, 0b0010),)  # before the dateline
    assert w.ways(router, ring, 5, 2, 3, 1) == ((1, 0b1000),)  # over it
    assert w.ways(router, ring, 0, 2, 3, 1) == ((1, 0b0010),)


def test_a_large_mesh_is_not_proved_pair_by_pair() -> None:
    with pytest.raises(InputError, match="proof for 81 tiles: give at most 64"):
        w.check_ways(RouterParams(), Topology.parse("mesh:9x9"))
