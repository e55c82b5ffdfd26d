"""The rules are tests/hw/bench.py's, the traffic is tests/hw/test_router.py's."""

import pytest
from bench import simulate, verilog_of
from test_router import SLOW_RING, SLOW_SWITCH, Traffic

from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.routers import make_router


@pytest.mark.parametrize(
    "text,node,depth,vcs,stages",
    [
        ("mesh:3x3", 4, 1, 2, 1), ("mesh:3x3", 4, 2, 4, 2), ("mesh:3x3", 0, 3, 3, 1),
        ("mesh:2x2", 3, 4, 8, 1), ("line:3", 1, 1, 1, 1), ("line:1", 0, 2, 2, 2),
        ("ring:3", 1, 1, 2, 2), ("ring:5", 4, 2, 4, 1), ("torus:5x5", 12, 2, 4, 1),
        ("torus:5x5", 24, 1, 6, 2), ("flat:5", 3, 2, 2, 1), ("switch:4", 4, 2, 4, 1),
        (SLOW_SWITCH, 10, 1, 2, 2), (SLOW_SWITCH, 4, 2, 2, 1), (SLOW_RING, 3, 2, 4, 1),
        ("mesh:3x3", 4, 2, 1, 2),
    ],
)  # fmt: skip
def test_every_cycle_is_the_models(text, node, depth, vcs, stages):
    params = RouterParams(kind="vc", depth=depth, vcs=vcs, stages=stages)
    traffic = Traffic(Topology.parse(text), node, params, seed=depth)
    traffic.cycles = 400
    simulate(traffic.dut, traffic.bench)
    assert traffic.moved > 100
    assert traffic.full > 20 and (text == "line:1" or traffic.blocked > 20)


@pytest.mark.parametrize("text,vcs,stages", [("mesh:4x4", 2, 1), ("torus:3x3", 4, 2)])
def test_verilog(text, vcs, stages):
    params = RouterParams(kind="vc", vcs=vcs, stages=stages)
    dut = make_router(dims=Topology.parse(text).dims, flit_words=2, params=params)
    assert "module dut" in verilog_of(dut)
