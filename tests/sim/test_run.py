"""Runs: driven, saved, read back; a file that isn't one is refused in one line."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.sim.run import FORMAT, Run, Step, drive


class Counter:
    """A machine whose arg max is the token that it was fed plus one."""

    def __init__(self) -> None:
        self.fed: list[tuple[int, int]] = []

    def step(self, token: int, position: int) -> Step:
        self.fed.append((token, position))
        logits = np.array([token, position], np.int32)
        return Step(position=position, token=token, logits=logits, best=token + 1, cycles=7)


def driven(prompt=(5, 9), tokens=4, **options: Any) -> tuple[Run, Counter]:
    machine = Counter()
    run = Run(executor="test", arch_fingerprint="abc", prompt=list(prompt))
    return drive(machine, run, tokens, **options), machine


def test_the_prompt_is_fed_then_what_came_out():
    run, machine = driven()
    assert machine.fed == [(5, 0), (9, 1), (10, 2), (11, 3), (12, 4)]
    assert run.tokens == [10, 11, 12, 13]
    assert [step.position for step in run.generated] == [1, 2, 3, 4]


def test_it_ends_behind_an_end_token_but_not_within_the_prompt():
    run, _ = driven(stop=(6, 12))
    assert run.tokens == [10, 11, 12]
    assert driven(stop=(10,))[0].tokens == [10]


def test_forced_tokens_are_fed_in_place_of_generated_ones():
    run, machine = driven(tokens=3, forced=[50, 60])
    assert [token for token, _ in machine.fed] == [5, 9, 50, 60]
    assert run.tokens == [10, 51, 61]
    assert [token for token, _ in driven(tokens=4, forced=[50])[1].fed] == [5, 9, 50, 51, 52]


def test_positions_start_where_they_are_told_and_each_step_is_shown():
    seen: list[Step] = []
    run, machine = driven(tokens=2, first=30, on_step=seen.append)
    assert [position for _, position in machine.fed] == [30, 31, 32]
    assert seen == run.steps


def test_the_hash_is_over_the_logits_of_generated_steps():
    run, _ = driven(tokens=2)
    digest = run.logits_sha256()
    run.steps[0].logits[0] += 1  # of the prompt
    assert run.logits_sha256() == digest
    run.steps[1].logits = run.steps[1].logits.astype(">i4")  # the same integers
    assert run.logits_sha256() == digest
    run.steps[2].logits[1] += 1
    assert run.logits_sha256() != digest


def test_a_run_is_saved_and_read_back(tmp_path):
    run, _ = driven(tokens=2)
    run.about = {"model": "count", "text": "ü", "bounds": {"compute": 3}}
    run.steps[1].ledger = {"compute": 3, "wait": 4}
    run.steps[1].stages = {"head": {"compute": 7}}
    run.steps[1].network = {"hop": 2}
    run.steps[1].counters = {"link.flits": np.arange(6).reshape(2, 3)}
    run.steps[2].logits = None
    run.steps[2].saturations, run.steps[2].overflows = 5, 6
    path = tmp_path / "run"
    run.save(path)
    back = Run.load(path)
    for name in ("executor", "arch_fingerprint", "prompt", "about", "tokens"):
        assert getattr(back, name) == getattr(run, name)
    for old, new in zip(run.steps, back.steps, strict=True):
        old_values, new_values = vars(old).copy(), vars(new).copy()
        for values in (old_values, new_values):
            values["logits"] = None if values["logits"] is None else values["logits"].tolist()
            values["counters"] = {k: v.tolist() for k, v in values["counters"].items()}
        assert new_values == old_values
    assert back.steps[0].logits.dtype == np.int32
    assert back.logits_sha256() == run.logits_sha256()


def saved(path: Path) -> dict[str, bytes]:
    """The members of a good file."""
    driven(tokens=1)[0].save(path)
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def array_file(array: np.ndarray, **options: Any) -> bytes:
    data = io.BytesIO()
    np.save(data, array, **options)
    return data.getvalue()


def header(**changes: Any) -> bytes:
    good = {"format": FORMAT, "steps": [], "executor": "x", "arch_fingerprint": "y"}
    return json.dumps(good | changes).encode()


PICKLE = array_file(np.array([{"a": print}], dtype=object), allow_pickle=True)
VAST = array_file(np.zeros(1)).replace(b"(1,), }" + b" " * 16, b"(%d,), }" % 10**16)
HOSTILE: dict[str, dict[str, bytes]] = {
    "no header": {"run.json": b""},
    "header is not JSON": {"run.json": b"\xff{"},
    "header is text": {"run.json": b'"format"'},
    "header is nothing": {"run.json": b"null"},
    "header is a list": {"run.json": b"[]"},
    "header is deep": {"run.json": b"[" * 100_000},
    "other format": {"run.json": header(format="tokenpath run 0")},
    "no format": {"run.json": b"{}"},
    "unknown field": {"run.json": header(colour="red")},
    "field missing": {"run.json": json.dumps({"format": FORMAT, "steps": []}).encode()},
    "steps are a number": {"run.json": header(steps=3)},
    "a step is text": {"run.json": header(steps=["x"])},
    "a step has another field": {"run.json": header(steps=[{"colour": 3}])},
    "array of no step": {"7.logits.npy": array_file(np.zeros(2, np.int32))},
    "array without a step": {"logits.npy": array_file(np.zeros(2, np.int32))},
    "array of step x": {"x.logits.npy": array_file(np.zeros(2, np.int32))},
    "array is pickled": {"0.logits.npy": PICKLE},
    "array is cut": {"0.logits.npy": array_file(np.zeros(9, np.int32))[:-5]},
    "array is vast": {"0.logits.npy": VAST},
    "array is no array": {"0.logits.npy": b"\x93NUMPY nonsense"},
}


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE)
def test_a_file_with_other_contents_is_refused_in_one_line(tmp_path, changes):
    path = tmp_path / "run"
    members = changes if "run.json" in changes else saved(path) | changes
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    refused(path)


def refused(path: Path) -> None:
    with pytest.raises(InputError) as refusal:
        Run.load(path)
    message = str(refusal.value)
    assert message.startswith(f"'{path}' is not a saved run (") and "\n" not in message
    assert message.endswith("); make one with 'tokenpath decode --save FILE'")


def test_bytes_that_are_no_run_are_refused(tmp_path):
    path = tmp_path / "run"
    saved(path)
    good = path.read_bytes()
    for bad in (b"", b"hello", good[: len(good) // 2], good[:-1], good[100:]):
        path.write_bytes(bad)
        refused(path)
    at = good.index(b"run.json") + 8 + 10  # inside of the compressed header
    path.write_bytes(good[:at] + bytes(b ^ 0x55 for b in good[at : at + 8]) + good[at + 8 :])
    refused(path)
    refused(tmp_path)  # a folder


def test_no_file_says_how_to_make_one(tmp_path):
    with pytest.raises(InputError) as refusal:
        Run.load(tmp_path / "none")
    wanted = f"no run '{tmp_path / 'none'}'; save one with 'tokenpath decode --save FILE'"
    assert str(refusal.value) == wanted


def test_a_file_that_unpacks_to_more_than_it_may_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "run"
    size = sum(map(len, saved(path).values()))
    monkeypatch.setattr("tokenpath.sim.run.LARGEST_FILE", size)
    Run.load(path)
    monkeypatch.setattr("tokenpath.sim.run.LARGEST_FILE", size - 1)
    refused(path)
