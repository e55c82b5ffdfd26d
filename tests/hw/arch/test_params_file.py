"""Machines in TOML files: what they change, and what is refused by name."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import PRESETS, Arch, Format
from tokenpath.hw.arch.router_params import RouterParams

TINY = PRESETS["tiny"]
NUMERIC_FIELDS = "fields are act, act_frac, block, kv, score_frac, weight"


def refused(text: str) -> Any:
    return pytest.raises(InputError, match=f"^{re.escape(text)}$")


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return str(path)


def test_a_file_changes_what_it_names(tmp_path: Path) -> None:
    text = 'preset = "tiny"\nlanes = 16\ntopology = "ring:6"\n[numeric.weight]\nbits = 4\n'
    arch = Arch.load(written(tmp_path, text))
    numeric = replace(TINY.numeric, weight=Format(bits=4))
    expected = replace(TINY, name="mine", lanes=16, numeric=numeric)
    assert arch == expected.on("ring:6")


def test_a_file_without_a_preset_starts_from_the_defaults(tmp_path: Path) -> None:
    arch = Arch.load(written(tmp_path, 'name = "big"\nqueries = 8\n[router]\ndepth = 9\n'))
    assert arch == Arch(name="big", queries=8, router=RouterParams(depth=9))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lames = 8", "unknown architecture field 'lames'; did you mean 'lanes'?"),
        ("[numeric]\nbits = 8", f"unknown architecture field 'numeric.bits'; {NUMERIC_FIELDS}"),
        (
            "[numeric.kv]\nmantissa = 8",
            "unknown architecture field 'numeric.kv.mantissa'; did you mean 'mantissa_bits'?",
        ),
        ("[router]\ndeph = 8", "unknown architecture field 'router.deph'; did you mean 'depth'?"),
        ('lanes = "8"', "architecture field 'lanes' is '8'; give a int"),
        ("lanes = 8.0", "architecture field 'lanes' is 8.0; give a int"),
        ("lanes = true", "architecture field 'lanes' is True; give a int"),
        ("router = 3", "architecture field 'router' is 3; give a RouterParams"),
        ("topology = 3", "architecture field 'topology' is 3; give a Topology"),
        ("lanes = 33", "lanes 33 is not a multiple of the block of 32 elements; give 32"),
    ],
)  # fmt: skip
def test_a_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with refused(message):
        Arch.load(written(tmp_path, text))


def test_a_file_names_an_unknown_preset(tmp_path: Path) -> None:
    path = written(tmp_path, 'preset = "huge"')
    with refused(f"unknown preset 'huge' in {path}; presets are tiny, edge, server"):
        Arch.load(path)


def test_a_name_that_is_neither_preset_nor_file(tmp_path: Path) -> None:
    text = "presets are tiny, edge, server, or give a .toml file"
    with refused(f"unknown architecture 'tinny'; did you mean 'tiny'? {text}"):
        Arch.load("tinny")
    with refused(f"unknown architecture 'zzz'; {text}"):
        Arch.load("zzz")
    with refused("no architecture file 'none.toml'; presets are tiny, edge, server"):
        Arch.load("none.toml")


@pytest.mark.parametrize("content", [b"lanes = ", b"\xff\xfe", b"lanes = 8\nlanes = 9"])
def test_a_file_that_is_no_toml(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(
        InputError, match=r"^can't read the architecture '.*': .*; give a TOML file$"
    ):
        Arch.load(str(path))
    with pytest.raises(InputError, match=r"Is a directory; give a TOML file$|Is a directory: .*"):
        Arch.load(str(tmp_path))
