"""``tokenpath topology``: what a product of dimensions gives."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tokenpath.commands import new_app
from tokenpath.console import AsJson, emit, facts
from tokenpath.files import write_atomic
from tokenpath.hw.arch.route_table import broken_links, dimension_order, up_down, write_table
from tokenpath.hw.arch.routing import check_deadlock_free
from tokenpath.hw.arch.topology import Topology

app = new_app()


@app.callback()
def topology() -> None:
    """Networks: what a product of dimensions gives.

    A dimension has a size, a shape (line, ring, full, switch) and a tier of links (die, package,
    board, rack, optical): line4@die,line4@die,full8@board. Short forms on one die are mesh:8x8,
    torus:4x4x4, flat:64; tiered:4x4x8 climbs one tier per dimension.
    """


@app.command()
def show(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Such as mesh:8x8.")],
    as_json: AsJson = False,
) -> None:
    """Show distances, bisection and links.

    Proves on the way that no traffic can deadlock the network.
    """
    net = Topology.parse(text)
    proof = check_deadlock_free(net)
    shown = facts(
        str(net),
        {
            "tiles": net.tiles,
            "switch nodes": net.nodes - net.tiles,
            "ports per tile": net.port_base[-1],
            "virtual channels": net.vcs,
            "links, one way": ", ".join(f"{n:,} {tier}" for tier, n in net.links_per_tier.items()),
            "diameter": f"{net.diameter_hops:,} hops, {net.diameter_cycles:,} cycles of links",
            "mean distance": f"{net.mean_hops:.2f} hops",
            "bisection": f"{net.bisection_links:,} links, "
            f"{net.bisection_flits_per_cycle:.1f} flits per cycle",
            "deadlock": f"none: no cycle among {proof.dependencies:,} dependencies "
            f"of {proof.channels:,} channels",
        },
    )
    emit([shown, _dimensions(net)], net.describe(), as_json)


@app.command()
def routes(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Such as mesh:8x8.")],
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="LINK", help="A broken link, as '(1,1)+x'; repeatable."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Else printed.")
    ] = None,
) -> None:
    """Make a routing table: for each tile and destination the output, as CSV.

    In dimension order; around broken links, and in rings, up*/down* (no packet goes up again once
    it went down from tile 0). --router vc2-d4-table=FILE takes it, or what you make of it: a table
    by which packets could wait for each other in a circle is refused.
    """
    net = Topology.parse(text)
    broken = list(broken_links(net, without)) if without else []
    rings = any(dim.is_ring for dim in net.dims)
    table = write_table(up_down(net, broken) if broken or rings else dimension_order(net), net)
    if output is None:
        typer.echo(table, nl=False)
    else:
        write_atomic(output, table.encode())


def _dimensions(net: Topology) -> Table:
    """Each dimension with the links of its tier."""
    table = Table("shape", "size", "tier", "latency, cycles", "cycles per flit", "pJ per bit")
    for dim in net.dims:
        table.add_row(dim.shape, str(dim.size), *map(str, asdict(dim.tier).values()))
    return table
