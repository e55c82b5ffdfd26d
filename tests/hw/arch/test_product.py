"""Closed forms against a graph of the whole product, drawn from coordinates alone."""

import itertools
import math

import networkx as nx  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenpath.hw.arch.dims import SHAPES, TIERS, Dim
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.product import Product
from tokenpath.hw.arch.topology import Topology

dims = st.builds(
    Dim,
    size=st.integers(1, 7),
    shape=st.sampled_from(SHAPES),
    tier=st.sampled_from(list(TIERS.values())),
)
products = (
    st.lists(dims, min_size=1, max_size=3)
    .filter(lambda some: math.prod(dim.size for dim in some) <= 48)
    .map(lambda some: Topology(dims=tuple(some)))
)


def linked(dim: Dim, x: int, y: int) -> bool:
    near = abs(x - y) == 1
    return (
        near if dim.shape == "line" else near or dim.shape == "full" or abs(x - y) == dim.size - 1
    )


def drawn(product: Product) -> nx.Graph:
    """Tiles as tuples of coordinates; a switch as its tiles' tuple with "*" in its dimension."""
    graph = nx.Graph()
    graph.add_nodes_from(itertools.product(*(range(dim.size) for dim in product.dims)))
    for tile in list(graph):
        for i, dim in enumerate(product.dims):
            others = ["*"] if dim.shape == "switch" else range(dim.size)
            for y in others if dim.size > 1 else ():
                if y == "*" or (y != tile[i] and linked(dim, tile[i], y)):  # type: ignore[arg-type]
                    cost = dim.tier.latency_cycles
                    graph.add_edge(tile, (*tile[:i], y, *tile[i + 1 :]), cycles=cost, dim=i)
    return graph


@settings(deadline=None, max_examples=60)
@given(products)
def test_distances_are_the_shortest_of_the_whole_graph(product: Topology) -> None:
    graph = drawn(product)
    hops = dict(nx.all_pairs_shortest_path_length(graph))
    cycles = dict(nx.all_pairs_dijkstra_path_length(graph, weight="cycles"))
    tiles = [product.coordinates(tile) for tile in range(product.tiles)]
    for (a, src), (b, dest) in itertools.product(enumerate(tiles), repeat=2):
        assert product.hops(a, b) == hops[src][dest]
        assert product.distance_cycles(a, b) == cycles[src][dest]
    assert product.diameter_hops == max(hops[a][b] for a in tiles for b in tiles)
    assert product.diameter_cycles == max(cycles[a][b] for a in tiles for b in tiles)
    apart = [hops[a][b] for a in tiles for b in tiles if a != b]
    assert product.mean_hops == pytest.approx(sum(apart) / len(apart) if apart else 0.0)


@settings(deadline=None)
@given(products)
def test_links_are_counted_by_tier(product: Topology) -> None:
    count = dict.fromkeys((dim.tier.name for dim in product.dims if dim.links), 0)
    for _, _, dim in drawn(product).edges(data="dim"):
        count[product.dims[dim].tier.name] += 2
    assert product.links_per_tier == count
    assert product.link_count == sum(count.values())


def test_tiers_of_one_name_but_other_figures_are_counted_apart() -> None:
    net = Topology.parse("line2@board,full3@board(latency=200),ring3@board")
    assert net.links_per_tier == {"board": 2 * 9 + 6 * 6, "board(latency=200)": 6 * 6}


@settings(deadline=None)
@given(products)
def test_bisection_is_the_narrowest_cut_across_one_dimension(product: Topology) -> None:
    flits = {}
    for i, dim in enumerate(product.dims):
        if dim.size > 1:
            low = {node for node in drawn(product) if node[i] in range(dim.size // 2)}
            links = len(list(nx.edge_boundary(drawn(product), low)))
            flits[links / dim.tier.cycles_per_flit, links] = i
    assert (product.bisection_flits_per_cycle, product.bisection_links) == min(
        flits, default=(0, 0)
    )


@pytest.mark.parametrize(
    "text",
    ["line:4", "ring:6", "flat:6", "switch:6", "mesh:4x2", "torus:4x2", "flat:4x2", "mesh:2x2x2",
     "mesh:4x3", "full4,line2", "ring4,full2"],
)  # fmt: skip
def test_no_halving_of_an_even_product_is_narrower(text: str) -> None:
    product = Topology.parse(text)
    graph = drawn(product)
    tiles = [node for node in graph if "*" not in node]
    hubs = [node for node in graph if "*" in node]
    halves = [
        {*half, *hubs[: k * len(hubs)]}
        for half in itertools.combinations(tiles, len(tiles) // 2)
        for k in (0, 1)
    ]
    widths = [len(list(nx.edge_boundary(graph, half))) for half in halves]
    assert product.bisection_links == min(widths)


@settings(deadline=None)
@given(products)
def test_the_first_dimension_varies_fastest(product: Topology) -> None:
    backwards = itertools.product(*(range(dim.size) for dim in reversed(product.dims)))
    for tile, coordinates in enumerate(backwards):
        assert product.coordinates(tile) == coordinates[::-1]
        assert product.tile_at(coordinates[::-1]) == tile


@pytest.mark.parametrize(
    ("text", "grid"),
    [
        ("mesh:8x4", (4, 8)),
        ("torus:4x4x4", (4, 16)),
        ("line2,line2,line8,line2", (16, 4)),
        ("mesh:2x3x5", (5, 6)),
        ("flat:16", (4, 4)),
        ("ring:8", (2, 4)),
        ("mesh:8x1", (2, 4)),
        ("line:7", (1, 7)),
        ("switch:72", (8, 9)),
        ("line:1", (1, 1)),
        ("mesh:64x2", (2, 64)),
    ],
)
def test_grid_parts_the_dimensions_nearest_to_a_square(text: str, grid: tuple[int, int]) -> None:
    assert Topology.parse(text).grid == Topology.parse(text).factor_grid() == grid


@settings(deadline=None)
@given(products)
def test_a_row_of_the_grid_is_whole_in_the_leading_dimensions(product: Topology) -> None:
    rows, columns = product.grid
    assert rows * columns == product.tiles
    longer = [dim for dim in product.dims if dim.size > 1]
    if len(longer) > 1:
        assert columns in itertools.accumulate((dim.size for dim in longer), lambda a, b: a * b)


@pytest.mark.parametrize(
    ("tiles", "bits"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (64, 6), (65, 7)]
)
def test_tile_bits_hold_the_last_tile(tiles: int, bits: int) -> None:
    assert Topology.parse(f"flat:{tiles}").tile_bits == bits


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Topology(dims=()), "0 dimensions: use 1 to 24"),
        (lambda: Topology(dims=[]), "dims are []: give a tuple of Dim"),  # type: ignore[arg-type]
        (lambda: Topology(dims=("line4",)), "dims are ('line4',): give a tuple of Dim"),  # type: ignore[arg-type]
        (lambda: Topology.parse("mesh:3x2").coordinates(6), "tile 6 of mesh:3x2: use 0 to 5"),
        (lambda: Topology.parse("mesh:3x2").hops(0, -1), "tile -1 of mesh:3x2: use 0 to 5"),
        (
            lambda: Topology.parse("mesh:3x2").tile_at((1, 2)),
            "coordinates (1, 2): give one below each of [3, 2]",
        ),
        (
            lambda: Topology.parse("mesh:3x2").tile_at((1,)),
            "coordinates (1,): give one below each of [3, 2]",
        ),
    ],
)
def test_wrong_values_are_named_with_the_remedy(make: object, text: str) -> None:
    assert callable(make)
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == text
