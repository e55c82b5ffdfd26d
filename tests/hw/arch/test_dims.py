"""One dimension at a time, against graphs drawn by hand or by networkx."""

import dataclasses
import itertools

import networkx as nx  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenpath.hw.arch.dims import MAX_TILES, SHAPES, TIER_NAMES, TIERS, Dim, Tier, parse_size
from tokenpath.hw.arch.errors import InputError

ALL = [Dim(size=n, shape=shape) for shape in SHAPES for n in range(1, 12)]
many = pytest.mark.parametrize("dim", ALL, ids=str)


def drawn(dim: Dim) -> nx.Graph:
    """The graph of a dimension as its name says, nothing taken from the code under test."""
    if dim.size == 1:
        return nx.empty_graph(1)
    if dim.shape == "switch":
        return nx.from_edgelist((x, dim.size) for x in range(dim.size))
    make = {"line": nx.path_graph, "ring": nx.cycle_graph, "full": nx.complete_graph}
    return nx.path_graph(2) if dim.size == 2 else make[dim.shape](dim.size)


def positions(dim: Dim) -> range:
    return range(dim.size + (dim.shape == "switch" and dim.size > 1))


def ports_at(dim: Dim, x: int) -> int:
    return dim.size if x == dim.size else dim.ports


@many
def test_steps_are_the_edges_of_the_shape_and_lead_back(dim: Dim) -> None:
    edges = set()
    for x in positions(dim):
        for offset in range(ports_at(dim, x)):
            arrived = dim.step(x, offset)
            if arrived is not None:
                assert dim.step(*arrived) == (x, offset)
                assert (x, arrived[0]) not in edges, "two links between the same positions"
                edges.add((x, arrived[0]))
    assert edges == set(drawn(dim).to_directed().edges)
    assert dim.links == len(edges)


@many
def test_distances_are_those_of_the_graph(dim: Dim) -> None:
    far = dict(nx.all_pairs_shortest_path_length(drawn(dim)))
    pairs = [(x, d) for x in range(dim.size) for d in range(dim.size)]
    assert all(dim.hops(x, d) == far[x][d] for x, d in pairs)
    assert dim.diameter == max(far[x][d] for x, d in pairs)
    assert dim.total_hops == sum(far[x][d] for x, d in pairs)


@many
def test_routes_arrive_in_the_fewest_hops(dim: Dim) -> None:
    for src in range(dim.size):
        for dest in range(dim.size):
            x, hops = src, 0
            while x != dest:
                arrived = dim.step(x, dim.route(x, dest)[0])
                assert arrived is not None
                x, hops = arrived[0], hops + 1
                assert hops <= dim.size
            assert hops == dim.hops(src, dest)


@many
def test_table_holds_the_routes(dim: Dim) -> None:
    assert len(dim.table) == dim.size
    for x, row in enumerate(dim.table):
        assert len(row) == dim.size
        assert row[x] == (0, 0)
        assert all(row[d] == dim.route(x, d) for d in range(dim.size) if d != x)


@many
def test_virtual_channel_1_is_for_ways_that_still_cross_the_wrap_link(dim: Dim) -> None:
    for src in range(dim.size):
        for dest in range(dim.size):
            way, vcs = [src], []
            while way[-1] != dest:
                offset, vc = dim.route(way[-1], dest)
                arrived = dim.step(way[-1], offset)
                assert arrived is not None
                way.append(arrived[0])
                vcs.append(vc)
            wraps = [dim.is_ring and abs(a - b) > 1 for a, b in itertools.pairwise(way)]
            assert vcs == [int(any(wraps[i:])) for i in range(len(vcs))]


