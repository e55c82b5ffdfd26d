"""Programs in files: what comes back, written whole or not at all."""

import io
import json
import os
import struct
import sys
import zipfile
from array import array
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from tokenpath.hw.arch import program_file
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import BUFFERS, Program

TINY = PRESETS["tiny"].on("line:2")


def refusal(path: Path, **options: Any) -> str:
    """The one line with which a file is refused, without its path."""
    with pytest.raises(InputError) as caught:
        Program.load(path, **options)
    text = str(caught.value)
    assert "\n" not in text and text.startswith(f"program {path}: ")
    return text.removeprefix(f"program {path}: ")


# --- there and back ---


def test_a_program_comes_back_equal(program: Program, saved: Path) -> None:
    loaded = Program.load(saved, TINY)
    for name in (field.name for field in fields(Program)):
        assert getattr(loaded, name) == getattr(program, name), name
    for name, kind in BUFFERS.items():
        view = getattr(loaded, name)
        assert (view.format, view.tolist()) == (kind, getattr(program, name).tolist())


def test_a_program_without_weights_comes_back(program: Program, tmp_path: Path) -> None:
    bare = replace(program, elements=None, scales=None)
    bare.save(tmp_path / "bare")
    assert Program.load(tmp_path / "bare") == bare


def test_buffers_without_elements_come_back(program: Program, tmp_path: Path) -> None:
    none = memoryview(array("i"))
    shared = replace(
        program, vector_shared=none, vector_tile=program_file._view(bytearray(), "i", (2, 0))
    )
    shared.save(tmp_path / "none")
    loaded = Program.load(tmp_path / "none")
    assert (loaded.vector_shared.shape, loaded.vector_tile.shape) == ((0,), (2, 0))
    assert loaded.vector_tile.nbytes == 0
    assert loaded == shared


def test_the_same_program_gives_the_same_bytes(
    program: Program, saved: Path, tmp_path: Path
) -> None:
    program.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_the_file_is_what_it_says(program: Program, saved: Path) -> None:
    """Any zip reader finds the header and the raw little-endian buffers."""
    with zipfile.ZipFile(saved) as archive:
        assert archive.namelist() == ["header.json", *BUFFERS]
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
        header = json.loads(archive.read("header.json"))
        scales = archive.read("scales")
    assert header["version"] == 1
    assert header["fingerprint"] == TINY.fingerprint
    assert scales == struct.pack("<12h", *range(-6, 6))


def test_a_machine_of_the_other_byte_order_writes_the_same(
    program: Program, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def turned(name: str, kind: str) -> memoryview:
        view = getattr(program, name)
        words = array(kind, view.tobytes())
        words.byteswap()
        return memoryview(words).cast("B").cast(kind, view.shape)  # type: ignore[call-overload, no-any-return]

    words = {name: turned(name, kind) for name, kind in BUFFERS.items() if kind != "b"}
    monkeypatch.setattr(sys, "byteorder", "big")
    replace(program, **words).save(tmp_path / "big")  # type: ignore[arg-type]
    assert (tmp_path / "big").read_bytes() == saved.read_bytes()


# --- whole or not at all ---


def test_an_error_leaves_what_was_there(
    program: Program, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def fails(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(program_file, "_swapped", fails)
    with pytest.raises(KeyboardInterrupt):
        program.save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_a_place_that_cannot_be_written(program: Program, tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "p", tmp_path):
        with pytest.raises(InputError, match=rf"^can't write {path}: .*; choose another place$"):
            program.save(path)
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^can't read program .*: No such file or directory$"):
        Program.load(tmp_path / "none")
    with pytest.raises(InputError, match=r"^can't read program .*: Is a directory$"):
        Program.load(tmp_path)
    assert refusal(Path(os.devnull)) == "it isn't a regular file; give one that was saved"


# --- another machine, another version ---


def test_a_program_of_another_machine(saved: Path) -> None:
    other = replace(TINY, stream_depth=8, name="deep")
    assert refusal(saved, expect=other) == (
        f"it was compiled for architecture 'tiny' ({TINY.fingerprint}), not for 'deep' "
        f"({other.fingerprint}); compile it again for this one"
    )
    assert Program.load(saved, replace(TINY, name="same machine")).arch == TINY


def test_weights_are_read_once(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member goes from the file straight to the memory that the program keeps."""
    sizes: list[int] = []

    class Counting(io.FileIO):
        def readinto(self, buffer: Any) -> int | None:
            sizes.append(len(memoryview(buffer)))
            return super().readinto(buffer)

    monkeypatch.setattr(Path, "open", lambda path, mode: io.BufferedReader(Counting(path, "r"), 16))
    loaded = Program.load(saved)
    assert sizes.count(2048) == 1  # the registers
    assert loaded.elements is not None
    assert isinstance(loaded.elements.obj, bytearray)
