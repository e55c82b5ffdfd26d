"""Programs in files: what comes back, and what is refused."""

import io
import json
import os
import struct
import sys
import zipfile
from array import array
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenpath.hw.arch import program_file
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import Instr, Op
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import BUFFERS, Program, StepRule

MakeProgram = Callable[..., Program]
TINY = PRESETS["tiny"].on("line:2")


@pytest.fixture(name="program", scope="module")
def _program(hand_made: MakeProgram) -> Program:
    """A program with everything in it: weights, rules, constants, two classes."""
    beats, lanes, blocks = 3, TINY.lanes, TINY.blocks_per_beat
    elements = memoryview(bytes(range(2 * beats * lanes))).cast("b", (2, beats, lanes))
    scales = array("h", range(-6, 2 * beats * blocks - 6))
    append = Instr(op=Op.APPEND, dst=(1, 4), n=1)
    program = hand_made(
        TINY,
        [([append], [Instr(op=Op.SYNC)], []), ([], [Instr(op=Op.SYNC)], [])],
        registers={(0, 5): -7, (1, 5): 1 << 30},
        rules=(StepRule(register=4, kind="position_low", scale=1, span=2),),
        store_beats_used=beats,
        shards_of=(0, -1),
        context=2,
        vocab=5,
        logit_words=(3, 2),
        logit_first=(0, 3),
        meta={"model": "hand", "kv_shards": 1},
    )
    return replace(
        program,
        vector_shared=memoryview(array("i", [1, -2, 3])),
        vector_tile=memoryview(array("i", range(4))).cast("B").cast("i", (2, 2)),
        elements=elements,
        scales=memoryview(scales).cast("B").cast("h", (2, beats, blocks)),
    )


@pytest.fixture(name="saved")
def _saved(program: Program, tmp_path: Path) -> Path:
    path = tmp_path / "step.program"
    program.save(path)
    return path


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
    assert loaded.vector_tile.tolist() == [[], []]
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


