"""Routing tables: for each tile and destination the output that a packet takes, however it came.

As text a table is a CSV of a line a tile behind a heading, ``tile,0,1,2,...``: the tile's number,
then for each destination the output's name as in ``Topology.port_name``, ``.`` for the tile itself.
``up_down`` makes one for a network with broken links.
"""

import csv
import io
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from .errors import InputError, require
from .routing import check_deadlock_free
from .topology import Topology

MOST_TILES = 1024
"""Tiles of a table, whose size and proof grow with their square."""

HERE = "."

Table = tuple[tuple[int, ...], ...]
"""[tile][destination] -> output port, 0 at the destination."""


@lru_cache(maxsize=64)
def read_table(text: str, topology: Topology) -> Table:
    """The table of a CSV text, each of whose routes arrives and which can't deadlock on any VC.

    Raises InputError naming line and value; DeadlockError, a kind of it, naming the circle of
    channels: also that of a route which never arrives.
    """
    check_size(topology)
    try:
        lines = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise InputError(f"the routing table is no CSV: {error}; give tile,0,1,...") from None
    heading = ["tile", *map(str, range(topology.tiles))]
    require(
        bool(lines) and lines[0] == heading,
        f"the heading of the routing table is {','.join(lines[0] if lines else [])[:60]!r}; give "
        f"tile,0,1,... up to tile {topology.tiles - 1} of {topology}",
    )
    require(
        len(lines) == len(heading),
        f"the routing table has {len(lines) - 1} lines of tiles; give one for each of "
        f"{topology.tiles}",
    )
    table = tuple(_row(topology, tile, line) for tile, line in enumerate(lines[1:]))
    check_deadlock_free(topology, lambda node, to: _hop(table, topology, node, to))
    return table


def check_size(topology: Topology) -> None:
    """Raises InputError for a topology too large for a table."""
    require(
        topology.tiles <= MOST_TILES,
        f"a routing table for {topology.tiles} tiles: give at most {MOST_TILES}",
    )


def _row(topology: Topology, tile: int, line: list[str]) -> tuple[int, ...]:
    """The outputs of a tile's line."""
    where = f"line {tile + 2} of the routing table"
    require(
        line[:1] == [str(tile)] and len(line) == topology.tiles + 1,
        f"{where} has {len(line)} fields and begins with {','.join(line)[:20]!r}; give {tile} and "
        f"an output for each of {topology.tiles} destinations",
    )
    ports = {HERE: 0} | {topology.port_name(tile, port): port for port in _linked(topology, tile)}
    found = []
    for to, name in enumerate(line[1:]):
        require(
            name in ports and (name == HERE) == (to == tile),
            f"{where}: output {name!r} to tile {to}; give "
            + (HERE if to == tile else " or ".join(list(ports)[1:])),
        )
        found.append(ports[name])
    return tuple(found)


def _hop(table: Table, topology: Topology, node: int, to: int) -> tuple[int, int]:
    return (table[node][to], 0) if node < topology.tiles else topology.next_hop(node, to)


def _linked(topology: Topology, tile: int) -> list[int]:
    """The ports of a tile that lead somewhere."""
    return [p for p in range(1, topology.ports(tile)) if topology.neighbour(tile, p) is not None]


def write_table(table: Table, topology: Topology) -> str:
    """The CSV text of a table."""
    lines = [["tile", *map(str, range(topology.tiles))]]
    for tile, row in enumerate(table):
        names = [HERE, *(topology.port_name(tile, p) for p in range(1, topology.ports(tile)))]
        lines.append([str(tile), *(names[port] for port in row)])
    return "".join(",".join(line) + "\n" for line in lines)


def dimension_order(topology: Topology) -> Table:
    """The table of a network's own routes."""
    check_size(topology)
    tiles = range(topology.tiles)
    return tuple(tuple(topology.next_hop(tile, to)[0] for to in tiles) for tile in tiles)


