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


@pytest.mark.parametrize("text", ["mush:4x4", "mesh:4x", "line4@attic", ""])
def test_an_unknown_notation_is_one_line(text, capsys):
    assert cli.run(["topology", "show", text]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: topology {text!r}: ")
    assert err.count("\n") == 1
