"""Folders of generated files: whole or not at all, and nobody else's files touched."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from tokenpath.folders import write_folder
from tokenpath.hw.arch.errors import InputError

MANIFEST = "made.json"


def files(**texts: str) -> dict[str, str]:
    """Files and the manifest that lists them."""
    listed = [
        {"name": name, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        for name, text in texts.items()
    ]
    return texts | {MANIFEST: json.dumps({"files": listed})}


def held(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


def test_a_folder_is_made_filled_and_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_folder(folder, files(a="1", b="2"), MANIFEST)
    assert held(folder) == files(a="1", b="2")
    write_folder(folder, files(a="3"), MANIFEST)  # b was ours and is gone
    assert held(folder) == files(a="3")
    empty = tmp_path / "empty"
    empty.mkdir()
    write_folder(empty, files(a="1"), MANIFEST)
    assert held(empty) == files(a="1")
    assert sorted(os.listdir(tmp_path)) == ["empty", "out"]


def test_other_files_are_refused_or_stay(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_folder(folder, files(a="1"), MANIFEST)
    (folder / "notes").write_text("mine")
    with pytest.raises(InputError, match="holds notes, which isn't as this command writes it"):
        write_folder(folder, files(a="2"), MANIFEST)
    assert held(folder) == files(a="1") | {"notes": "mine"}
    write_folder(folder, files(a="2"), MANIFEST, force=True)
    assert held(folder) == files(a="2") | {"notes": "mine"}


def test_an_edited_file_is_refused_and_never_removed(tmp_path: Path) -> None:
    write_folder(tmp_path, files(a="1", b="2"), MANIFEST)
    (tmp_path / "b").write_text("mended by hand")
    with pytest.raises(InputError, match="holds b, which isn't as"):
        write_folder(tmp_path, files(a="1", b="2"), MANIFEST)
    write_folder(tmp_path, files(a="3"), MANIFEST, force=True)
    assert held(tmp_path) == files(a="3") | {"b": "mended by hand"}


@pytest.mark.parametrize("text", ["", "[]", '{"files": 3}', '{"files": [{"name": "../x"}]}'])
def test_a_manifest_of_something_else_owns_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(InputError, match=f"holds {MANIFEST}"):
        write_folder(tmp_path, files(a="1"), MANIFEST)
    assert held(tmp_path) == {MANIFEST: text}


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("old", [False, True])
def test_what_goes_wrong_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, old: bool
) -> None:
    folder = tmp_path / "out"
    if old:
        write_folder(folder, files(a="1"), MANIFEST)
    write = Path.write_text

    def full(self: Path, text: str, **options: str) -> int:
        if self.name == MANIFEST:
            raise error
        return write(self, text, **options)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises((InputError, KeyboardInterrupt)):
        write_folder(folder, files(a="2", b="2"), MANIFEST)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == (["out"] if old else [])
    assert not old or held(folder) == files(a="1")


@pytest.mark.parametrize("moved", [False, True])
def test_an_interrupt_between_two_moves_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    folder, replace, calls = tmp_path / "out", os.replace, []
    write_folder(folder, files(a="1", b="1"), MANIFEST)

    def interrupted(source: Path, target: Path) -> None:
        calls.append(target.name)
        if len(calls) == 2:
            if moved:
                replace(source, target)
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_folder(folder, files(a="2", b="2"), MANIFEST)
    assert held(folder) == files(a="2", b="2")
    assert os.listdir(tmp_path) == ["out"]


def test_what_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="it is a file; give a folder"):
        write_folder(tmp_path / "file", files(a="1"), MANIFEST)
    with pytest.raises(InputError, match=r"no folder .*nowhere; make it first"):
        write_folder(tmp_path / "nowhere" / "out", files(a="1"), MANIFEST)
