"""``tokenpath routers``: router microarchitectures side by side."""

from dataclasses import asdict
from typing import Annotated

import typer

from tokenpath.commands import new_app
from tokenpath.commands.options import ArchName, Context, Model
from tokenpath.console import AsJson, emit, progress

app = new_app()

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
    as_json: AsJson = False,
) -> None:
    """Compare routers: latency and saturation of uniform traffic, and a token's decoding."""
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
            compare(spec, machine, nets, kinds, position=position, context=context, advance=advance)
        )
    table = Table(title=f"{spec.shape.name} on preset {machine.name}", title_justify="left")
    for name in ("topology", "router"):
        table.add_column(name)
    for name in ("zero load", "saturation", "cycles a token", "interconnect", "tokens/s"):
        table.add_column(name, justify="right")
    for row in found:
        table.add_row(
            row.topology, row.router, f"{row.zero_load:.2f}", f"{row.saturation:.2f}",
            f"{row.cycles:,}", f"{row.interconnect:,}", f"{row.tokens_per_s:,.0f}",
        )  # fmt: skip
    payload = {"model": spec.shape.name, "arch": machine.name, "rows": [asdict(r) for r in found]}
    emit(table, payload, as_json)
