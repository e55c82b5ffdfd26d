"""What `tokenpath verilog` writes: complete, true to the Verilog, the same bytes every time."""

import gc
import hashlib
import json
import os
import re
import subprocess
import sys
import warnings

import pytest
from amaranth.back import verilog
from test_tile import SMALL

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.describe import DESCRIPTION, UNITS, WAIVER_FILE, middle_tile, unit_files
from tokenpath.hw.tile import Space

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")

HYBRID = SMALL.on("ring3@die,switch2@board")


@pytest.fixture(scope="module")
def units() -> dict[str, dict[str, str]]:
    """The files of each unit of HYBRID, written without a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        files = {unit: unit_files(HYBRID, unit, version="1.2") for unit in UNITS}
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    return files


def declared(text: str, module: str) -> list[tuple[str, str, int]]:
    """(name, direction, width) of a module's ports, by name."""
    body = re.search(rf"^module {module}\(.*?^endmodule", text, re.MULTILINE | re.DOTALL)
    assert body is not None
    found = re.findall(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);", body[0], re.MULTILINE)
    return sorted((name, way, int(high or 0) + 1) for way, high, name in found)


@pytest.mark.parametrize("unit", UNITS)
def test_ports_and_files_are_those_of_the_verilog(
    unit: str, units: dict[str, dict[str, str]]
) -> None:
    files = units[unit]
    found = json.loads(files[DESCRIPTION])
    assert (found["unit"], found["top"], found["tokenpath"]) == (unit, unit, "1.2")
    ports = [(p["name"], p["direction"], p["width"]) for p in found["ports"]]
    assert sorted(ports) == declared(files[f"{unit}.v"], unit)
    assert all(port["meaning"] for port in found["ports"])
    listed = {file["name"]: file["sha256"] for file in found["files"]}
    assert listed == {
        name: hashlib.sha256(text.encode()).hexdigest()
        for name, text in files.items()
        if name != DESCRIPTION
    }
    assert list(listed)[-2:] == [f"{unit}.v", WAIVER_FILE]
    assert Arch.from_dict(found["arch"]) == HYBRID
    assert found["arch_fingerprint"] == HYBRID.fingerprint


def test_an_array_has_each_part_once(units: dict[str, dict[str, str]]) -> None:
    files = units["array"]
    assert list(files) == ["tile.v", "switch1.v", "array.v", WAIVER_FILE, DESCRIPTION]
    assert files["tile.v"] == units["tile"]["tile.v"]


def test_fields_fill_their_port(units: dict[str, dict[str, str]]) -> None:
    found = json.loads(units["router"][DESCRIPTION])
    flits = [port for port in found["ports"] if port["name"].endswith("__flit")]
    assert len(flits) == 2 * len(found["channels"]) == 8
    for port in flits:
        ends = [field["lsb"] + field["width"] for field in port["fields"]]
        assert [0, *ends[:-1]] == [field["lsb"] for field in port["fields"]]
        assert ends[-1] == port["width"]


def test_a_router_is_the_middle_tiles_or_the_chosen_nodes(
    units: dict[str, dict[str, str]],
) -> None:
    assert middle_tile(SMALL.on("mesh:4x3")) == 6
    found = json.loads(units["router"][DESCRIPTION])
    assert found["node"] == {"number": 4, "name": "(1,1)", "position": 0b101}
    links = {channel["port"]: channel for channel in found["channels"]}
    assert {port: link["to"] for port, link in links.items()} == {
        0: None, 1: {"node": 5, "port": 2}, 2: {"node": 3, "port": 1}, 3: {"node": 7, "port": 2},
    }  # fmt: skip
    assert [links[p]["virtual_channels"] for p in range(4)] == [1, 2, 2, 1]
    assert links[3]["buffer_flits"] > links[1]["buffer_flits"] == SMALL.router.depth
    switch = json.loads(unit_files(HYBRID, "router", node=7)[DESCRIPTION])
    assert "position" not in switch["node"]
    assert [channel["port"] for channel in switch["channels"]] == [1, 2]


def test_host_spaces_are_the_tiles(units: dict[str, dict[str, str]]) -> None:
    found = json.loads(units["tile"][DESCRIPTION])
    assert {s["name"]: s["number"] for s in found["host_spaces"]} == {s.name: s for s in Space}
    rows = {space["name"]: (space["rows"], space["row_bits"]) for space in found["host_spaces"]}
    assert rows["STORE"] == (16, SMALL.beat_bits)
    assert rows["COMPUTE_CODE"][0] == 16
    (width,) = [port["width"] for port in found["ports"] if port["name"] == "host_data"]
    assert width == max(bits for _, bits in rows.values())


def test_another_process_writes_the_same_bytes() -> None:
    code = (
        "import sys, hashlib; from tokenpath.hw.arch.params import PRESETS\n"
        "from tokenpath.hw.describe import unit_files\n"
        "files = unit_files(PRESETS['tiny'].on('torus:3x3'), 'router')\n"
        "print(hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest())"
    )
    sums = {
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(sums) == 1


@pytest.mark.parametrize(
    ("unit", "node", "says"),
    [
        ("lane", None, "unknown unit 'lane'; give router, tile, array"),
        ("tile", 1, "node 1 of a tile: only a router has one; leave --node out"),
        ("router", 8, "node 8 is outside 0..7 of "),
        ("router", -1, "node -1 is outside 0..7 of "),
    ],
)
def test_what_is_not_there_is_refused(unit: str, node: int | None, says: str) -> None:
    arch = SMALL.on("ring2@die,switch3@board")
    assert arch.topology.nodes == 8
    with pytest.raises(InputError, match=re.escape(says)):
        unit_files(arch, unit, node=node)


def test_without_yosys_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_requirement: object) -> None:
        raise verilog.YosysError("Could not find an acceptable Yosys binary.")

    monkeypatch.setattr(verilog, "find_yosys", missing)
    with pytest.raises(InputError, match=r"pip install 'tokenpath\[rtl\]', or pip install amara"):
        unit_files(SMALL, "router")
