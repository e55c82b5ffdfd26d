"""``tokenpath traffic``: latency against load of an architecture's routers."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tokenpath.commands import new_app
from tokenpath.commands.options import ArchName, RouterText, TopologyText
from tokenpath.console import AsJson, emit, progress
from tokenpath.hw.arch.errors import InputError

if TYPE_CHECKING:
    from tokenpath.hw.arch.params import Arch
    from tokenpath.sim.traffic import Measured

app = new_app()

PatternText = Annotated[
    str,
    typer.Option(
        "--pattern",
        "-p",
        help="uniform, transpose, bitcomp, neighbor, tornado or hotspot:27+28@0.2.",
    ),
]
Loads = Annotated[
    str | None,
    typer.Option(
        "--loads",
        "-l",
        metavar="L,L,...|FROM:TO:STEP",
        help="Flits a node and cycle; else twelve up to saturation.",
    ),
]
Packets = Annotated[
    str, typer.Option("--packets", metavar="FLITS[:WEIGHT],...", help="Lengths of packets.")
]
Seed = Annotated[int, typer.Option("--seed", help="Of the random sources.")]
Recorded = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE.csv",
        help="Packets of a file (cycle,source,destination,flits) instead of a pattern.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE.svg|.png|.pdf", help="Draw the curve (extra 'plot')."),
]


@app.command()
def traffic(
    arch: ArchName = "server",
    topology: TopologyText = None,
    pattern: PatternText = "uniform",
    loads: Loads = None,
    packets: Packets = "1",
    router: RouterText = None,
    seed: Seed = 1,
    trace: Recorded = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Latency against load: synthetic traffic on the routers of an architecture.

    Loads are in flits a node and cycle, latencies in cycles from the making of a packet until its
    last flit is delivered. A point is measured longer until its 95 % confidence interval is within
    1 %; where the network doesn't keep up there is no latency to tell.
    """
    from tokenpath.hw.arch.params import Arch
    from tokenpath.sim.traffic import Load, point, saturation, zero_load
    from tokenpath.sim.traffic_patterns import Pattern

    machine = Arch.load(arch).on(topology, router)
    if trace is not None:
        if loads is not None or plot is not None:
            option = "--plot" if loads is None else "--loads"
            raise InputError(f"a trace has its own load and no curve; leave {option} out")
        emit(*_replayed(machine, trace), as_json)
        return
    load = Load(
        pattern=Pattern.parse(pattern, machine.topology),
        rate=0.01,
        sizes=_sizes(packets),
        seed=seed,
    )
    if plot is not None:
        _check_plot(plot)
    chosen_loads = _loads(loads) if loads else None
    with progress("saturation", total=None):
        knee = saturation(machine, load, zero_load(machine, load))
    if chosen_loads is None:
        chosen_loads = [round(knee * part / 10, 4) for part in range(1, 13)]
        chosen_loads = [rate for rate in chosen_loads if rate <= load.mean_flits]
    points: list[Measured] = []
    with progress("loads", total=len(chosen_loads)) as advance:
        for rate in chosen_loads:
            points.append(point(machine, replace(load, rate=rate)))
            advance(1)
    if plot is not None:
        _draw(plot, points, f"{machine.topology}, {pattern}")
    payload = {
        "topology": str(machine.topology), "router": str(machine.router), "pattern": pattern,
        "packets": packets, "seed": seed, "saturation": knee,
        "points": [_row(found) for found in points],
    }  # fmt: skip
    emit(_table(machine, pattern, knee, points), payload, as_json)


