"""Ways out of the tables against ``hw.arch.ways``."""

from dataclasses import replace
from itertools import product

import pytest
from programs import TINY

from tokenpath.hw.arch import ways as rules
from tokenpath.hw.arch.route_table import dimension_order, up_down, write_table
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.topology import Topology
from tokenpath.sim.fast import columns, network_tables, tables, ways


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("vc4-d4-o1turn", "mesh:3x4"), ("vc2-d4-o1turn", "full3@die,line2@die,switch3@die"),
        ("vc2-d4-west_first", "mesh:5x4"), ("vc1-d4-odd_even", "mesh:5x4"),
        ("vc2-d4-west_first", "mesh:1x4"), ("vc1-d4-odd_even", "mesh:1x4"),
        ("vc2-d4-west_first", "mesh:4x1"), ("vc1-d4-odd_even", "mesh:2x2"),
        ("vc4-d4-ordered", "torus:4x3"), ("vc4-d16-bubble", "torus:4x3"),
        ("vc2-d16-bubble-ordered", "ring3@die,line2@die"),
        ("vc4-d4-ordered", "switch3@die,ring4@die"),
        ("vc4-d4-table", "torus:4x3"), ("vc2-d4-ordered-table", "torus:4x3"),
        ("vc2-d4-table", "switch3@die,full4@die"),
    ],
)  # fmt: skip
def test_ways_are_those_of_the_pure_rule(text, where, monkeypatch):
    monkeypatch.setattr(ways, "wide", int)
    monkeypatch.setattr(ways, "route", ways.route.py_func)
    for name in ("only_way", "o1turn_way", "adaptive_way"):
        monkeypatch.setattr(ways, name, getattr(ways, name).py_func)
    router = RouterParams.parse(text.removesuffix("-table"))
    if text.endswith("-table"):
        net = Topology.parse(where)
        table = dimension_order(net) if net.nodes > net.tiles else up_down(net, [(0, 1), (5, 3)])
        router = replace(router, routing="table", routes=write_table(table, net))
    arch = replace(TINY.on(where), router=router)
    topology, routers = arch.topology, network_tables.network(arch)
    engines = tables.only_network(arch, routers, 1)
    for node in range(topology.nodes):
        base = int(routers.node_port0[node])
        for to in range(topology.tiles):
            first = ways.first_channel.py_func(engines, routers, to)
            assert not router.ordered or first == rules.first_channels(router, topology, to)
            for port, vc in product(range(topology.ports(node)), range(router.vcs)):
                wanted = rules.ways(router, topology, node, port, vc, to)
                found = ways.chosen_way.py_func(
                    engines, routers, node, port << columns.VC_BITS | vc, to
                )
                output, low = (found >> columns.VC_BITS) - base, found & columns.VC_MASK
                if router.adaptive:
                    outputs = [output, output + low] if low else [output]
                    assert outputs == [o for o, _ in wanted]
                else:
                    assert wanted == ((output, low),)
