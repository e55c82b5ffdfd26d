"""Nodes, ports, links and routes of small products, all pairs; the notation and its errors."""

import json
import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.topology import SHAPES, TIERS, Dim, Tier, Topology

tiers = st.sampled_from(list(TIERS.values())) | st.builds(
    Tier,
    name=st.sampled_from(list(TIERS)),
    latency_cycles=st.integers(1, 999),
    cycles_per_flit=st.integers(1, 99),
    energy_pj_per_bit=st.floats(0, 99),
)
dims = st.builds(Dim, size=st.integers(1, 7), shape=st.sampled_from(SHAPES), tier=tiers)
topologies = (
    st.lists(dims, min_size=1, max_size=4)
    .filter(lambda some: math.prod(dim.size for dim in some) <= 48)
    .map(lambda some: Topology(dims=tuple(some)))
)
slow = settings(deadline=None, max_examples=60)


@slow
@given(topologies)
def test_every_packet_arrives_in_the_fewest_hops_dimension_by_dimension(net: Topology) -> None:
    for src in range(net.tiles):
        for dest in range(net.tiles):
            node, used = src, []
            for channel in net.path(src, dest):
                assert channel == (node, *net.next_hop(node, dest))
                used.append(net.port_dim(*channel[:2]))
                arrived = net.neighbour(*channel[:2])
                assert arrived is not None
                node = arrived[0]
            assert node == dest
            assert net.next_hop(node, dest) == (0, 0)
            assert used == sorted(used)
            apart = zip(net.dims, net.coordinates(src), net.coordinates(dest), strict=True)
            wanted = [dim.hops(x, d) for dim, x, d in apart]
            assert [used.count(i) for i in range(len(wanted))] == wanted
            assert sum(wanted) == net.hops(src, dest)


@slow
@given(topologies)
def test_links_come_in_pairs_and_every_port_knows_its_link(net: Topology) -> None:
    ends = {(link.src, link.src_port): (link.dst, link.dst_port) for link in net.links}
    assert len(ends) == len(net.links) == net.link_count
    assert all(ends[there] == here for here, there in ends.items())
    assert [link.index for link in net.links] == list(range(len(net.links)))
    assert list(ends) == sorted(ends)
    for node in range(net.nodes):
        assert net.neighbour(node, 0) is None
        for port in range(1, net.ports(node)):
            assert net.neighbour(node, port) == ends.pop((node, port), None)
    assert not ends
    for link in net.links:
        assert link.dim == net.port_dim(link.src, link.src_port)
        assert link.dim == net.port_dim(link.dst, link.dst_port)
        assert link.tier == net.dims[link.dim].tier


@slow
@given(topologies)
def test_links_join_coordinates_of_one_dimension(net: Topology) -> None:
    for link in net.links:
        at = net.coordinates(net.switch_of(link.src)[1] if link.src >= net.tiles else link.src)
        to = net.coordinates(net.switch_of(link.dst)[1] if link.dst >= net.tiles else link.dst)
        assert all(a == b for i, (a, b) in enumerate(zip(at, to, strict=True)) if i != link.dim)
        assert (max(link.src, link.dst) >= net.tiles) == (net.dims[link.dim].shape == "switch")


@slow
@given(topologies)
def test_tables_and_port_bases_are_the_whole_of_next_hop(net: Topology) -> None:
    tables = [net.dim_table(i) for i in range(len(net.dims))]
    for node in range(net.tiles):
        for dest in range(net.tiles):
            here, there = net.coordinates(node), net.coordinates(dest)
            first = next((i for i, x in enumerate(here) if x != there[i]), None)
            if first is None:
                assert net.next_hop(node, dest) == (0, 0)
                continue
            offset, vc = tables[first][here[first]][there[first]]
            assert net.next_hop(node, dest) == (net.port_base[first] + offset, vc)
            assert vc < net.vcs
    for node in range(net.tiles, net.nodes):
        dim = net.switch_of(node)[0]
        for dest in range(net.tiles):
            assert net.next_hop(node, dest) == (1 + net.coordinates(dest)[dim], 0)