def _replayed(machine: "Arch", trace: Path) -> tuple[Any, dict[str, Any]]:
    """What a recorded trace takes: for people, and as JSON."""
    from tokenpath.console import facts
    from tokenpath.sim.traffic import replay
    from tokenpath.sim.traffic_trace import Trace

    found, last = replay(machine, Trace.read(trace))
    payload = {
        "topology": str(machine.topology), "router": str(machine.router), "trace": trace,
        "packets": found.packets, "latency": found.latency, "longest": found.longest,
        "last_delivery": last, "flit_hops": found.flit_hops,
    }  # fmt: skip
    rows = {
        "packets": found.packets, "mean latency": f"{found.latency:.2f}",
        "longest latency": found.longest, "last delivery in cycle": last,
        "flit-hops": found.flit_hops,
    }  # fmt: skip
    return facts(f"{trace} on {machine.topology}, router {machine.router}", rows), payload


def _row(found: "Measured") -> dict[str, Any]:
    """A point in JSON: no latency where the network doesn't keep up."""
    row = asdict(found)
    if not found.stable:
        row |= {"latency": None, "interval": None}
    return {**row, "stable": found.stable}


def _table(machine: Any, pattern: str, knee: float, points: "list[Measured]") -> Any:
    from rich.table import Table

    from tokenpath.hw.arch.deflection import most_cycles

    bound = ""
    if machine.router.kind == "deflection":
        bound = f"; no flit stays longer than {most_cycles(machine.topology):,} cycles"
    table = Table(
        title=f"{pattern} on {machine.topology}, router {machine.router}: saturation at {knee:g} "
        f"flits a node and cycle{bound}",
        title_justify="left",
    )
    for name in ("offered", "accepted", "latency", "+-", "longest", "packets"):
        table.add_column(name, justify="right")
    for found in points:
        latency = (f"{found.latency:.2f}", f"{found.interval:.2f}") if found.stable else ("-", "-")
        table.add_row(
            f"{found.offered:.4f}", f"{found.accepted:.4f}", *latency, f"{found.longest:,}",
            f"{found.packets:,}",
        )  # fmt: skip
    return table


def _loads(text: str) -> list[float]:
    """Numbers of ``a,b,c`` or ``from:to:step``. Raises InputError for others."""
    try:
        if ":" in text:
            low, high, step = (float(part) for part in text.split(":"))
            if step <= 0 or not 0 < low <= high or (high - low) / step > 1000:
                raise ValueError
            return [round(low + i * step, 9) for i in range(int((high - low) / step + 1e-9) + 1)]
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--loads {text!r}: give numbers as 0.1,0.2 or as 0.05:0.4:0.05") from None


def _sizes(text: str) -> dict[int, float]:
    """Packet lengths and weights of ``1:0.8,5:0.2``. Raises InputError for others."""
    try:
        pairs = [part.partition(":")[::2] for part in text.split(",")]
        sizes = {int(flits): float(weight or 1) for flits, weight in pairs}
    except ValueError:
        sizes = {}
    if not sizes or min(sizes) < 1 or max(sizes) > 1 << 16 or min(sizes.values()) <= 0:
        raise InputError(
            f"--packets {text!r}: give flits, or flits and weights, as 1 or 1:0.8,5:0.2"
        )
    return sizes


def _check_plot(path: Path) -> None:
    """Refuse before the work begins what would fail behind it."""
    from tokenpath.files import check_writable

    check_writable(path)
    if path.suffix not in (".svg", ".png", ".pdf"):
        raise InputError(f"--plot {path}: give a name that ends in .svg, .png or .pdf")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            "--plot needs matplotlib: give 'pip install matplotlib', or leave --plot out"
        ) from None


def _draw(path: Path, points: "list[Measured]", title: str) -> None:
    """The curve into a file, whole or not at all."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from tokenpath.files import replacing

    stable = [found for found in points if found.stable]
    figure, axes = pyplot.subplots()
    axes.errorbar(
        [found.offered for found in stable], [found.latency for found in stable],
        yerr=[found.interval for found in stable], marker="o",
    )  # fmt: skip
    axes.set(xlabel="offered load, flits/node/cycle", ylabel="mean latency, cycles", title=title)
    axes.set_ylim(bottom=0)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:])
