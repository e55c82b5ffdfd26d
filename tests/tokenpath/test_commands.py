"""The commands that run models: their JSON contract, and bad input, each in one line."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from tokenpath import pipeline
from tokenpath.cli import run
from tokenpath.commands import routers
from tokenpath.cost.flow import Area, Cost

TINY = ["--model", "mathformer", "--arch", "tiny"]


def answer(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, object]:
    """The one JSON object of a command that succeeds."""
    assert run([*args, "--json"]) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def refusal(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The one line with which a command refuses its input."""
    assert run(list(args)) == 2
    said = capsys.readouterr()
    lines = said.err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), said.err
    assert said.out == ""
    return lines[0].removeprefix("error: ")


def test_decode_keeps_its_contract(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "decode", *TINY, "--prompt", "7+8=")
    assert found["text"] == "15"
    assert found["tokens"] == [5, 9, 2]
    cycles, ledger = found["cycles_per_token"], found["ledger"]
    assert isinstance(cycles, list) and isinstance(ledger, list)
    assert [sum(row.values()) for row in ledger] == cycles
    assert {frozenset(row) for row in ledger} == {
        frozenset({"compute", "memory", "interconnect", "wait"})
    }
    assert found["tokens_per_s"] == found["clock_hz"] * len(cycles) / sum(cycles)
    keys = ["logits_sha256", "bounds", "executor", "topology", "arch_fingerprint", "wall_s"]
    assert set(keys) <= found.keys()
    golden = answer(capsys, "decode", *TINY, "--prompt", "7+8=", "--executor", "golden")
    assert golden["logits_sha256"] == found["logits_sha256"]
    assert golden["cycles_per_token"] is None


def test_a_saved_run_says_the_same_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "run"
    first = answer(capsys, "decode", *TINY, "--prompt", "9*9=", "--save", str(file))
    assert answer(capsys, "report", str(file)) == first
    assert run(["report", str(file)]) == 0
    assert "9*9=81" in capsys.readouterr().out


def test_a_saved_program_decodes_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "program"
    model = ["--model", "mathformer-add", "--arch", "tiny"]
    assert run(["program", "save", str(file), *model]) == 0
    capsys.readouterr()
    first = answer(capsys, "decode", *model, "--prompt", "3+4=")
    again = answer(capsys, "decode", *model, "--prompt", "3+4=", "--program", str(file))
    for found in (first, again):
        del found["wall_s"]
    assert again == first
    other = ["--model", "mathformer-add", "--arch", "tiny", "--topology", "torus:2x2"]
    line = refusal(capsys, "decode", *other, "--prompt", "3+4=", "--program", str(file))
    assert "compile it again" in line
    line = refusal(
        capsys, "decode", *model, "--context", "32", "--prompt", "3+4=", "--program", str(file)
    )
    assert line.endswith("give 64, or compile it again with 'tokenpath program save'")


