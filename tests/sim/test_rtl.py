"""The array in Amaranth's simulator: bits and cycles equal to the fast simulator's."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tokenpath.hw.arch.isa import Engine
from tokenpath.hw.arch.params import PRESETS, Arch
from tokenpath.hw.arch.program import Program
from tokenpath.hw.sequencer import START_CYCLES
from tokenpath.sim.drawn import draw_arch, random_program
from tokenpath.sim.fast import FastMachine
from tokenpath.sim.rtl import RtlMachine, fast_records, first_difference
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import plan
from tokenpath.sw.model import load

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")


def small(topology: str, **changes: int) -> Arch:
    """The tiny tile with memories as small as drawn programs allow."""
    sizes = {"scratch_words": 256, "inbox_words": 512, "store_beats": 32}
    sizes |= {"code_words": 128, "descriptors": 64}
    return replace(PRESETS["tiny"].on(topology), **(sizes | changes))


def drawn(arch: Arch, seed: int) -> Program:
    """A random program of a dozen pieces a tile."""
    return random_program(arch, random.Random(seed), 12 * arch.tiles)[0]


def mathformer(topology: str) -> Program:
    """The whole model on the tiny preset."""
    spec = load("mathformer", None)
    return lower(plan(spec.shape, PRESETS["tiny"].on(topology)), spec)


def compare(rtl, fast, token: int, position: int) -> int:
    """One step on both; returns its cycles."""
    mine, wanted = rtl.step(token, position), fast.step(token, position)
    if isinstance(rtl, RtlMachine) and rtl.trace:
        assert first_difference(rtl, fast) == ""
    assert np.array_equal(mine.logits, wanted.logits)
    for name in ("cycles", "best", "saturations", "overflows"):
        assert getattr(mine, name) == getattr(wanted, name), name
    return mine.cycles


@pytest.mark.parametrize(
    ("topology", "seed", "flit_words"), [("mesh:2x1", 2, 4), ("ring:3", 1, 2), ("switch:2", 0, 3)]
)
def test_a_drawn_program(topology: str, seed: int, flit_words: int) -> None:
    """What the first step leaves in routers and semaphores shows in the next."""
    program = drawn(small(topology, flit_words=flit_words), seed)
    rtl, fast = RtlMachine(program, trace=True), FastMachine(program)
    assert all(compare(rtl, fast, 0, position) > 40 for position in range(2))


def test_a_token_of_mathformer() -> None:
    program = mathformer("mesh:1x1")
    assert compare(RtlMachine(program, trace=True), FastMachine(program), 5, 0) == 581


@pytest.mark.slow
def test_mathformer_on_several_tiles() -> None:
    program = mathformer("mesh:2x2")
    rtl, fast = RtlMachine(program, trace=True), FastMachine(program)
    for position, token in enumerate((5, 6, 14)):
        compare(rtl, fast, token, position)


def test_the_first_difference_is_named() -> None:
    program = drawn(small("mesh:1x1"), 0)
    rtl, fast = RtlMachine(program, trace=True), FastMachine(program)
    compare(rtl, fast, 0, 0)
    at = next(i for i, r in enumerate(rtl.records) if r.engine == Engine.NETWORK)
    record = rtl.records[at]
    label = program.code[0].labels[Engine.NETWORK][record.number]
    what = f"tile 0 network instruction {record.number} ({label.upper()}, {label})"
    rtl.records[at] = record._replace(issued=record.issued + 1)
    text = first_difference(rtl, fast)
    assert text == f"{what} issued in {record.issued + 1} instead of {record.issued}"
    rtl.records.pop(at)
    assert f"{what} never ended" in first_difference(rtl, fast)
    assert len(list(fast_records(fast))) == len(rtl.records) + 1


def test_a_waveform_is_written(tmp_path: Path) -> None:
    machine = RtlMachine(drawn(small("mesh:1x1"), 0), vcd=tmp_path / "run.vcd")
    machine.step(0, 0)
    machine.close()
    assert "$enddefinitions" in (tmp_path / "run.vcd").read_text()


def test_the_counters_are_fasts() -> None:
    """Beats, waits of the lanes and flits of each step; a tile's own time is within the step's."""
    rng = random.Random(8)
    arch = draw_arch(rng, 2)
    program, _ = random_program(arch, rng, 30)
    rtl, fast = RtlMachine(program), FastMachine(program)
    for position in range(2):
        mine, wanted = rtl.step(0, position), fast.step(0, position)
        for name in ("beats_read", "starved_cycles", "injected_flits"):
            assert mine.counters[name].tolist() == wanted.counters[name].tolist(), name
        assert mine.counters["beats_read"].min() > 0
        running = mine.counters["running_cycles"]
        assert running.max() <= mine.cycles + START_CYCLES and running.min() > mine.cycles // 3