def up_down(topology: Topology, broken: Iterable[tuple[int, int]] = ()) -> Table:
    """Up*/down* routing (Schroeder et al. 1991, Autonet) around ``broken`` links, each named by
    (tile, port) and broken both ways: no packet goes up again once it went down, where up is to a
    tile that is nearer to tile 0, or as near and of a lower number.

    Where a way down leads to the destination a packet takes a shortest one, else it goes up by a
    shortest way to a tile that has one, so that a route follows from tile and destination alone.
    Raises InputError for a link that isn't there, a tile that is cut off, or a network with
    switches.
    """
    check_size(topology)
    require(
        topology.nodes == topology.tiles,
        f"up*/down* routing on {topology}, which has switches; give a network of tiles only",
    )
    out = _links_left(topology, broken)
    rank = _ranks(topology, out)
    tiles = range(topology.tiles)
    up = [[(p, n) for p, n in out[tile] if rank[n] < rank[tile]] for tile in tiles]
    down = [[(p, n) for p, n in out[tile] if rank[n] > rank[tile]] for tile in tiles]
    order = sorted(tiles, key=rank.__getitem__)
    ways = [_to(up, down, order, to) for to in tiles]
    return tuple(tuple(way[tile] for way in ways) for tile in tiles)


def _links_left(
    topology: Topology, broken: Iterable[tuple[int, int]]
) -> list[list[tuple[int, int]]]:
    """[tile] -> (port, tile behind it) of the links that aren't broken."""
    gone = set(broken)
    for tile, port in list(gone):
        back = topology.neighbour(tile, port)
        require(back is not None, f"tile {tile} has no link at port {port} that could be broken")
        assert back is not None
        gone.add(back)
    found: list[list[tuple[int, int]]] = [[] for _ in range(topology.tiles)]
    for link in topology.links:
        if (link.src, link.src_port) not in gone:
            found[link.src].append((link.src_port, link.dst))
    return found


def _ranks(topology: Topology, out: list[list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """(hops from tile 0, number) of each tile."""
    away = {0: 0}
    queue = deque([0])
    while queue:
        tile = queue.popleft()
        for _, other in out[tile]:
            if other not in away:
                away[other] = away[tile] + 1
                queue.append(other)
    for tile in range(topology.tiles):
        require(
            tile in away,
            f"without these links tile {tile} {topology.node_name(tile)} of {topology} is cut off "
            "from tile 0",
        )
    return [(away[tile], tile) for tile in range(topology.tiles)]


def _to(
    up: list[list[tuple[int, int]]],
    down: list[list[tuple[int, int]]],
    order: list[int],
    to: int,
) -> list[int]:
    """The outputs of all tiles to one; ``order``: the tiles, the highest first."""
    tiles = len(order)
    port, far, below = [0] * tiles, [tiles * tiles] * tiles, [False] * tiles
    below[to], far[to] = True, 0
    for tile in reversed(order):  # those that reach it by going down only, the deepest first
        for p, n in down[tile]:
            if tile != to and below[n] and far[n] + 1 < far[tile]:
                below[tile], far[tile], port[tile] = True, far[n] + 1, p
    for tile in order:  # the others, the highest first
        for p, n in up[tile]:
            if not below[tile] and far[n] + 1 < far[tile]:
                far[tile], port[tile] = far[n] + 1, p
    return port


def broken_links(topology: Topology, names: Collection[str]) -> Iterator[tuple[int, int]]:
    """(tile, port) of links named as ``(1,1)+x``. Raises InputError for others."""
    known = {
        topology.node_name(link.src) + topology.port_name(link.src, link.src_port): link
        for link in topology.links
    }
    for name in names:
        link = known.get(name.replace(" ", ""))
        if link is None:
            example = next(iter(known), "none")
            raise InputError(f"{topology} has no link {name!r}; give tile and way, as {example}")
        yield link.src, link.src_port
