"""The deadlock proof: it agrees with itself and with networkx, and it bites."""

import math
import time
from dataclasses import replace

import networkx as nx  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.routing import (
    DeadlockError,
    channel_dependencies,
    check_deadlock_free,
    dim_dependencies,
    find_cycle,
)
from tokenpath.hw.arch.topology import SHAPES, Dim, Topology

dims = st.builds(Dim, size=st.integers(1, 9), shape=st.sampled_from(SHAPES))
topologies = (
    st.lists(dims, min_size=1, max_size=4)
    .filter(lambda some: math.prod(dim.size for dim in some) <= 60)
    .map(lambda some: Topology(dims=tuple(some)))
)
PRESETS = ["mesh:8x8", "torus:8x8", "torus:4x4x4", "torus:5x5", "flat:64", "flat:8x8", "switch:72",
           "ring:16", "tiered:4x4x4", "line3,ring5@rack,switch3"]  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(topologies)
def test_proof_by_dimensions_is_the_proof_by_all_pairs(net: Topology) -> None:
    quick, slow = check_deadlock_free(net), check_deadlock_free(net, net.next_hop)
    assert replace(quick, method="all pairs") == slow


@pytest.mark.parametrize("text", PRESETS)
def test_presets_cannot_deadlock(text: str) -> None:
    net = Topology.parse(text)
    waits = channel_dependencies(net)
    assert nx.is_directed_acyclic_graph(nx.DiGraph({a: list(b) for a, b in waits.items()}))
    proof = check_deadlock_free(net)
    assert (proof.channels, proof.pairs) == (len(waits), net.tiles * (net.tiles - 1))


@pytest.mark.parametrize("shape", ["line", "ring"])
@pytest.mark.parametrize("size", range(1, 25))
def test_few_destinations_tell_all_dependencies_of_a_dimension(shape: str, size: int) -> None:
    dim = Dim(size=size, shape=shape)
    waits = channel_dependencies(Topology(dims=(dim,)))
    shifted = {
        (x, offset + 1, vc): {(y, port + 1, lane) for y, port, lane in after}
        for (x, offset, vc), after in dim_dependencies(dim).items()
    }
    assert shifted == waits


def dateline_reset_on_every_plus_hop(net: Topology, node: int, dest: int) -> tuple[int, int]:
    """Dimension order on a torus as PyMTL3-net builds it: only the wrap hop itself is on vc 1."""
    for dim, stride, base in zip(net.dims, net.strides, net.port_base, strict=False):
        x, d = node // stride % dim.size, dest // stride % dim.size
        if x != d:
            plus = (d - x) % dim.size <= dim.size // 2
            if plus:
                return base, int(x == dim.size - 1)
            return base + 1, int(d > x)
    return 0, 0


def test_the_torus_of_pymtl3_net_is_refused_and_its_cycle_named() -> None:
    net = Topology.parse("torus:4x4")
    with pytest.raises(DeadlockError) as caught:
        check_deadlock_free(
            net, lambda node, dest: dateline_reset_on_every_plus_hop(net, node, dest)
        )
    assert str(caught.value) == (
        "routing can deadlock: (0,0)+x vc0 -> (1,0)+x vc0 -> (2,0)+x vc0 -> (3,0)+x vc1"
        " -> (0,0)+x vc0: break the cycle with another virtual channel or turn"
    )
    assert caught.value.cycle == ((0, 1, 0), (1, 1, 0), (2, 1, 0), (3, 1, 1))


def wrong_vc(how: str, dim: Dim, x: int, d: int) -> int:
    port, vc = RIGHT(dim, x, d)
    arrived = dim.step(x, port)
    assert arrived is not None
    return {
        "always 0": 0,
        "always 1": 1,
        "none on plus": vc if port == 1 else 0,
        "none on minus": vc if port == 0 else 0,
        "only the wrap hop": int(abs(x - arrived[0]) > 1),
        "odd and even": x % 2,
    }[how]


RIGHT = Dim.route
WRONG = ["always 0", "always 1", "none on plus", "none on minus", "only the wrap hop",
         "odd and even"]  # fmt: skip