def rewritten(path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """The file with a changed header."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["header.json"])
    changed = change(header)
    members["header.json"] = json.dumps(header if changed is None else changed).encode()
    return packed(path, members)


def packed(path: Path, members: dict[str, bytes], **options: Any) -> Path:
    target = path.with_name("changed")
    with zipfile.ZipFile(target, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target


END = "; it is damaged or no program, so compile it again"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 2}, "it has format version 2, this is 1; compile it again"),
        ({"version": None}, "it has format version None, this is 1; compile it again"),
        ({"kind": "run"}, f"its header is of something else{END}"),
        ({"fingerprint": "0" * 99}, f"its fingerprint {'0' * 20} isn't that of its architecture, {TINY.fingerprint}{END}"),
        ({"arch": []}, f"its arch isn't a dict{END}"),
        ({"arch": {"lames": 3}}, "unknown architecture field 'lames'; did you mean 'lanes'?"),
        ({"arch": {"lanes": -32}}, "lanes -32 is not a multiple of the block of 32 elements; give 32"),
        ({"shapes": None}, f"its shapes isn't a dict{END}"),
        ({"code": {}}, f"its code isn't a list{END}"),
        ({"code": [[]]}, f"its code isn't that of three engines{END}"),
        ({"code": [{"engines": [[], []], "labels": [[], [], []]}]}, f"its code isn't that of three engines{END}"),
        ({"code": [{"engines": [[[1.0]], [], []], "labels": [[], [], []]}]}, f"its code isn't a list of integers{END}"),
        ({"code": [{"engines": [[3], [], []], "labels": [[], [], []]}]}, f"its code isn't a list of integers{END}"),
        ({"code": [{"engines": [[], [], []], "labels": [[1], [], []]}]}, f"its labels aren't text{END}"),
        ({"code": [{"engines": [[], [], []], "labels": [["x"], [], []]}] * 2}, "program has 0 memory instructions of class 0 and 1 labels; compile it again"),
        ({"code": [{"engines": [[[0]], [], []], "labels": [["x"], [], []]}] * 2}, "program has memory instructions of class 0 without 20 fields; compile it again"),
        ({"code": []}, "program's tile_code 0 is outside 0..-1; compile it again"),
        ({"rules": [{}]}, f"its step rules have other fields{END}"),
        ({"rules": [3]}, f"its step rules have other fields{END}"),
        ({"meta": []}, f"its meta isn't a dict{END}"),
        ({"page": 1.5}, f"its page isn't an int{END}"),
        ({"page": True}, f"its page isn't an int{END}"),
        ({"page": 0}, "program's page is 0; give 1 or more"),
        ({"context": -1}, "program's context is -1; give 1 or more"),
        ({"tile_code": [0]}, "program has 1 tile_code for 2 tiles; compile it again"),
        ({"tile_code": [0, "1"]}, f"its tile_code isn't a list of integers{END}"),
        ({"tile_code": [0, 2]}, "program's tile_code 2 is outside 0..1; compile it again"),
        ({"shards_of": [0, 1]}, "program's shards_of 1 is outside -1..0; compile it again"),
        ({"result_tile": 2}, "program's result_tile 2 is outside 0..1; compile it again"),
        ({"result_at": 4095}, "program's result are at words 4095..4096; there are 0..4095"),
        ({"logits_at": 4094}, "program's logits are at words 4094..4096; there are 0..4095"),
        ({"logit_first": [0, 4]}, "tile 1 has logits 4..5 of 5; compile it again"),
        ({"logit_words": [-1, 2]}, "tile 0 has logits 0..-2 of 5; compile it again"),
        ({"store_beats_used": 1 << 40}, "program's elements have shape (2, 3, 8), not (2, 1099511627776, 8); compile it again"),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_a_header_is_refused(saved: Path, change: dict[str, Any], text: str) -> None:
    assert refusal(rewritten(saved, lambda header: header.update(change))) == text


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"kind": "moon"}, "program has an unknown step rule 'moon'; compile it again"),
        ({"register": 0}, "program has a step rule position_low for register 0; give each its own of 1..255"),
        ({"register": 256}, "program has a step rule position_low for register 256; give each its own of 1..255"),
        ({"span": 0}, "program's step rule position_low has span 0; compile it again"),
        ({"kind": "kv_rows", "span": -1}, "program's step rule kv_rows has span -1; compile it again"),
        ({"span2": 0}, "program's step rule position_low has span 2; compile it again"),
    ],
)  # fmt: skip
def test_a_rule_is_refused(saved: Path, rule: dict[str, Any], text: str) -> None:
    assert refusal(rewritten(saved, lambda header: header["rules"][0].update(rule))) == text


def test_a_register_has_one_rule(saved: Path) -> None:
    message = refusal(rewritten(saved, lambda header: header["rules"].append(header["rules"][0])))
    assert (
        message
        == "program has a step rule position_low for register 4; give each its own of 1..255"
    )


@pytest.mark.parametrize(
    ("name", "shape", "text"),
    [
        ("registers", None, "it has no registers, or no shape for them"),
        ("registers", [2, 255], "its registers have 2048 bytes and shape 2x255"),
        ("registers", [-2, -256], "its registers have 2048 bytes and shape -2x-256"),
        ("registers", [0], "its registers have 2048 bytes and shape 0"),
        ("registers", [10**400], "its registers have 2048 bytes and shape out of this world"),
        ("registers", "2", "its shape of registers isn't a list of integers"),
        ("registers", [2.0, 256], "its shape of registers isn't a list of integers"),
        ("scales", [2, 3, 1 << 62], "its scales have 24 bytes and shape 2x3x4611686018427387904"),
        ("elements", None, "it has no elements, or no shape for them"),
    ],
)
def test_a_shape_is_refused(saved: Path, name: str, shape: Any, text: str) -> None:
    changed = rewritten(saved, lambda header: header["shapes"].update({name: shape}))
    assert refusal(changed) == text + END


def test_sizes_that_agree_with_each_other_only(saved: Path) -> None:
    """The shape fits the buffer and not the machine."""
    changed = rewritten(saved, lambda header: header["shapes"].update({"registers": [1, 512]}))
    expected = "program's registers have shape (1, 512), not (2, 256); compile it again"
    assert refusal(changed) == expected
    changed = rewritten(saved, lambda header: header["shapes"].update({"registers": [512]}))
    assert refusal(changed).startswith("program's registers have 1 dimensions of 'i', not 2 of 'i'")


# --- hostile files ---


def test_a_file_that_is_cut_off(saved: Path) -> None:
    content = saved.read_bytes()
    for size in {0, 1, 29, len(content) // 2, len(content) - 1}:
        saved.write_bytes(content[:size])
        assert refusal(saved) == f"it isn't a complete zip file{END}"


@settings(max_examples=150)
@given(st.data())
def test_damaged_files_are_refused_or_equal(
    program: Program, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any few bytes changed: an InputError, or a program that passes its check."""
    path = tmp_path_factory.mktemp("damaged") / "p"
    program.save(path)
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02") if data.draw(st.booleans()) else 0
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(directory, len(content) - 1))] = data.draw(
            st.integers(0, 255)
        )
    path.write_bytes(content)
    try:
        loaded = Program.load(path)
    except InputError as error:
        assert "\n" not in str(error)
    else:
        loaded.check()


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_garbage_is_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("garbage") / "p"
    path.write_bytes(content)
    assert refusal(path).endswith("compile it again")


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_compressed_members_are_refused(saved: Path) -> None:
    """So no small file can blow up."""
    bomb = packed(saved, contents(saved), compression=zipfile.ZIP_DEFLATED)
    assert refusal(bomb) == f"member header.json is compressed or encrypted{END}"


