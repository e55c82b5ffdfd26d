"""The Verilog of every preset and unit and of some other routers, and what
`verilator --lint-only -Wall` says of it: of all places that it warns about, how many the waivers of
`hw/waivers.py` cover, and how many are left. The time is that of `tokenpath verilog`, in CPU
seconds."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tokenpath.hw.arch.params import PRESETS, Arch
from tokenpath.hw.describe import UNITS, unit_files
from tokenpath.hw.waivers import WAIVERS

from .common import markdown
from .lint import by_rule, lint

ROUTERS = {
    "vc2-d4-ordered": "mesh:4x4",
    "vc2-d4-wavefront-odd_even": "mesh:4x4",
    "vc4-d4-s3-islip2-matrix": "torus:4x4",
    "vc1-d32-bubble": "torus:3x3",
    "deflection": "mesh:4x4",
}
"""Routers of preset edge beside those of the presets, and a topology of each."""

COLUMNS = ("machine", "unit", "CPU s", "modules", "lines", "waived", "left", "waived by kind")


def _rows() -> Iterator[list[object]]:
    for name, arch in PRESETS.items():
        for unit in UNITS:
            yield _row(name, arch, unit)
    for router, topology in ROUTERS.items():
        arch = PRESETS["edge"].on(topology, router)
        yield _row(f"edge, {topology}, {router}", arch, "router")


def _row(name: str, arch: Arch, unit: str) -> list[object]:
    start = time.process_time()
    files = unit_files(arch, unit)
    seconds = time.process_time() - start
    texts = [files[f"{unit}.v"]] if unit == "array" else _verilog(files)
    with TemporaryDirectory() as folder:
        left = by_rule(lint(files, unit, Path(folder)))
        found = by_rule(lint(files, unit, Path(folder), waived=False))
    waived = found - left
    return [
        name, unit, f"{seconds:.1f}",
        sum(text.count("\nendmodule") for text in texts),
        f"{sum(text.count(chr(10)) for text in texts):,}",
        f"{waived.total():,}", _kinds(left) or "0", _kinds(waived),
    ]  # fmt: skip


def _verilog(files: dict[str, str]) -> list[str]:
    return [text for name, text in files.items() if name.endswith(".v")]


def _kinds(count: Counter[str]) -> str:
    return ", ".join(f"{kind} {n:,}" for kind, n in count.most_common())


def measure() -> str:
    """The tables, as Markdown."""
    reasons = [
        [waiver.rule, f"`{waiver.match}`" if waiver.match else "all", waiver.reason]
        for waiver in WAIVERS
    ]
    return (
        markdown(COLUMNS, _rows())
        + "\nThe lines of an array are those of array.v; its tile is the unit above it.\n\n"
        + markdown(("rule", "messages", "why it is waived"), reasons)
    )