@settings(deadline=None)
@given(topologies)
def test_text_reads_back_as_an_equal_topology(net: Topology) -> None:
    assert Topology.parse(str(net)) == net
    assert str(Topology.parse(str(net))) == str(net)


@pytest.mark.parametrize(
    ("text", "canonical", "product"),
    [
        ("mesh:8x4", "mesh:8x4", "line8@die,line4@die"),
        ("torus:4x3x2", "torus:4x3x2", "ring4,ring3,ring2"),
        ("flat:64", "flat:64", "full64"),
        ("flat:8x8", "flat:8x8", "full8,full8"),
        ("full:8", "flat:8", "full8"),
        ("ring:8", "ring:8", "ring8@die"),
        ("torus:8", "ring:8", "ring8"),
        ("line:4", "line:4", "line4"),
        ("mesh:1", "line:1", "line1"),
        ("switch:72", "switch:72", "switch72"),
        ("tiered:4x4x8", "line4@die,full4@package,full8@board", "line4,full4@package,full8@board"),
        ("tiered:2x2x2x2x2", "line2@die,full2@package,full2@board,full2@rack,full2@optical",
         "line2,full2@package,full2@board,full2@rack,full2@optical"),
        (" Mesh:8X4 ", "mesh:8x4", "line8, line4"),
        ("line4,ring4", "line4@die,ring4@die", "line4@die,ring4"),
        ("mesh:2x3", "mesh:2x3", "line2@die(latency=1),line3"),
        ("line4@rack(latency=400,cpf=8),ring3", "line4@rack(latency=400,cpf=8),ring3@die",
         "line4@rack(cpf=8,latency=400),ring3"),
    ],
)  # fmt: skip
def test_each_word_stands_for_its_product(text: str, canonical: str, product: str) -> None:
    assert Topology.parse(text) == Topology.parse(product)
    assert str(Topology.parse(text)) == canonical


EXAMPLES = "write it as mesh:8x8, torus:4x4x4, flat:64, tiered:4x4x8 or line4@die,full8@board"
WORDS = "mesh, torus, flat, line, ring, full, switch, tiered"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", f"'' is no dimension: {EXAMPLES}"),
        ("mesh", f"'mesh' is no dimension: {EXAMPLES}"),
        ("8x8", f"'8x8' is no dimension: {EXAMPLES}"),
        ("mesh8x8", f"'mesh8x8' is no dimension: {EXAMPLES}"),
        ("line4@die,", f"'' is no dimension: {EXAMPLES}"),
        ("mash:8x8", f"unknown word 'mash': did you mean 'mesh'? use one of {WORDS}"),
        ("cube:8", f"unknown word 'cube': use one of {WORDS}"),
        ("mesh:8x", "size '': use a whole number from 1 to 16777216"),
        ("mesh:0x4", "size 0: use a whole number from 1 to 16777216"),
        ("mesh:8x-1", "size '-1': use a whole number from 1 to 16777216"),
        ("mesh:8x8@die", "size '8@die': use a whole number from 1 to 16777216"),
        ("lin4@die", "unknown shape 'lin': did you mean 'line'? use one of "
         "line, ring, full, switch"),
        ("line4@dei", "unknown tier 'dei': did you mean 'die'? use one of "
         "die, package, board, rack, optical"),
        ("line4@", "tier '': write it as board or board(latency=200,cpf=8,pj=6.5)"),
        ("full8@board(lat=3)", "unknown setting of tier board 'lat': did you mean 'latency'? "
         "use one of latency, cpf, pj"),
        ("full8@board()", "unknown setting of tier board '': use one of latency, cpf, pj"),
        ("full8@board(latency=0)", "latency of tier board is 0: use a whole number "
         "from 1 to 1000000"),
        ("full8@board(cpf=x)", "cpf of tier board is 'x': use a whole number"),
        ("full8@board(pj=-1)", "pj of tier board is '-1': use a number"),
        ("full8@board(pj=1e999)", "pj of tier board is inf: use picojoules per bit, >= 0"),
        ("full8@board(latency=3", "tier 'board(latency=3': write it as board or "
         "board(latency=200,cpf=8,pj=6.5)"),
        ("mesh:9999x9999", "topology of 99980001 tiles: use at most 16777216"),
        ("line70000", "size of line is 70000: use a whole number from 1 to 65536"),
        ("tiered:2x2x2x2x2x2", "6 tiers: use at most 5, or name each dimension"),
        ("x".join(["mesh:1"] + ["1"] * 24), "25 dimensions: use 1 to 24"),
        ("flat:" + "9" * 50, f"size {'9' * 40}...: use a whole number from 1 to 16777216"),
    ],
)  # fmt: skip
def test_bad_text_is_answered_with_the_value_and_the_remedy(text: str, error: str) -> None:
    with pytest.raises(InputError) as caught:
        Topology.parse(text)
    assert str(caught.value) == f"topology {text!r}: {error}"


