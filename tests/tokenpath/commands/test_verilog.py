"""`tokenpath verilog`: what it writes and what it says; bad input, each in one line."""

import hashlib
import json
from pathlib import Path

import pytest

from tokenpath import __version__
from tokenpath.cli import run

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")

ROUTER = ["verilog", "--unit", "router", "--arch", "tiny"]


def test_a_router_is_written_with_its_description(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    assert run([*ROUTER, "-o", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said.pop("directory") == str(folder)
    assert said == json.loads((folder / "description.json").read_text())
    assert said["tokenpath"] == __version__
    for file in said["files"]:
        assert hashlib.sha256((folder / file["name"]).read_bytes()).hexdigest() == file["sha256"]
    first = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert run([*ROUTER, "-o", str(folder)]) == 0
    assert "router of" in capsys.readouterr().out
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == first


def test_topology_and_node_choose_the_router(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    args = [*ROUTER, "--topology", "switch:3", "--node", "3", "-o", str(tmp_path / "out")]
    assert run([*args, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [channel["port"] for channel in said["channels"]] == [1, 2, 3]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--unit", "alu"], "unknown unit 'alu'; give router, tile, array"),
        (["--arch", "tinny"], "did you mean 'tiny'?"),
        (["--topology", "grid:3x3"], "unknown word 'grid'"),
        (["--node", "4"], "node 4 is outside 0..3 of mesh:2x2"),
        (["--unit", "tile", "--node", "0"], "only a router has one; leave --node out"),
        (["--output", "nowhere/out"], "cannot make nowhere/out: no folder nowhere"),
        (["--output", __file__], "it is a file; give a folder"),
        (["--output", str(Path(__file__).parent)], "give an empty or a new folder, or --force"),
    ],
)
def test_bad_input_is_one_line_and_no_file(
    args: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run([*ROUTER, "-o", str(tmp_path / "out"), *args]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert says in said.err
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_not_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ROUTER) == 2
    assert "Missing option '--output'" in capsys.readouterr().err
