"""``tokenpath arch``: the tile and its presets."""

from typing import Annotated, Any

import typer

from tokenpath.commands import new_app
from tokenpath.console import AsJson, emit, facts
from tokenpath.hw.arch.params import PRESETS, Arch

app = new_app()


@app.callback()
def arch() -> None:
    """Machines: the presets, and what a file of parameters gives.

    A file is TOML with the fields to change: preset = "edge", lanes = 64, [numeric] block = 32.
    """


def _derived(machine: Arch) -> dict[str, Any]:
    peak = machine.tiles * machine.lanes * machine.queries * machine.clock_hz
    return {
        "fingerprint": machine.fingerprint,
        "tiles": machine.tiles,
        "store_bytes": machine.store_bytes,
        "beat_bits": machine.beat_bits,
        "peak_macs_per_s": peak,
        "port_bytes_per_s": machine.beat_bits * machine.clock_hz // 8,
        "link_bits": 32 * machine.flit_words,
    }


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="PRESET|FILE.toml", help="Such as edge.")] = "edge",
    as_json: AsJson = False,
) -> None:
    """Show every parameter of a machine and what follows from them."""
    machine = Arch.load(name)
    values = machine.as_dict()
    flat: dict[str, object] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{k}": v for k, v in value.items()}
        else:
            flat[key] = value
    if lines := machine.router.routes.count("\n"):
        flat["router.routes"] = f"a table of {lines:,} lines"
    emit(
        [facts(machine.name, flat), facts("follows", _derived(machine))],
        values | _derived(machine),
        as_json,
    )


@app.command()
def presets(as_json: AsJson = False) -> None:
    """List the presets."""
    from rich.table import Table

    table = Table(
        "preset", "topology", "lanes", "queries", "vector lanes", "store", "flit", "block"
    )
    for name, machine in PRESETS.items():
        table.add_row(
            name,
            str(machine.topology),
            str(machine.lanes),
            str(machine.queries),
            str(machine.vlanes),
            f"{machine.store_bytes / 2**20:,.2f} MiB",
            f"{32 * machine.flit_words} bits",
            str(machine.numeric.block),
        )
    emit(table, {name: m.as_dict() | _derived(m) for name, m in PRESETS.items()}, as_json)
