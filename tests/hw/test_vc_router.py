"""The rules are hw/arch's, by tests/hw/vc_model.py; the traffic is tests/hw/test_router.py's."""

import pytest
from bench import simulate, verilog_of
from test_router import SLOW_RING, SLOW_SWITCH, Traffic
from vc_model import VcModel

from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.arch.ways import arrivals
from tokenpath.hw.routers import make_router


class VcTraffic(Traffic):
    def _model(self):
        return VcModel(
            self.params, self.topology, self.node, inputs=self.ports.inputs,
            outputs=self.ports.outputs, slots=self.dut.slots, cycles=self.dut.cycles,
            to_of=lambda data: self.packed[data & self.bits],
        )  # fmt: skip

    def _arrivals(self):
        found = arrivals(self.params, self.topology, self.node)
        return {channel: set(ways) for channel, ways in found.items()}


def compare(text, node, router, cycles=400):
    params = RouterParams.parse(router)
    traffic = VcTraffic(Topology.parse(text), node, params, seed=params.depth)
    traffic.cycles = cycles
    simulate(traffic.dut, traffic.bench)
    assert traffic.moved > cycles // 4
    assert traffic.full > 20 and (text == "line:1" or traffic.blocked > 20)
    return traffic


@pytest.mark.parametrize(
    "text,node,router",
    [
        ("mesh:3x3", 4, "vc2-d1"), ("mesh:3x3", 4, "vc4-d2-s2"), ("mesh:3x3", 0, "vc3-d3"),
        ("mesh:2x2", 3, "vc8-d4"), ("line:3", 1, "vc1-d1"), ("line:1", 0, "vc2-d2-s2"),
        ("ring:3", 1, "vc2-d1-s2"), ("ring:5", 4, "vc4-d2"), ("torus:5x5", 12, "vc4-d2"),
        ("torus:5x5", 24, "vc6-d1-s2"), ("flat:5", 3, "vc2-d2"), ("switch:4", 4, "vc4-d2"),
        (SLOW_SWITCH, 10, "vc2-d1-s2"), (SLOW_SWITCH, 4, "vc2-d2"), (SLOW_RING, 3, "vc4-d2"),
        ("mesh:3x3", 4, "vc1-d2-s2"),
    ],
)  # fmt: skip
def test_every_cycle_is_the_models(text, node, router):
    compare(text, node, router)


@pytest.mark.parametrize(
    "text,node,router",
    [
        ("mesh:3x3", 4, "vc2-d2-matrix"), ("ring:5", 4, "vc4-d1-s2-matrix"),
        ("mesh:3x3", 4, "vc2-d2-output_first"), ("mesh:3x3", 4, "vc4-d2-islip2-matrix"),
        ("torus:5x5", 12, "vc2-d1-s2-islip2"), ("switch:4", 4, "vc3-d2-islip3"),
        (SLOW_SWITCH, 10, "vc2-d2-output_first-matrix"),
        ("mesh:3x3", 4, "vc2-d2-wavefront"), ("mesh:3x3", 1, "vc4-d1-s2-wavefront-matrix"),
        (SLOW_SWITCH, 4, "vc2-d2-wavefront"), ("ring:3", 1, "vc2-d2-wavefront"),
        ("line:1", 0, "vc2-d2-wavefront"), ("line:3", 1, "vc1-d1-output_first"),
    ],
)  # fmt: skip
def test_every_allocator_is_the_rules(text, node, router):
    compare(text, node, router, cycles=300)


@pytest.mark.parametrize(
    "text,node,router",
    [
        ("mesh:3x3", 4, "vc2-d2-s3"), ("mesh:3x3", 4, "vc4-d1-s3-matrix"),
        ("ring:5", 4, "vc4-d2-s3"), (SLOW_RING, 3, "vc2-d2-s3-wavefront"),
        ("switch:4", 4, "vc2-d3-s3-islip2"), ("line:3", 1, "vc1-d2-s3"),
    ],
)  # fmt: skip
def test_a_head_takes_its_vc_a_cycle_before(text, node, router):
    compare(text, node, router, cycles=300)


@pytest.mark.parametrize(
    "text,node,router",
    [
        ("mesh:3x3", 4, "vc2-d2-o1turn"), ("flat:3x3", 4, "vc4-d1-o1turn"),
        ("switch3@die,line3@die", 4, "vc2-d2-s3-o1turn"), ("line:3", 1, "vc2-d2-o1turn"),
        ("switch3@die,line3@die", 9, "vc4-d2-o1turn"), ("mesh:3x2x3", 7, "vc2-d2-o1turn"),
        ("mesh:3x3", 4, "vc2-d2-west_first"), ("mesh:4x3", 5, "vc1-d1-west_first"),
        ("mesh:4x3", 6, "vc2-d2-s3-west_first"), ("mesh:3x3", 0, "vc2-d2-wavefront-west_first"),
        ("mesh:5x4", 6, "vc2-d2-odd_even"), ("mesh:5x4", 7, "vc3-d1-s2-islip2-odd_even"),
        ("mesh:5x4", 13, "vc2-d2-s3-matrix-odd_even"), ("mesh:1x4", 1, "vc2-d2-odd_even"),
        ("line4@die,line3@board(latency=3,cpf=3)", 5, "vc2-d2-odd_even"),
    ],
)  # fmt: skip
def test_every_routing_is_the_rules(text, node, router):
    compare(text, node, router)


@pytest.mark.parametrize(
    "text,node,router",
    [
        ("mesh:3x3", 4, "vc2-d2-ordered"), ("torus:5x5", 12, "vc4-d2-ordered"),
        ("switch:4", 4, "vc4-d2-s3-ordered"), ("mesh:2x2", 3, "vc8-d2-ordered"),
        ("ring:5", 4, "vc2-d1-ordered"),
    ],
)  # fmt: skip
def test_a_packets_vc_is_that_of_its_destination(text, node, router):
    compare(text, node, router)


@pytest.mark.parametrize(
    "text,node,router",
    [
        ("mesh:3x3", 4, "vc2-d5-cut_through"), ("mesh:3x3", 4, "vc1-d11-s2-cut_through"),
        ("ring:5", 4, "vc2-d10-cut_through"), ("switch:4", 4, "vc2-d7-islip2-cut_through"),
        ("mesh:4x4", 5, "vc2-d10-s3-odd_even-cut_through"), (SLOW_RING, 3, "vc2-d5-cut_through"),
        ("ring:5", 4, "vc1-d10-bubble"), ("torus:5x5", 12, "vc2-d10-bubble"),
        ("torus:5x5", 7, "vc1-d16-s3-bubble"), ("torus:3x3", 4, "vc2-d10-wavefront-bubble"),
        ("line3@die,ring5@die", 7, "vc4-d10-bubble-ordered"), ("mesh:3x3", 4, "vc2-d10-bubble"),
    ],
)  # fmt: skip
def test_a_credit_is_room_for_a_packet(text, node, router):
    compare(text, node, router, cycles=600)


@pytest.mark.parametrize(
    "text,router",
    [("mesh:4x4", "vc2-d4"), ("torus:3x3", "vc4-d4-s2"), ("mesh:3x3", "vc2-d4-s3-islip2-matrix")],
)
def test_verilog(text, router):
    params = RouterParams.parse(router)
    dut = make_router(dims=Topology.parse(text).dims, flit_words=2, params=params)
    assert "module dut" in verilog_of(dut)
