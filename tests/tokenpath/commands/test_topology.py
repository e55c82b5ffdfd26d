import json

import pytest

from tokenpath import cli
from tokenpath.hw.arch.topology import Topology


def test_show_prints_what_the_topology_says_of_itself_as_json(capsys):
    assert cli.run(["topology", "show", "line4@die,ring4@rack", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == Topology.parse("line4@die,ring4@rack").describe()
    assert err == ""


def test_show_prints_figures_for_people(capsys):
    assert cli.run(["topology", "show", "line4@die,line4@die,full8@board,ring4@rack"]) == 0
    out = capsys.readouterr().out
    for figure in ["512", "9 hops, 1,136 cycles", "1,536 die, 3,584 board, 1,024 rack"]:
        assert figure in out
    assert "none: no cycle among 26,240 dependencies" in out


def test_routes_are_a_table_that_a_router_takes(capsys, tmp_path):
    assert cli.run(["topology", "routes", "mesh:2x2"]) == 0
    assert (
        capsys.readouterr().out
        == "tile,0,1,2,3\n0,.,+x,+y,+x\n1,-x,.,-x,+y\n2,-y,+x,.,+x\n3,-x,-y,-x,.\n"
    )
    around = ["topology", "routes", "mesh:3x2", "--without", "(0,0)+x", "-o"]
    assert cli.run([*around, str(tmp_path / "r.csv")]) == 0
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "r.csv").read_text(encoding="utf-8").splitlines()[1] == "0,.,+y,+y,+y,+y,+y"
    traffic = ["traffic", "-t", "mesh:3x2", "-r", f"vc1-d4-table={tmp_path / 'r.csv'}"]
    assert cli.run([*traffic, "--loads", "0.02", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_machine_with_a_table_shows_its_size(capsys, tmp_path):
    assert cli.run(["topology", "routes", "mesh:4x4", "-o", str(tmp_path / "r.csv")]) == 0
    text = 'preset = "edge"\n[router]\nkind = "vc"\nrouting = "table"\nroutes = "r.csv"\n'
    (tmp_path / "machine.toml").write_text(text, encoding="utf-8")
    assert cli.run(["arch", "show", str(tmp_path / "machine.toml")]) == 0
    out = capsys.readouterr().out
    assert "a table of 17 lines" in out and "tile,0" not in out


def test_a_table_in_a_circle_is_one_line_and_no_file(capsys, tmp_path):
    (tmp_path / "r.csv").write_text(
        "tile,0,1,2\n0,.,+x,+x\n1,+x,.,+x\n2,+x,+x,.\n", encoding="utf-8"
    )
    for command in (
        ["traffic"],
        ["decode", "-m", "mathformer"],
        ["verilog", "-o", str(tmp_path / "v")],
    ):
        assert cli.run([*command, "-t", "ring:3", "-r", f"vc1-d4-table={tmp_path / 'r.csv'}"]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1
        assert err.startswith(
            "error: routing can deadlock: (0)+x vc0 -> (1)+x vc0 -> (2)+x vc0 -> (0)"
        )
    assert not (tmp_path / "v").exists()


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (["(2,2)+x"], "has no link '(2,2)+x'; give"),
        (["(0,0)+x", "(0,0)+y"], "is cut off from tile 0"),
    ],
)
def test_links_that_can_not_break_are_one_line(links, message, capsys, tmp_path):
    options = [option for link in links for option in ("--without", link)]
    assert cli.run(["topology", "routes", "mesh:2x2", *options, "-o", str(tmp_path / "r")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and err.count("\n") == 1
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("text", ["mush:4x4", "mesh:4x", "line4@attic", ""])
def test_an_unknown_notation_is_one_line(text, capsys):
    assert cli.run(["topology", "show", text]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: topology {text!r}: ")
    assert err.count("\n") == 1
