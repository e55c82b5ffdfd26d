"""Files that are no programs, or not what they say: each is refused in one line."""

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenpath.hw.arch import program_file
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import Program

TINY = PRESETS["tiny"].on("line:2")


def refusal(path: Path) -> str:
    """The one line with which a file is refused, without its path."""
    with pytest.raises(InputError) as caught:
        Program.load(path)
    text = str(caught.value)
    assert "\n" not in text and text.startswith(f"program {path}: ")
    return text.removeprefix(f"program {path}: ")


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


AGAIN = "; compile it again"
WEIGHTS = "program's elements"
CLASS_0 = "memory instructions of class 0"
NO_CODE = "its code isn't that of three engines"
RULE = "program has a step rule position_low"
SAME = f"its architecture, {TINY.fingerprint}"
END = "; it is damaged or no program, so compile it again"


def code(row: Any, *labels: Any) -> dict[str, Any]:
    """Code of two classes with one instruction of the memory engine."""
    one = {"engines": [[row], [], []], "labels": [list(labels), [], []]}
    return {"code": [one, one]}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": 2}, "it has format version 2, this is 1; compile it again"),
        ({"version": None}, "it has format version None, this is 1; compile it again"),
        ({"kind": "run"}, f"its header is of something else{END}"),
        ({"fingerprint": "0" * 99}, f"its fingerprint {'0' * 20} isn't that of {SAME}{END}"),
        ({"arch": []}, f"its arch isn't a dict{END}"),
        ({"arch": {"lames": 3}}, "unknown architecture field 'lames'; did you mean 'lanes'?"),
        ({"arch": {"queries": 0}}, "queries 0 is outside 1..64; change it in the architecture"),
        ({"shapes": None}, f"its shapes isn't a dict{END}"),
        ({"code": {}}, f"its code isn't a list{END}"),
        ({"code": [[]]}, f"{NO_CODE}{END}"),
        ({"code": [{"engines": [[], []], "labels": [[]] * 3}]}, f"{NO_CODE}{END}"),
        ({"code": [{"engines": [[]] * 3, "labels": [[], 3, []]}]}, f"{NO_CODE}{END}"),
        (code([1.0], "x"), f"its code isn't a list of integers{END}"),
        (code(3, "x"), f"its code isn't a list of integers{END}"),
        (code([1], 1), f"its labels aren't text{END}"),
        (code([1], "x", "y"), f"program has 1 {CLASS_0} and 2 labels; compile it again"),
        (code([0], "x"), f"program has {CLASS_0} without 20 fields; compile it again"),
        ({"code": []}, "program's tile_code 0 is outside 0..-1; compile it again"),
        ({"rules": [{}]}, f"its step rules have other fields{END}"),
        ({"rules": [3]}, f"its step rules have other fields{END}"),
        ({"meta": []}, f"its meta isn't a dict{END}"),
        ({"page": 1.5}, f"its page isn't an int{END}"),
        ({"page": True}, f"its page isn't an int{END}"),
        ({"page": 0}, "program's page is 0; give 1..16777216"),
        ({"context": -1}, "program's context is -1; give 1..16777216"),
        ({"context": 1 << 30}, "program's context is 1073741824; give 1..16777216"),
        ({"tile_code": [0]}, "program has 1 tile_code for 2 tiles; compile it again"),
        ({"tile_code": [0, "1"]}, f"its tile_code isn't a list of integers{END}"),
        ({"tile_code": [0, True]}, f"its tile_code isn't a list of integers{END}"),
        ({"tile_code": [0, 2]}, "program's tile_code 2 is outside 0..1; compile it again"),
        ({"shards_of": [0, 1]}, "program's shards_of 1 is outside -1..0; compile it again"),
        ({"result_tile": 2}, "program's result_tile 2 is outside 0..1; compile it again"),
        ({"result_at": 4095}, "program's result are at words 4095..4096; there are 0..4095"),
        ({"logits_at": 4094}, "program's logits are at words 4094..4096; there are 0..4095"),
        ({"logit_first": [0, 4]}, "tile 1 has logits 4..5 of 5; compile it again"),
        ({"logit_words": [-1, 2]}, "tile 0 has logits 0..-2 of 5; compile it again"),
        ({"store_beats_used": 9}, f"{WEIGHTS} have shape (2, 3, 8), not (2, 9, 8){AGAIN}"),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_a_header_is_refused(saved: Path, change: dict[str, Any], text: str) -> None:
    assert refusal(rewritten(saved, lambda header: header.update(change))) == text


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"kind": "moon"}, "program has an unknown step rule 'moon'; compile it again"),
        ({"register": 0}, f"{RULE} for register 0; give each its own of 1..255"),
        ({"register": 256}, f"{RULE} for register 256; give each its own of 1..255"),
        ({"span": 0}, "program's step rule position_low has spans 0 and 1; compile it again"),
        ({"span2": 0}, "program's step rule position_low has spans 2 and 0; compile it again"),
        (
            {"kind": "kv_rows", "span": -1},
            "program's step rule kv_rows has spans -1 and 1; compile it again",
        ),
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
