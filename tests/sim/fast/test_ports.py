"""Ports of all nodes against the topology, and what is too many of them."""

import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.topology import Topology
from tokenpath.sim.fast.ports import MOST, Ports, coordinates_of


@pytest.mark.parametrize("text", ["line:1", "torus:3x4", "switch3@die,ring4@rack", "tiered:2x3x2"])
def test_ports_lead_where_the_topology_says(text):
    topology = Topology.parse(text)
    ports = Ports.of(topology)
    assert ports.most == max(topology.ports(node) for node in range(topology.nodes))
    at = 0
    for node in range(topology.nodes):
        assert ports.node_port0[node] == at
        for port in range(topology.ports(node)):
            arrived = topology.neighbour(node, port)
            there = -1 if arrived is None else ports.node_port0[arrived[0]] + arrived[1]
            dim = topology.port_dim(node, port) if port else -1
            if node < topology.tiles:
                assert ports.dims[at] == dim
            assert (ports.node[at], ports.number[at], ports.down[at]) == (node, port, there)
            at += 1
    assert len(ports.node) == ports.node_port0[-1] == at
    here = coordinates_of(topology).tolist()
    assert here == [list(topology.coordinates(tile)) for tile in range(topology.tiles)]


def test_more_ports_than_32_bits_of_a_way_are_refused():
    assert MOST << 8 == 1 << 31
    message = (
        "mesh:2048x1024 has 10,485,760 ports, and the fast simulator room for 8,388,608; give "
        "fewer tiles, or dimensions of fewer ports"
    )
    with pytest.raises(InputError, match=message):
        Ports.of(Topology.parse("mesh:2048x1024"))
