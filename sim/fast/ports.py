"""All ports of all nodes, and where each leads."""

from dataclasses import dataclass

import numpy as np

from tokenpath.hw.arch.errors import require
from tokenpath.hw.arch.topology import Topology

from . import columns as c
from .state import I64

MOST = 1 << 31 - c.VC_BITS
"""Ports whose ways (ways.py) fit the 32 bits of a slot."""


@dataclass(frozen=True, kw_only=True)
class Ports:
    """All ports of all nodes: the dimension (-1: local), the node, its number there, the port that
    it leads to (-1: none), the first port of each node. ``of`` raises InputError for more than
    MOST.
    """

    dims: I64
    node: I64
    number: I64
    down: I64
    node_port0: I64

    @classmethod
    def of(cls, topology: Topology) -> "Ports":
        tiles, per_tile = topology.tiles, topology.port_base[-1]
        hubs = [topology.switch_of(n)[0] for n in range(tiles, topology.nodes)]
        counts = np.concatenate(
            [np.full(tiles, per_tile), [1 + topology.dims[i].size for i in hubs]]
        ).astype(np.int64)
        node_port0 = np.concatenate([[0], np.cumsum(counts)])
        require(
            int(node_port0[-1]) <= MOST,
            f"{topology} has {node_port0[-1]:,} ports, and the fast simulator room for {MOST:,}; "
            "give fewer tiles, or dimensions of fewer ports",
        )
        node = np.repeat(np.arange(topology.nodes), counts)
        tile_dims = [-1] + [i for i, dim in enumerate(topology.dims) for _ in range(dim.ports)]
        dims = np.concatenate(
            [np.tile(tile_dims, tiles), *([np.full(1 + topology.dims[i].size, i) for i in hubs])]
        ).astype(np.int64)
        down = np.full(len(node), -1, np.int64)
        _tile_ports(topology, down, node_port0)
        _hub_ports(topology, down, node_port0)
        number = np.arange(len(node)) - node_port0[node]
        return cls(dims=dims, node=node, number=number, down=down, node_port0=node_port0)

    @property
    def most(self) -> int:
        """Ports of the node that has the most."""
        return int(np.diff(self.node_port0).max())


def _tile_ports(topology: Topology, down: I64, node_port0: I64) -> None:
    """Where the link ports of all tiles lead, for all tiles at a position at once."""
    tile = np.arange(topology.tiles)
    for i, (dim, stride) in enumerate(zip(topology.dims, topology.strides, strict=True)):
        base, by_position = topology.port_base[i], tile.reshape(-1, dim.size, stride)
        for x in range(dim.size):
            here = by_position[:, x].reshape(-1)
            for offset in range(dim.ports):
                arrived = dim.step(x, offset)
                if arrived is None:
                    continue
                y, back = arrived
                if y == dim.size:  # behind each other in the order of the tiles at position 0
                    hub = topology.switch_base[i] + np.arange(len(here))
                    there = node_port0[hub] + 1 + back
                else:
                    there = node_port0[here + (y - x) * stride] + base + back
                down[node_port0[here] + base + offset] = there


def _hub_ports(topology: Topology, down: I64, node_port0: I64) -> None:
    for node in range(topology.tiles, topology.nodes):
        for port in range(1, topology.ports(node)):
            arrived = topology.neighbour(node, port)
            assert arrived is not None
            down[node_port0[node] + port] = node_port0[arrived[0]] + arrived[1]


def coordinates_of(topology: Topology) -> I64:
    """Of each tile (tiles, dims)."""
    tile = np.arange(topology.tiles)
    sizes = zip(topology.dims, topology.strides, strict=True)
    return np.stack([tile // stride % dim.size for dim, stride in sizes], axis=1)