@pytest.mark.parametrize("text", ["ring:6", "torus:6x6", "torus:8x8", "line2,ring7"])
@pytest.mark.parametrize("how", WRONG)
def test_wrong_datelines_are_refused_by_both_proofs(
    text: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def route(dim: Dim, x: int, d: int) -> tuple[int, int]:
        port, vc = RIGHT(dim, x, d)
        return port, wrong_vc(how, dim, x, d) if dim.is_ring else vc

    net = Topology.parse(text)
    check_deadlock_free(net)
    monkeypatch.setattr(Dim, "route", route)
    waits = channel_dependencies(net)
    for next_hop in (None, net.next_hop):
        with pytest.raises(DeadlockError, match=r"routing can deadlock: \(0.* vc\d -> ") as caught:
            check_deadlock_free(net, next_hop)
        cycle = caught.value.cycle
        assert len(set(cycle)) == len(cycle) > 1
        assert all(b in waits[a] for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True))


def test_turns_of_both_orders_on_one_channel_are_refused() -> None:
    net = Topology.parse("mesh:3x3")

    def either_order(node: int, dest: int) -> tuple[int, int]:
        (x, y), (to_x, to_y) = net.coordinates(node), net.coordinates(dest)
        if y != to_y and (x == to_x or dest % 2):
            return (3 if to_y > y else 4), 0
        return (1 if to_x > x else 2, 0) if x != to_x else (0, 0)

    with pytest.raises(DeadlockError) as caught:
        check_deadlock_free(net, either_order)
    assert {port for _, port, _ in caught.value.cycle} == {1, 2, 3, 4}
    xy = check_deadlock_free(net)
    assert (xy.channels, xy.pairs) == (24, 72)


def test_a_route_that_never_arrives_is_a_cycle() -> None:
    net = Topology.parse("line:3")

    def turn_back(node: int, dest: int) -> tuple[int, int]:
        return (2, 0) if (node, dest) == (1, 2) else net.next_hop(node, dest)

    with pytest.raises(DeadlockError, match=r"\(0\)\+x vc0 -> \(1\)-x vc0 -> \(0\)\+x vc0"):
        check_deadlock_free(net, turn_back)


@pytest.mark.parametrize(
    ("hop", "text"),
    [
        ((2, 0), "next_hop from (0) to (1) is port 2 vc 0: take a port with a link, vc >= 0"),
        ((0, 0), "next_hop from (0) to (1) is port 0 vc 0: take a port with a link, vc >= 0"),
        ((1, -1), "next_hop from (0) to (1) is port 1 vc -1: take a port with a link, vc >= 0"),
        ((9, 0), "link port 9 of node 0: use 1 to 2"),
    ],
)
def test_a_hop_to_nowhere_is_named(hop: tuple[int, int], text: str) -> None:
    net = Topology.parse("line:2")
    with pytest.raises(InputError) as caught:
        check_deadlock_free(net, lambda node, dest: hop if dest == 1 else net.next_hop(node, dest))
    assert str(caught.value) == text


channels = st.tuples(st.integers(0, 7), st.just(1), st.just(0))


@settings(deadline=None)
@given(st.dictionaries(channels, st.sets(channels, max_size=3)))
def test_cycles_are_found_exactly_when_there_are_any(
    graph: dict[tuple[int, int, int], set[tuple[int, int, int]]],
) -> None:
    cycle = find_cycle(graph)
    acyclic = nx.is_directed_acyclic_graph(nx.DiGraph({a: list(b) for a, b in graph.items()}))
    assert (cycle == ()) == acyclic
    assert all(b in graph[a] for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True))
    assert len(set(cycle)) == len(cycle)
    assert cycle == () or cycle[0] == min(cycle)


def test_of_several_cycles_through_a_channel_a_shortest_is_named() -> None:
    a, b, c, d = ((x, 1, 0) for x in range(4))
    assert find_cycle({a: {b, c}, b: {a}, c: {d}, d: {a}}) == (a, b)
    assert find_cycle({a: {b, d}, b: {c}, c: {a}, d: {a}}) == (a, d)


def test_a_long_chain_needs_no_deep_stack() -> None:
    assert find_cycle({(x, 1, 0): {(x + 1, 1, 0)} for x in range(20000)}) == ()


@pytest.mark.bench
def test_the_proof_of_an_8x8_torus_takes_milliseconds() -> None:
    net = Topology.parse("torus:8x8")
    begin = time.perf_counter()
    check_deadlock_free(net, net.next_hop)
    assert time.perf_counter() - begin < 0.1