def test_timing_only_needs_no_weights(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(
        capsys, "decode", "-m", "smollm2-135m", "-a", "server", "-t", "mesh:2x2", "--context", "64",
        "--tokens", "2",
    )  # fmt: skip
    assert found["tokens"] is None and found["logits_sha256"] is None
    assert len(found["cycles_per_token"]) == 2  # type: ignore[arg-type]


def test_evaluate_sets_the_machine_beside_fp32(capsys: pytest.CaptureFixture[str]) -> None:
    ids = ["--prompt-ids", "11,14,12,18", "--reference-ids", "5,9,2"]
    found = answer(capsys, "evaluate", *TINY, *ids)
    assert found["argmax"] == found["argmax_fp32"] == [5, 9, 2]
    assert found["agreement"] == [True, True, True]
    assert len(found["nll"]) == len(found["nll_fp32"]) == 3  # type: ignore[arg-type]


def test_arch_and_program_show_their_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "arch", "show", "edge")["lanes"] == 32
    assert set(answer(capsys, "arch", "presets")) == {"tiny", "edge", "server"}
    code = answer(capsys, "program", "dump", *TINY)["code"]
    assert set(code) == {"memory", "compute", "network"}  # type: ignore[call-overload]
    assert run(["program", "dump", *TINY, "--engine", "network"]) == 0
    assert "put " in capsys.readouterr().out
    assert answer(capsys, "program", "check", *TINY)["ok"] is True


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--kv-shards", "9"], "9 KV shards on 4 tiles; give 1..4 or a larger topology"),
        (["--topology", "grid:3x3"], "unknown word 'grid'"),
        (["--split", "3d"], "unknown split '3d'; give 2d, input, output"),
        (["--reduce", "tree"], "unknown reduce 'tree'; give direct, ring, oneshot"),
        (["--softmax", "soft"], "unknown softmax 'soft'; give exact, merge"),
        (["--executor", "slow"], "unknown executor 'slow'; give fast, golden, rtl, verilator"),
        (["--page", "0"], "page 0 is not a number of positions; give 1 or more, 16 is usual"),
        (["--context", "65"], "context 65 is outside 1..64"),
        (["--tokens", "99"], "don't fit a context of 64; give fewer --tokens"),
        (["--prompt-ids", "4,x"], "--prompt-ids: 'x' is not a token id"),
        (["--prompt-ids", "99"], "token id 99 is outside the vocabulary 0..26"),
        (["--position", "3"], "give --timing-only with it"),
        (["--seed", "3"], "give --executor golden with it"),
        (["--program", "nowhere"], "nowhere"),
        (["--vcd", "x"], "the fast executor has no signals for --vcd; give --executor rtl or"),
        (["--fst", "x", "--executor", "golden"], "golden executor has no signals for --fst"),
        (["--fst", "x", "--executor", "rtl"], "Amaranth's simulator writes no FST; give --vcd"),
        (["--fst", "x", "--vcd", "y", "--executor", "verilator"], "give one of them"),
        (["--vcd", "nowhere/x", "--executor", "rtl"], "cannot write nowhere/x: no folder nowhere"),
        (["--save", "nowhere/run"], "cannot write nowhere/run: no folder nowhere"),
    ],
)
def test_bad_input_is_one_line(
    args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in refusal(capsys, "decode", *TINY, "--prompt", "7+8=", *args)


def test_what_does_not_fit_is_refused_with_what_would(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    small = tmp_path / "small.toml"
    small.write_text('preset = "tiny"\nstore_beats = 120\n')
    base = ["decode", "--model", "mathformer-add", "--prompt", "7+8=", "--tokens", "1"]
    machine = ["--arch", str(small), "--topology", "mesh:1x1"]
    line = refusal(capsys, *base, *machine)
    assert "needs" in line and "of store on a tile" in line
    short = tmp_path / "short.toml"
    short.write_text('preset = "tiny"\nscore_rows = 8\n')
    line = refusal(capsys, *base, "--arch", str(short))
    assert "score_rows" in line
    small.write_text('preset = "tiny"\nlane = 3\n')
    assert "unknown architecture field 'lane'; did you mean 'lanes'?" in refusal(
        capsys, *base, *machine
    )


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
def test_a_waveform_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException] | None
) -> None:
    from tokenpath.commands.decode import _machine

    class Machine:
        def __init__(self, path: Path) -> None:
            self.path = path
            path.write_text("half")

        def close(self) -> None:
            self.path.write_text("whole")

    def start(*rest: object, fst: Path) -> Machine:
        return Machine(fst)

    monkeypatch.setattr(pipeline, "start", start)
    file = tmp_path / "x.fst"
    with suppress(KeyboardInterrupt, RuntimeError), _machine(None, "verilator", None, None, file):
        assert not file.exists()
        if error:
            raise error
    assert [path.read_text() for path in tmp_path.iterdir()] == ([] if error else ["whole"])


def test_a_refused_decode_leaves_no_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    refusal(
        capsys,
        "decode",
        *TINY,
        "--prompt",
        "7+8=",
        "--kv-shards",
        "9",
        "--save",
        str(tmp_path / "r"),
    )
    refusal(capsys, "program", "save", str(tmp_path / "p"), *TINY, "--kv-shards", "9")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_model_file_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "cut.gguf"
    file.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 20)
    assert "cut.gguf" in refusal(capsys, "decode", "--model", str(file))


def test_text_streams_in_whole_characters() -> None:
    pieces = {(1,): "\ufffd", (1, 2): "é", (1, 2, 3): "é!"}
    text = pipeline.Text(lambda ids: pieces[tuple(ids)])
    assert [text.push(token) for token in (1, 2, 3)] == ["", "é", "!"]


SMALL_NET = ["traffic", "--arch", "tiny", "--topology", "mesh:3x3", "--router", "vc2-d2"]