@settings(deadline=None)
@given(st.text(alphabet="linerg:x@,()=48 \n", max_size=20))
def test_garbage_gives_one_line_or_a_topology(text: str) -> None:
    try:
        net = Topology.parse(text)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert Topology.parse(str(net)) == net


@pytest.mark.parametrize(
    "text",
    ["?" * 999, "a" * 999 + ":8", "line4@" + "a" * 999, "line4@die(" + "a" * 999 + ")",
     "line4@die(cpf=" + "a" * 999 + ")", "flat:" + "a" * 999, "line4@" + "?" * 999],
)  # fmt: skip
def test_long_garbage_is_shortened(text: str) -> None:
    with pytest.raises(InputError) as caught:
        Topology.parse(text)
    assert len(str(caught.value)) < 250


def test_a_size_with_many_zeros_before_it_is_not_cut_to_another_size() -> None:
    with pytest.raises(InputError, match=r"size 0{38}12\.\.\.: use a whole number"):
        Topology.parse(f"flat:{'0' * 38}123")


def test_ports_of_a_mesh_count_from_1_plus_before_minus() -> None:
    net = Topology.parse("mesh:3x3")
    assert net.port_base == (1, 3, 5)
    assert [net.neighbour(4, port) for port in range(5)] == [None, (5, 2), (3, 1), (7, 4), (1, 3)]
    assert [net.neighbour(0, port) for port in range(5)] == [None, (1, 2), None, (3, 4), None]


def test_a_ring_of_two_has_one_link_each_way() -> None:
    for text in ("ring:2", "line:2"):
        net = Topology.parse(text)
        assert (net.ports(0), net.vcs, len(net.links)) == (3, 1, 2)
        assert [net.neighbour(0, 1), net.neighbour(0, 2)] == [(1, 2), None]
        assert [net.neighbour(1, 1), net.neighbour(1, 2)] == [None, (0, 1)]


def test_dimensions_of_size_1_have_no_ports_and_no_switch() -> None:
    net = Topology.parse("line1,ring1,full1,switch1,line3")
    assert (net.port_base, net.nodes, len(net.links)) == ((1, 1, 1, 1, 1, 3), 3, 4)


def test_ports_of_a_full_dimension_count_from_the_next_coordinate() -> None:
    net = Topology.parse("full4,line2")
    assert [net.neighbour(2, port) for port in (1, 2, 3)] == [(3, 3), (0, 2), (1, 1)]
    assert net.port_base == (1, 4, 6)


