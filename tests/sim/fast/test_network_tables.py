"""The tables of routers and links: routes and links are those of the topology."""

import numpy as np
import pytest
from programs import TINY

from tokenpath.hw.arch.errors import InputError
from tokenpath.sim.drawn import program
from tokenpath.sim.fast import columns, network_tables, tables, ways

TOPOLOGIES = [
    "line:1", "line:5", "ring:2", "ring:3", "ring:6", "mesh:4x3", "torus:3x4x2", "flat:5",
    "flat:2x3", "switch:4", "line3@die,full3@package,switch4@board", "switch3@die,ring4@rack",
    "tiered:2x3x2", "switch2@die,switch3@board",
]  # fmt: skip


@pytest.mark.parametrize("text", TOPOLOGIES)
def test_routes_and_links_are_those_of_the_topology(text, monkeypatch):
    monkeypatch.setattr(ways, "wide", int)  # plain Python, over arrays
    arch = TINY.on(text)
    topology, v = arch.topology, arch.vcs
    routers, code = network_tables.network(arch), program(arch, [((), (), ())] * arch.tiles)
    engines = tables.engines(
        code, tables.CodeTable.build(code), routers, trace=False, logging=False
    )
    outputs = routers.outputs.reshape(-1, columns.O_WIDTH)
    for node in range(topology.nodes):
        first = int(routers.node_port0[node])
        for port in range(topology.ports(node)):
            arrived, output = topology.neighbour(node, port), first + port
            assert outputs[output, columns.O_PORTS] == topology.ports(node)
            if arrived is None:
                assert outputs[output, columns.O_DOWN] == -1
                continue
            tier = topology.dims[topology.port_dim(node, port)].tier
            assert outputs[output, columns.O_CYCLES] == tier.cycles_per_flit
            link(routers, v, output, arrived, tier.latency_cycles, arch.router.buffer_flits(tier))
        for to in range(topology.tiles):
            port, vc = topology.next_hop(node, to)
            found = ways.route.py_func(engines, routers, node, to)
            assert found == (first + port) << columns.VC_BITS | 1 << vc


def link(routers, v, output, arrived, latency, depth):
    """Both ends of a link know of each other, and its queues are of its latency."""
    row = routers.outputs.reshape(-1, columns.O_WIDTH)[output]
    queues = network_tables.queue_rows(routers)[:, [columns.U_LATENCY, columns.U_CREDITS]]
    for vc in range(v):
        at = row[columns.O_DOWN] + vc * row[columns.O_STRIDE]
        behind = routers.buffers[at : at + columns.B_WIDTH]
        assert behind[columns.B_NODE] == arrived[0]
        assert behind[columns.B_PORT] == routers.node_port0[arrived[0]] + arrived[1]
        assert behind[columns.B_NUMBER] >> columns.PORT_BITS == arrived[1]
        assert behind[columns.B_NUMBER] & columns.VC_MASK == vc
        assert behind[columns.B_UP] == output << columns.UP_BITS | vc
        assert network_tables.credits_of(routers, v)[output, vc] == depth
        assert depth <= behind[columns.B_MASK] + 1 < max(5, 2 * depth)
        credits = behind[columns.B_NUMBER] >> columns.VC_BITS & columns.QUEUE_MASK
        assert queues[row[columns.O_QUEUE] // columns.U_WIDTH].tolist() == [latency, 0]
        assert queues[credits].tolist() == [latency, 1]


def test_more_credits_than_are_counted_are_refused():
    arch = TINY.on("ring3@rack(latency=17000,cpf=1)")
    message = (
        "a buffer of 34,000 flits, and the fast simulator counts 32,767 credits; give less depth "
        "or links of less latency"
    )
    with pytest.raises(InputError, match=message):
        network_tables.network(arch)


def test_buffers_beyond_32_bits_are_refused():
    arch = TINY.on("ring32@rack(latency=1000000,cpf=1),line32@die")
    message = (
        r"the buffers of router wormhole-d2 on .* take 17,\d{3},\d{3},\d{3} words, and the fast "
        "simulator has 2,147,483,648; give less depth, links of less latency, or fewer tiles"
    )
    with pytest.raises(InputError, match=message):
        network_tables.network(arch)


@pytest.mark.parametrize(
    "router", ["vc2-d4-s3", "vc2-d4-matrix", "vc2-d8-cut_through", "vc2-d16-bubble"]
)
def test_more_ports_than_can_be_matched_are_refused(router):
    assert network_tables.network(TINY.on("full:32", router)).asking.size > 1
    assert network_tables.network(TINY.on("full:33", "vc2-d4")).asking.size == 1
    for where in ("flat:33", "switch:32"):
        message = (
            f"router {router} on {where} has 33 ports, and the fast simulator matches at most 32; "
            "give a plain router as wormhole-d4 or vc2-d4, or smaller dimensions"
        )
        with pytest.raises(InputError, match=message):
            network_tables.network(TINY.on(where, router))


def test_packets_beyond_the_bits_of_a_flit_are_refused():
    message = (
        "536,870,913 packets may be under way, and the fast simulator has room for 536,870,912; "
        "give less depth, links of less latency, or fewer tiles"
    )
    with pytest.raises(InputError, match=message):
        tables.no_engines(1, np.zeros(columns.CONSTANTS, np.int64), tables.MOST_PACKETS + 1)