def test_traffic_keeps_its_contract(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot = tmp_path / "curve.svg"
    found = answer(capsys, *SMALL_NET, "--loads", "0.1,0.2,1", "--plot", str(plot))
    points = found["points"]
    assert isinstance(points, list)
    assert [point["stable"] for point in points] == [True, True, False]
    assert points[0]["latency"] < points[1]["latency"]
    assert points[2]["latency"] is None
    assert found["router"] == "vc2-d2"
    assert 0.3 < found["saturation"] < 1
    assert "<svg" in plot.read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--pattern", "round"], "unknown traffic 'round'"),
        (["--loads", "a"], "--loads 'a': give numbers"),
        (["--loads", "0.1:0.2:0"], "--loads '0.1:0.2:0': give numbers"),
        (["--loads", "2"], "load 2.0 flits a node and cycle is outside 0..1"),
        (["--packets", "0"], "--packets '0': give flits"),
        (["--plot", "curve.txt"], "--plot curve.txt: give a name that ends in"),
        (["--router", "wormhole2-d4"], "a wormhole router has no vcs to choose"),
        (["--router", "wormhole"], "router 'wormhole': write it as wormhole-d4"),
        (["--router", "magic-d4"], "unknown router 'magic'"),
        (["--router", "vc2-d4-cut_through"], "too little for cut_through with packets of 8 flits"),
    ],
)
def test_traffic_refuses_in_one_line(
    capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert said in refusal(capsys, *SMALL_NET, *options)


def test_the_packets_of_a_token_are_a_trace(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "token.csv"
    command = ["program", "packets", str(path), "--model", "mathformer-add", "--arch", "tiny"]
    found = answer(capsys, *command, "--position", "3")
    replayed = answer(capsys, "traffic", "--arch", "tiny", "--trace", str(path), "-r", "vc2-d2")
    assert replayed["packets"] == found["packets"] == len(path.read_text().splitlines()) - 1
    assert found["cycles"] - 200 < int(str(replayed["last_delivery"])) < found["cycles"] + 200
    path.unlink()
    assert "position 999 is outside of a context" in refusal(capsys, *command, "--position", "999")
    assert not path.exists()


def test_routers_tells_what_each_costs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    area = Area({"LUT4": 100, "TRELLIS_DPR16X4": 2, "TRELLIS_FF": 9}, 0, 0, 0)
    monkeypatch.setattr(routers, "_measure", lambda seeds: lambda arch: Cost(area, {1: 80.04}))
    command = ["routers", "--model", "mathformer-add", "--arch", "tiny", "-t", "mesh:2x2"]
    rows = answer(capsys, *command, "-r", "vc2-d2", "--cost", "1")["rows"]
    assert isinstance(rows, list)
    costs = {"LUT4": 108, "flip-flops": 9, "memory bits": 128, "MHz": 80.0}
    assert rows[0]["cost"] == costs


def test_routers_keeps_its_contract(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["routers", "--model", "mathformer-add", "--arch", "tiny", "-t", "mesh:2x2"]
    found = answer(capsys, *command, "-r", "vc2-d2", "-r", "wormhole-d2")
    rows = found["rows"]
    assert isinstance(rows, list)
    assert [row["router"] for row in rows] == ["vc2-d2", "wormhole-d2"]
    assert "write it as wormhole-d4" in refusal(capsys, *command, "-r", "vc")


def test_deflection_has_traffic_and_no_program(capsys: pytest.CaptureFixture[str]) -> None:
    net = ["traffic", "--arch", "server", "--topology", "mesh:3x3", "--router", "deflection"]
    found = answer(capsys, *net, "--loads", "0.1,1")
    assert [point["stable"] for point in found["points"]] == [True, False]  # type: ignore[attr-defined]
    assert 0.3 < found["saturation"] < 1  # type: ignore[operator]
    assert run([*net, "--loads", "0.1"]) == 0
    assert "no flit stays longer than 512" in " ".join(capsys.readouterr().out.split())
    for options, said in {
        ("--router", "deflection-d4"): "'deflection-d4': deflection has nothing to choose; write",
        ("--packets", "5"): "sends the flits of a packet of 5 apart: give packets of one flit",
        ("--topology", "flat:9"): "has no full, as in full9@die; give dimensions of line and ring",
    }.items():
        assert said in refusal(capsys, *net, *options)
    command = ["routers", "--model", "mathformer-add", "--arch", "tiny", "-t", "mesh:2x2"]
    (row,) = answer(capsys, *command, "-r", "deflection")["rows"]  # type: ignore[misc]
    assert (row["cycles"], row["tokens_per_s"]) == (None, None)
    assert run([*command, "-r", "deflection"]) == 0
    assert capsys.readouterr().out.count("- │") == 3


def test_traffic_replays_a_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("cycle,source,destination,flits\n0,0,8,4\n")
    found = answer(capsys, *SMALL_NET, "--trace", str(trace))
    assert (found["packets"], found["last_delivery"], found["flit_hops"]) == (1, 10, 20)
    assert "can't read the trace" in refusal(capsys, *SMALL_NET, "--trace", "none.csv")
    for option, value in (("--loads", "0.1"), ("--plot", str(tmp_path / "curve.svg"))):
        said = refusal(capsys, *SMALL_NET, "--trace", str(trace), option, value)
        assert f"a trace has its own load and no curve; leave {option} out" in said
