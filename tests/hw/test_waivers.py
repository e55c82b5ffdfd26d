"""Verilator's lint of the Verilog: clean but for the waivers, and each waiver is needed."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from benchmarks.lint import Message, lint, unused_inputs
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.describe import UNITS, WAIVER_FILE, unit_files
from tokenpath.hw.waivers import WAIVERS, waiver_file

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")

UNUSED_INPUTS = {
    "tile.core.appender.buffer rst": "a memory without other state",
    "tile.core.compute.lanes.query0.memory rst": "a memory without other state",
    "tile.core.words.inbox rst": "a memory whose other state is reset_less",
    "tile.core.words.scratch rst": "a memory whose other state is reset_less",
    "tile.core.compute.lanes.maxima src": "vector memory has 25 bits of address, the field 32",
    "tile.core.words write__address": "the scratch is smaller than the space of addresses",
    "tile.router.route3 position": "a route along y doesn't look at x",
    "tile.router.route3 destination": "a route along y doesn't look at x",
    "tile.core.compute.lanes.query0.multipliers scored": "weights and KV have one format here",
}
"""Inputs that are unused on purpose, each with why."""


@pytest.fixture(scope="module")
def tiny() -> dict[str, dict[str, str]]:
    return {unit: unit_files(PRESETS["tiny"], unit) for unit in UNITS}


def test_tiny_is_clean(tiny: dict[str, dict[str, str]], tmp_path: Path) -> None:
    for unit, files in tiny.items():
        assert lint(files, unit, tmp_path) == []


def test_each_waiver_is_needed_and_no_input_is_unused(
    tiny: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    found = {unit: lint(files, unit, tmp_path, waived=False) for unit, files in tiny.items()}
    said = [message for each in found.values() for message in each]
    for waiver in WAIVERS:
        match = waiver.match or "*"
        assert any(m.rule == waiver.rule and fnmatchcase(m.text, match) for m in said), waiver
    assert unused_inputs(found["tile"], tiny["tile"]["tile.v"]) == UNUSED_INPUTS.keys()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("unit", UNITS)
def test_every_preset_is_clean(preset: str, unit: str, tmp_path: Path) -> None:
    assert lint(unit_files(PRESETS[preset], unit), unit, tmp_path) == []


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("assign o = a;", "WIDTHTRUNC"),
        ("assign o = a[5:4];", "SELRANGE"),
        ("wire [1:0] b; assign o = b;", "UNDRIVEN"),
        ("reg [1:0] o; always @* if (a[0]) o = a[1:0];", "LATCH"),
        ("wire [1:0] b; assign o = ~o & a[1:0];", "UNOPTFLAT"),
    ],
)
def test_a_fault_is_not_waived(line: str, rule: str, tmp_path: Path) -> None:
    text = f"module top(a, o);\n  input [3:0] a;\n  output [1:0] o;\n  {line}\nendmodule\n"
    files = {"top.v": text, WAIVER_FILE: waiver_file()}
    (found,) = lint(files, "top", tmp_path)
    assert isinstance(found, Message) and found.rule == rule
    assert found.file == "top.v"