def test_switch_nodes_come_after_the_tiles_one_for_each_combination_of_the_others() -> None:
    net = Topology.parse("line2,switch3,switch2")
    assert (net.tiles, net.nodes, net.switch_base) == (12, 12 + 4 + 6, (12, 12, 16, 22))
    assert [net.ports(node) for node in (0, 12, 15, 16, 21)] == [5, 4, 4, 3, 3]
    up = net.tile_at((1, 2, 1))
    assert net.neighbour(up, 3) == (15, 3)
    assert net.neighbour(15, 3) == (up, 3)
    assert net.neighbour(up, 4) == (16 + 1 + 2 * 2, 2)
    assert [net.node_name(node) for node in (up, 15, 21)] == ["(1,2,1)", "(1,*,1)", "(1,2,*)"]
    assert net.path(0, up) == [(0, 1, 0), (1, 3, 0), (13, 3, 0), (5, 4, 0), (21, 2, 0)]
    assert net.channel_name((1, 3, 0)) == "(1,0,0)y* vc0"
    assert net.channel_name((13, 3, 0)) == "(1,*,0)y2 vc0"


@pytest.mark.parametrize(
    ("text", "vcs"),
    [("mesh:4x4", 1), ("torus:4x4", 2), ("ring:3", 2), ("torus:2x2", 1), ("full9,ring3@rack", 2),
     ("switch:8", 1)],
)  # fmt: skip
def test_only_rings_of_three_or_more_need_a_second_virtual_channel(text: str, vcs: int) -> None:
    assert Topology.parse(text).vcs == vcs


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda net: net.next_hop(0, 6), "tile 6 of switch3@die,line2@die: use 0 to 5"),
        (lambda net: net.next_hop(8, 0), "switch node 8 of switch3@die,line2@die: use 6 to 7"),
        (lambda net: net.next_hop(-1, 0), "switch node -1 of switch3@die,line2@die: use 6 to 7"),
        (lambda net: net.neighbour(0, 4), "link port 4 of node 0: use 1 to 3"),
        (lambda net: net.neighbour(6, -1), "link port -1 of node 6: use 1 to 3"),
        (lambda net: net.path(7, 0), "tile 7 of switch3@die,line2@die: use 0 to 5"),
    ],
)
def test_wrong_nodes_and_ports_are_refused(call: Callable[[Topology], object], text: str) -> None:
    with pytest.raises(InputError) as caught:
        call(Topology.parse("switch3,line2"))
    assert str(caught.value) == text


def test_description_is_json_and_complete() -> None:
    shown = Topology.parse("line4@die,ring4@rack").describe()
    assert json.loads(json.dumps(shown)) == {
        "text": "line4@die,ring4@rack",
        "tiles": 16,
        "nodes": 16,
        "dims": [
            {
                "size": 4,
                "shape": "line",
                "tier": {
                    "name": "die",
                    "latency_cycles": 1,
                    "cycles_per_flit": 1,
                    "energy_pj_per_bit": 0.02,
                },
            },
            {
                "size": 4,
                "shape": "ring",
                "tier": {
                    "name": "rack",
                    "latency_cycles": 500,
                    "cycles_per_flit": 6,
                    "energy_pj_per_bit": 13.0,
                },
            },
        ],
        "ports_per_tile": 5,
        "vcs": 2,
        "grid": [4, 4],
        "diameter_hops": 5,
        "diameter_cycles": 1003,
        "mean_hops": pytest.approx((16 * 20 + 16 * 16) / (16 * 15)),
        "bisection_links": 8,
        "bisection_flits_per_cycle": pytest.approx(8 / 6),
        "links": 24 + 32,
        "links_per_tier": {"die": 24, "rack": 32},
        "deadlock_free": {
            "channels": 24 + 4 * 10,
            "dependencies": 4 * 4 + 4 * 4 + 6 * 10,
            "pairs": 240,
            "method": "dimension order",
        },
    }


def test_a_wafer_is_described_without_its_links() -> None:
    net = Topology.parse("mesh:660x660")
    assert net.describe()["links"] == 4 * 660 * 659
    assert "links" not in vars(net)
