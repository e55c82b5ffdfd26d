"""Routers of a 5-port mesh on an ECP5-85F, speed 8 (docs/cost.md): LUT4, flip-flops and ns a hop,
beside those of other generators on the same flow; and what each choice of a router costs and gives.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from tokenpath.cost.flow import Area, Device, cache_folder, tool_versions
from tokenpath.cost.flow import measure as measure_unit
from tokenpath.cost.units import Sizes, build
from tokenpath.hw.arch.params import PRESETS, Arch
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.sim.traffic import ZERO_LOAD, Load, saturation, zero_load
from tokenpath.sim.traffic_patterns import Pattern

from .common import in_parts, markdown

ANCHORS = Path(__file__).with_name("data") / "routers.json"
SEEDS = range(1, 6)
PROBE = "probe"
"""Name of a sketch without packets (single flits, no lock): a mark, and no router to beat."""


@dataclass(frozen=True)
class Point:
    """A router of ours: its parameters, and the VCs and cycles a hop that they give."""

    flit_bits: int
    depth: int
    name: str = "wormhole"
    params: RouterParams = field(default_factory=RouterParams)
    vcs: int = 1
    cycles: int = 1


def _channels(vcs: int, bits: int, depth: int) -> Point:
    params = RouterParams(kind="vc", vcs=vcs)
    return Point(bits, depth, name=f"vc, {vcs} VC", params=params, vcs=vcs)


POINTS = (
    *(Point(bits, depth) for bits in (32, 64) for depth in (4, 8)),
    *(_channels(vcs, bits, depth) for vcs in (2, 4) for bits in (32, 64) for depth in (4, 8)),
)
CHOICES = (
    *("wormhole-d4", "deflection", "vc1-d4", "vc2-d4", "vc2-d4-s2", "vc2-d4-s3"),
    *("vc2-d4-islip2", "vc2-d4-wavefront", "vc2-d4-odd_even", "vc2-d4-cut_through", "vc4-d4"),
)
"""Routers whose flits have 32 bits; packets of up to 4 flits where a credit is for a whole one."""

REASONS = {
    "ff": "Ours keeps what decides a grant in registers: the way of each first flit, the owner of "
    "each channel, credits. Flip-flops stand idle beside the LUTs; the time of a hop is bought "
    "with them.",
    "gates": "Ours keeps a way beside each flit and has locks and credits for packets of many "
    "flits; buffers of other routers that are smaller in gates hold single flits.",
}
"""Column: why another router is better there, where one is."""


@dataclass(frozen=True)
class Row:
    """A line of a table; ``cycles`` a hop as text, where it depends on the turn."""

    name: str
    lut4: int
    ff: int
    mhz: float
    cycles: str
    gates: int
    levels: int

    @property
    def hop_ns(self) -> float:
        """Of the shortest way through."""
        return int(self.cycles.split()[0]) * 1000 / self.mhz

    @property
    def cells(self) -> list[str]:
        """As text."""
        return [
            self.name, f"{self.lut4:,}", f"{self.ff:,}", f"{self.mhz:.1f}", self.cycles,
            f"{self.hop_ns:.1f}", f"{self.gates:,}", str(self.levels),
        ]  # fmt: skip


NOTE = (
    f'All with their position constant. "{PROBE}" is a sketch: single flits, no packets, no '
    "credits; it isn't counted among the others. A difference below 15 % in LUT4 is within the "
    "noise of mapping, one below 5 % in MHz within that of the seeds. Aimed at were, with 32 bits, "
    "900 LUT4 at 140 MHz for 1 VC, 1,900 at 110 for 2, and 3,900 at 90 for 4."
)
VERDICTS = {"lut4": "LUT4", "hop_ns": "ns a hop", "ff": "Flip-flops", "gates": "Gates"}
COLUMNS = ["router", "LUT4", "flip-flops", "MHz", "cycles a hop", "ns a hop", "gates", "levels"]


def others() -> str:
    """Beside other generators: medians of five seeds of place and route, two to five for theirs"""
    parts = [_section(point) for point in POINTS]
    versions = ", ".join(f"{name} {number}" for name, number in tool_versions().items())
    tools = f"Tools: {versions}; the others' figures: {_anchors()['tools']}."
    reasons = "".join(f"- {VERDICTS[column]}: {text}\n" for column, text in REASONS.items())
    return "\n".join([*parts, f"### Notes\n\n{reasons}\n{NOTE}\n\n{tools}\n"])


def choices() -> str:
    """What each choice costs and gives: 32 bits, one seed; uniform traffic on mesh:8x8"""
    rows = []
    for text in CHOICES:
        arch = replace(PRESETS["tiny"].on("mesh:8x8"), max_packet_words=2).on(router=text)
        area, mhz = _cost(arch, 1, range(1, 2))
        load = Load(pattern=Pattern.parse("uniform", arch.topology), rate=ZERO_LOAD)
        latency = zero_load(arch, load)
        knee = saturation(arch, load, latency)
        rows.append([
            text, f"{area.lut4:,}", f"{area.ff:,}", f"{64 * area.dpram:,}", f"{mhz:.1f}",
            f"{area.gates:,}", area.gate_levels, f"{latency:.2f}", f"{knee:.3f}",
        ])  # fmt: skip
        print(*rows[-1], flush=True)
    head = ["router", "LUT4", "flip-flops", "memory bits", "MHz", "gates", "levels", "zero load",
            "saturation"]  # fmt: skip
    return markdown(head, rows) + (
        "\nLatency without load in cycles, saturation in flits/node/cycle, packets of one flit.\n"
    )


PARTS = {"others": others, "choices": choices}


def measure(options: Sequence[str] = ()) -> str:
    """The parts as Markdown; those that are not measured again as the results have them."""
    return in_parts("cost", PARTS, options)


def _section(point: Point) -> str:
    ours, others = _ours(point), list(_others(point))
    title = f"### {point.flit_bits} bits, {point.vcs} VC, depth {point.depth}\n\n"
    ranked = sorted([ours, *others], key=lambda row: row.lut4)
    table = markdown(COLUMNS, [row.cells for row in ranked])
    routers = [row for row in others if not row.name.startswith(PROBE)]
    return title + table + "\n" + "".join(_verdict(ours, routers))


def _ours(point: Point) -> Row:
    params = replace(point.params, depth=point.depth)
    arch = PRESETS["tiny"].on("mesh:8x8", params)
    area, mhz = _cost(arch, point.flit_bits // 32, SEEDS)
    row = Row(
        f"**Tokenpath {point.name}**", area.lut4, area.ff, mhz, str(point.cycles),
        area.gates, area.gate_levels,
    )  # fmt: skip
    print(point.flit_bits, point.depth, *row.cells, flush=True)
    return row


def _cost(arch: Arch, flit_words: int, seeds: Sequence[int]) -> tuple[Area, float]:
    """Of a router: area, and the median of its clocks in MHz."""
    unit = build("router", Sizes(arch=arch, flit_words=flit_words))
    cost = measure_unit(unit, device=Device(), seeds=seeds, cache=cache_folder())
    return cost.area, cost.mhz


def _others(point: Point) -> Iterator[Row]:
    for row in _anchors()["rows"]:
        if (row["flit_bits"], row["vcs"], row["depth"]) == (
            point.flit_bits, point.vcs, point.depth,
        ):  # fmt: skip
            yield Row(
                row["name"], row["lut4"], row["ff"], median(row["mhz"]), row["cycles"],
                row["gates"], row["gate_levels"],
            )  # fmt: skip


def _verdict(ours: Row, others: list[Row]) -> Iterator[str]:
    """Beside the best other router, column by column."""
    if not others:
        yield "No other router was measured at this point.\n"
        return
    for column, text in VERDICTS.items():
        best = min(others, key=lambda row: getattr(row, column))
        change = getattr(ours, column) / getattr(best, column) - 1
        line = f"{text}: {change:+.0%} against the best other router, {best.name}."
        if change >= 0:
            line += " Why: below." if column in REASONS else " The reason is not known yet."
        yield f"- {line}\n"


def _anchors() -> Any:
    return json.loads(ANCHORS.read_text(encoding="utf-8"))
