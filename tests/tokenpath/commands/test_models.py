import json

import pytest

from tokenpath import cli
from tokenpath.commands import models
from tokenpath.sw.model import fetch, load, names


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    """No model has been fetched, and no package brings one."""
    monkeypatch.setattr(fetch, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(fetch, "package_folder", lambda package: None)


def run(capsys, *args):
    """Exit code, stdout and stderr of a command line."""
    return cli.run(args), *capsys.readouterr()


def test_the_list_has_every_name_and_says_which_are_ready(capsys):
    code, out, _ = run(capsys, "models")
    assert code == 0
    rows = [[cell.strip() for cell in line.split("│")] for line in out.splitlines()]
    ready = {row[1]: row[2] for row in rows if len(row) > 3}
    assert ready.keys() == {entry.name for entry in names()}
    assert ready["glassllm"] == "yes"
    assert ready["smollm2"] == "get it"
    assert ready["deepseek-v3"] == "no"


def test_the_list_as_json(capsys):
    code, out, err = run(capsys, "models", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {"models": [entry._asdict() for entry in names()]}


def test_show_prints_the_shape_as_json(capsys):
    code, out, err = run(capsys, "models", "show", "mathformer-mul", "--json")
    assert (code, err) == (0, "")
    shown = json.loads(out)
    model = load("mathformer-mul")
    assert shown.items() >= model.shape.to_dict().items()
    assert shown["parameters"] == 1480
    assert shown["has_weights"] is True
    assert shown["has_tokenizer"] is True
    assert shown["fingerprint"] == model.fingerprint


def test_show_prints_a_shape_without_weights(capsys):
    code, out, _ = run(capsys, "models", "show", "llama-3-8b")
    assert code == 0
    assert "no, the shape only" in out
    assert "32 of 128, over 8 KV heads" in out


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["show", "glasslm"], "did you mean glassllm"),
        (["show", "smollm2"], "isn't here yet"),
        (["get", "glassllm"], "fetch one of smollm2"),
        (["--json", "show", "glassllm"], "--json stands before show; write it at the end"),
        (["show"], "Missing argument 'NAME'. (see tokenpath models show --help)"),
    ],
)
def test_bad_input_is_one_line(args, part, capsys):
    code, out, err = run(capsys, "models", *args)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert part in err
    assert err.count("\n") == 1


def test_get_prints_the_path_and_says_on_stderr_what_it_fetches(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "get", lambda name: tmp_path / name)
    code, out, err = run(capsys, "models", "get", "smollm2")
    assert (code, out, err) == (0, f"{tmp_path / 'smollm2'}\n", "fetching smollm2, 98 MB\n")
    code, out, _ = run(capsys, "models", "get", "smollm2", "--json")
    assert json.loads(out) == {"name": "smollm2", "path": str(tmp_path / "smollm2")}


def test_the_shell_completes_names():
    assert ("glassllm-pt" in dict(models.complete_model("glass"))) is True
    assert "smollm2" not in dict(models.complete_model("glass"))
    assert models.complete_asset("smol") == ["smollm2"]
    assert models.complete_asset("glass") == []