def test_other_members_are_refused(saved: Path) -> None:
    members = contents(saved)
    expected = f"it has other members than a program{END}"
    assert refusal(packed(saved, members | {"more": b""})) == expected
    assert (
        refusal(packed(saved, {n: c for n, c in members.items() if n != "header.json"})) == expected
    )
    assert refusal(packed(saved, {})) == expected
    rest = {name: content for name, content in members.items() if name != "scales"}
    assert refusal(packed(saved, rest)) == f"it has no scales, or no shape for them{END}"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_twice_is_refused(saved: Path) -> None:
    with zipfile.ZipFile(saved, "a") as archive:
        archive.writestr("scales", b"")
    assert refusal(saved) == f"it has other members than a program{END}"


def test_members_over_each_other_are_refused(saved: Path) -> None:
    """Two entries of the directory that share their bytes could promise more than the file has."""
    content = saved.read_bytes()
    for name in (b"registers", b"elements"):
        entry = content.index(b"PK\x01\x02")
        while not content[entry + 46 :].startswith(name):
            entry = content.index(b"PK\x01\x02", entry + 4)
        sizes = struct.pack("<II", len(content) // 2 + 1, len(content) // 2 + 1)
        content = content[: entry + 20] + sizes + content[entry + 28 :]
    saved.write_bytes(content)
    assert refusal(saved) == f"its members are larger than the file{END}"


def test_a_header_that_is_too_long(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_file, "HEADER_BYTES", 100)
    assert refusal(saved).endswith(f"bytes of at most 100{END}")


@pytest.mark.parametrize("text", [b"", b"[1]", b"{", b"\xff", b"[" * 100_000, b"1" * 10_000])
def test_a_header_that_is_no_header(saved: Path, text: bytes) -> None:
    message = refusal(packed(saved, contents(saved) | {"header.json": text}))
    assert message in (f"its header isn't JSON{END}", f"its header is of something else{END}")


def test_changed_weights_are_noticed(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    at = content.index(bytes(range(48)))
    content[at + 7] ^= 1
    saved.write_bytes(content)
    assert refusal(saved) == f"member elements has other bytes than were written{END}"


def test_a_program_that_fails_its_check_is_refused(saved: Path) -> None:
    assert refusal(rewritten(saved, lambda header: header["rules"][0].update(scale=5))) == (
        "tile 0 memory instruction 0 (APPEND, stage): writes store beats 6; there are 0..2"
    )


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
