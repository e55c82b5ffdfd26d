"""Routing tables: what is read is what was written, routes arrive, and none can deadlock."""

import random

import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.route_table import (
    MOST_TILES,
    broken_links,
    dimension_order,
    read_table,
    up_down,
    write_table,
)
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.routing import DeadlockError
from tokenpath.hw.arch.topology import Topology

LINE = Topology.parse("line:3")
TEXT = "tile,0,1,2\n0,.,+x,+x\n1,-x,.,+x\n2,-x,-x,.\n"
SHAPES = ["mesh:4x3", "torus:3x4", "ring:6", "flat:5", "line2@board,full3@die,ring3@die"]


def path(table, topology, source, to):
    """The links, (tile, port), of a route."""
    found, node = [], source
    while node != to:
        found.append((node, table[node][to]))
        arrived = topology.neighbour(*found[-1])
        assert arrived is not None and len(found) <= topology.tiles
        node = arrived[0]
    return found


def test_a_table_is_its_text() -> None:
    table = dimension_order(LINE)
    assert write_table(table, LINE) == TEXT
    assert read_table(TEXT, LINE) == table == ((0, 1, 1), (2, 0, 1), (2, 2, 0))


@pytest.mark.parametrize("text", ["mesh:4x3", "switch:4", "flat:4", "line3@die,switch2@board"])
def test_dimension_order_is_that_of_the_topology(text: str) -> None:
    topology = Topology.parse(text)
    table = read_table(write_table(dimension_order(topology), topology), topology)
    for tile in range(topology.tiles):
        assert list(table[tile]) == [topology.next_hop(tile, to)[0] for to in range(topology.tiles)]


@pytest.mark.parametrize("text", SHAPES)
def test_up_down_goes_around_broken_links_and_never_up_again(text: str) -> None:
    topology, rng, cut = Topology.parse(text), random.Random(7), 0
    links = [(link.src, link.src_port) for link in topology.links]
    for count in [0, 1, 1, 2, 2, 3, 3, 4] * 3:
        broken = rng.sample(links, count)
        try:
            table = up_down(topology, broken)
        except InputError as error:
            assert "is cut off from tile 0" in str(error)
            cut += 1
            continue
        assert read_table(write_table(table, topology), topology) == table
        gone = {*broken, *(topology.neighbour(*link) for link in broken)}
        high = heights(topology, gone)
        for source in range(topology.tiles):
            for to in range(topology.tiles):
                went = path(table, topology, source, to)
                assert not gone & set(went)
                ups = [high[arrived(topology, link)] < high[link[0]] for link in went]
                assert ups == sorted(ups, reverse=True), "up behind down"
    assert cut < 20


def arrived(topology, link):
    return topology.neighbour(*link)[0]


def heights(topology, gone):
    """(hops from tile 0, number) of each tile, by relaxing all links over and over."""
    away = [0] + [topology.tiles] * (topology.tiles - 1)
    for _ in range(topology.tiles):
        for link in topology.links:
            if (link.src, link.src_port) not in gone:
                away[link.dst] = min(away[link.dst], away[link.src] + 1)
    return list(zip(away, range(topology.tiles), strict=True))


def test_without_a_broken_link_up_down_is_as_short_as_the_rule_allows() -> None:
    mesh = Topology.parse("mesh:3x3")
    table = up_down(mesh)
    assert [len(path(table, mesh, 0, to)) for to in range(9)] == [0, 1, 2, 1, 2, 3, 2, 3, 4]
    assert [len(path(table, mesh, 8, to)) for to in range(9)] == [4, 3, 2, 3, 2, 1, 2, 1, 0]


def test_a_longer_way_down_comes_before_a_shorter_one_up() -> None:
    flat = Topology.parse("flat:5")
    table = up_down(flat, broken_links(flat, ["(1)x3", "(1)x4", "(2)x4"]))
    assert [node for node, _ in path(table, flat, 1, 4)] == [1, 2, 3]
    assert [node for node, _ in path(table, flat, 4, 1)] == [4, 0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (TEXT, "", "routing table is ''; give tile,0,1,... up to tile 2 of line:3"),
        ("tile,0,1,2", "tile,0,2,1", "heading of the routing table is 'tile,0,2,1'; give tile,0"),
        ("+x", '"' + "x" * 200_000 + '"', "the routing table is no CSV: field larger than"),
        ("2,-x,-x,.\n", "", "the routing table has 2 lines of tiles; give one for each of 3"),
        ("1,-x,.,+x", "0,-x,.,+x", "line 3 of the routing table has 4 fields and begins with '0,"),
        ("1,-x,.,+x", "1,-x,.", "line 3 of the routing table has 3 fields and begins with '1,"),
        ("0,.,+x,+x", "0,.,+x,-x", "line 2 of the routing table: output '-x' to tile 2; give +x"),
        ("0,.,+x,+x", "0,.,+x,.", "line 2 of the routing table: output '.' to tile 2; give +x"),
        ("0,.,+x,+x", "0,+x,+x,+x", "line 2 of the routing table: output '+x' to tile 0; give ."),
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(InputError) as refused:
        read_table(TEXT.replace(old, new), LINE)
    assert message in str(refused.value)


def test_a_circle_is_refused_by_name() -> None:
    ring = Topology.parse("ring:4")
    clockwise = tuple(tuple(0 if to == tile else 1 for to in range(4)) for tile in range(4))
    text = write_table(clockwise, ring)
    message = r"can deadlock: \(0\)\+x vc0 -> \(1\)\+x vc0 -> \(2\)\+x vc0 -> \(3\)\+x vc0 -> \(0\)"
    with pytest.raises(DeadlockError, match=message):
        read_table(text, ring)
    with pytest.raises(DeadlockError, match=message):
        Arch.load("tiny").on(ring, RouterParams(kind="vc", vcs=8, routing="table", routes=text))
    lost = TEXT.replace("0,.,+x,+x", "0,.,+x,+x").replace("1,-x,.,+x", "1,-x,.,-x")
    with pytest.raises(DeadlockError, match=r"can deadlock: \(0\)\+x vc0 -> \(1\)-x vc0"):
        read_table(lost, LINE)


def test_what_up_down_is_not_for_is_refused() -> None:
    switch, mesh = Topology.parse("switch:3"), Topology.parse("mesh:2x2")
    with pytest.raises(InputError, match=r"up\*/down\* routing on .*, which has switches; give a"):
        up_down(switch)
    with pytest.raises(InputError, match="tile 0 has no link at port 2 that could be broken"):
        up_down(mesh, [(0, 2)])
    with pytest.raises(InputError, match=r"tile 1 \(1,0\) of .* is cut off from tile 0"):
        up_down(mesh, [(0, 1), (0, 3)])
    large = Topology.parse(f"line:{MOST_TILES + 1}")
    with pytest.raises(InputError, match="a routing table for 1025 tiles: give at most 1024"):
        dimension_order(large)


def test_links_are_named_as_routes_show_them() -> None:
    mesh = Topology.parse("mesh:3x3")
    assert list(broken_links(mesh, ["(1,1)+x", "(0, 2)-y"])) == [(4, 1), (6, 4)]
    with pytest.raises(InputError, match=r"has no link '\(2,2\)\+x'; give tile and way, as"):
        list(broken_links(mesh, ["(2,2)+x"]))
