"""``tokenpath verilog``: the hardware as Verilog, with a description of it."""

from pathlib import Path
from typing import Annotated

import typer

from tokenpath.commands import new_app
from tokenpath.commands import options as o
from tokenpath.console import AsJson, emit, facts, progress

app = new_app()


@app.command()
def verilog(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to write into.")
    ],
    unit: Annotated[
        str, typer.Option("--unit", "-u", help="router, tile or array; it is the top module.")
    ] = "array",
    arch: o.ArchName = "edge",
    topology: o.TopologyText = None,
    router: o.RouterText = None,
    node: Annotated[
        int | None,
        typer.Option("--node", help="Whose router: a tile or a switch; else the middle tile's."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write into a folder that holds other files, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the Verilog that --executor verilator runs, with a description of its ports.

    The same machine gives the same bytes. DIR gets the Verilog, description.json (ports, clock,
    reset, parameters, files and their SHA-256) and waivers.vlt for verilator --lint-only -Wall.
    """
    import json

    from tokenpath import __version__
    from tokenpath.folders import check_folder, write_folder
    from tokenpath.hw.arch.params import Arch
    from tokenpath.hw.describe import DESCRIPTION, check_unit, unit_files

    machine = Arch.load(arch)
    machine = machine.on(topology, router)
    check_unit(machine, unit, node)
    check_folder(output, DESCRIPTION, force=force)
    with progress(f"Verilog of the {unit}"):
        files = unit_files(machine, unit, node=node, version=__version__)
    write_folder(output, files, DESCRIPTION, force=force)
    found = json.loads(files[DESCRIPTION])
    shown = facts(
        f"written to {output}",
        {
            "top module": found["top"],
            "ports": len(found["ports"]),
            "files": ", ".join(files),
            "lines of Verilog": sum(files[f["name"]].count("\n") for f in found["files"]),
            **({"router of": found["node"]["name"]} if unit == "router" else {}),
        },
    )
    emit([shown], {"directory": output, **found}, as_json)
