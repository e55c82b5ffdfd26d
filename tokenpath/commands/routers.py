"""``tokenpath routers``: router microarchitectures side by side."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tokenpath.commands import new_app
from tokenpath.commands.options import ArchName, Context, Model
from tokenpath.console import AsJson, emit, progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenpath.cost.flow import Cost
    from tokenpath.hw.arch.params import Arch

app = new_app()

COSTS = ("LUT4", "flip-flops", "memory bits", "MHz")
ROUTERS = ["wormhole-d8", "vc2-d8", "vc4-d8-s2", "vc4-d8-s2-wavefront"]
TOPOLOGIES = ["mesh:4x4", "torus:4x4", "flat:16", "tiered:4x4"]


@app.command()
def routers(
    model: Model = "glassllm",
    arch: ArchName = "edge",
    topologies: Annotated[
        list[str] | None,
        typer.Option("--topology", "-t", help=f"Again for each; else {', '.join(TOPOLOGIES)}."),
    ] = None,
    routers: Annotated[
        list[str] | None,
        typer.Option("--router", "-r", help=f"Again for each; else {', '.join(ROUTERS)}."),
    ] = None,
    context: Context = None,
    position: Annotated[
        int | None, typer.Option("--position", min=0, help="Of the token; else the last.")
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            "--cost",
            metavar="SEEDS",
            min=0,
            max=100,
            help="Synthesise each router, too, with so many runs of place and route.",
        ),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare routers: latency and saturation of uniform traffic, and a token's decoding.

    With --cost, what each takes on an ECP5 (docs/cost.md), from seconds to many minutes a router.
    """
    from rich.table import Table

    from tokenpath.hw.arch.params import Arch
    from tokenpath.hw.arch.router_params import RouterParams
    from tokenpath.routers import compare
    from tokenpath.sw.model import load

    machine, spec = Arch.load(arch), load(model)
    kinds = [RouterParams.parse(text) for text in routers or ROUTERS]
    nets = topologies or TOPOLOGIES
    with progress("routers", total=len(kinds) * len(nets)) as advance:
        found = list(
            compare(
                spec, machine, nets, kinds, position=position, context=context,
                cost=_measure(seeds) if seeds else None, advance=advance,
            )
        )  # fmt: skip
    table = Table(title=f"{spec.shape.name} on preset {machine.name}", title_justify="left")
    for name in ("topology", "router"):
        table.add_column(name)
    for name in ("zero load", "saturation", "cycles a token", "interconnect", "tokens/s"):
        table.add_column(name, justify="right")
    for name in COSTS if seeds else ():
        table.add_column(name, justify="right")
    for row in found:
        token = (row.cycles, row.interconnect, row.tokens_per_s)
        cost = [str(figure) for figure in _figures(row.cost).values()] if row.cost else []
        table.add_row(
            row.topology, row.router, f"{row.zero_load:.2f}", f"{row.saturation:.2f}",
            *("-" if figure is None else f"{figure:,.0f}" for figure in token), *cost,
        )  # fmt: skip
    rows = [{**asdict(row), "cost": row.cost and _figures(row.cost)} for row in found]
    emit(table, {"model": spec.shape.name, "arch": machine.name, "rows": rows}, as_json)


def _figures(cost: "Cost") -> dict[str, float]:
    """What a router takes: COSTS."""
    area = cost.area
    bits = 64 * area.dpram + 18432 * area.bram
    return dict(zip(COSTS, (area.lut4, area.ff, bits, round(cost.mhz, 1)), strict=True))


def _measure(seeds: int) -> "Callable[[Arch], Cost]":
    """Cost of a machine's router; refuses where a package is missing."""
    from tokenpath.cost.flow import Device, cache_folder, measure, tool_versions
    from tokenpath.cost.units import Sizes, build

    tool_versions()

    def cost(machine: "Arch") -> "Cost":
        unit = build("router", Sizes(arch=machine, flit_words=machine.flit_words))
        return measure(unit, device=Device(), seeds=range(1, 1 + seeds), cache=cache_folder())

    return cost