def test_half_way_round_a_ring_is_shared_by_both_directions() -> None:
    ring = Dim(size=6, shape="ring")
    assert [ring.route(x, (x + 3) % 6)[0] for x in range(6)] == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("shape", "cuts"),
    [
        ("line", [0, 1, 1, 1, 1]),
        ("ring", [0, 1, 2, 2, 2]),
        ("full", [0, 1, 2, 4, 6]),
        ("switch", [0, 1, 1, 2, 2]),
    ],
)
def test_cut_counts_links_one_way_between_the_halves(shape: str, cuts: list[int]) -> None:
    assert [Dim(size=n, shape=shape).cut for n in range(1, 6)] == cuts


def test_large_tables_are_refused_with_the_way_out() -> None:
    assert len(Dim(size=512, shape="ring").table) == 512
    with pytest.raises(InputError, match=r"^table of full5000: above size 4096 compute next_hop"):
        _ = Dim(size=5000, shape="full").table


def test_each_tier_is_farther_narrower_and_dearer_than_the_one_below() -> None:
    assert tuple(TIERS) == TIER_NAMES
    assert (TIERS["die"].latency_cycles, TIERS["die"].cycles_per_flit) == (1, 1)
    for near, far in itertools.pairwise(TIER_NAMES):
        low, high = dataclasses.astuple(TIERS[near])[1:], dataclasses.astuple(TIERS[far])[1:]
        assert all(a < b for a, b in zip(low, high, strict=True))


tiers = st.builds(
    Tier,
    name=st.sampled_from(TIER_NAMES),
    latency_cycles=st.integers(1, 10**6),
    cycles_per_flit=st.integers(1, 10**6),
    energy_pj_per_bit=st.floats(0, 1e12) | st.integers(0, 100),
)


@settings(deadline=None)
@given(tiers | st.sampled_from(list(TIERS.values())))
def test_a_tier_reads_back_from_its_text(tier: Tier) -> None:
    assert Tier.parse(str(tier)) == tier


def test_a_tier_says_only_what_differs_from_its_preset() -> None:
    board = dataclasses.replace(TIERS["board"], latency_cycles=200)
    assert str(TIERS["board"]) == "board"
    assert str(board) == "board(latency=200)"
    assert str(Dim(size=8, shape="full", tier=board)) == "full8@board(latency=200)"


@settings(deadline=None)
@given(st.sampled_from(SHAPES), st.integers(1, 60000), tiers)
def test_a_dimension_reads_back_from_its_text(shape: str, size: int, tier: Tier) -> None:
    dim = Dim(size=size, shape=shape, tier=tier)
    assert Dim.parse(str(dim)) == dim


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: Dim(size=4, shape="cube"),
            "unknown shape 'cube': use one of line, ring, full, switch",
        ),
        (
            lambda: Dim(size=0, shape="full"),
            "size of full is 0: use a whole number from 1 to 16777216",
        ),
        (
            lambda: Dim(size=True, shape="line"),
            "size of line is True: use a whole number from 1 to 65536",
        ),
        (
            lambda: Dim(size=4, shape="line", tier="die"),  # type: ignore[arg-type]
            "tier is 'die': give a Tier, such as TIERS['die']",
        ),
        (
            lambda: dataclasses.replace(TIERS["die"], name="wafer"),
            "unknown tier 'wafer': use one of die, package, board, rack, optical",
        ),
        (
            lambda: dataclasses.replace(TIERS["die"], latency_cycles=0),
            "latency of tier die is 0: use a whole number from 1 to 1000000",
        ),
        (
            lambda: dataclasses.replace(TIERS["die"], energy_pj_per_bit=float("nan")),
            "pj of tier die is nan: use picojoules per bit, >= 0",
        ),
        (
            lambda: Dim.parse("?" * 99),
            f"dimension '{'?' * 39}: write it as line4 or full8@board",
        ),
        (lambda: parse_size("07_0"), "size '07_0': use a whole number from 1 to 16777216"),
        (
            lambda: parse_size(str(MAX_TILES + 1)),
            "size 16777217: use a whole number from 1 to 16777216",
        ),
    ],
)
def test_wrong_values_are_named_with_the_remedy(make: object, text: str) -> None:
    assert callable(make)
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == text
