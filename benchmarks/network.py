"""The routers of the fast simulator against BookSim2: latency and saturation over its curves, speed
at its configurations; and deadlock freedom, proved and run.

BookSim2's figures are in `benchmarks/data/booksim.json`, with their source. Its fastest hop takes
three cycles with speculation (VC and switch allocation, crossbar, link): here two stages and a link
of two. Loads are in flits/node/cycle, latencies in cycles.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenpath.hw.arch.params import PRESETS, Arch
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.routing import DeadlockError, check_deadlock_free
from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.arch.ways import check_ways
from tokenpath.sim.fast import traffic as k
from tokenpath.sim.traffic import Effort, Load, TrafficMachine, point, saturation
from tokenpath.sim.traffic_patterns import Pattern

from .common import in_parts, markdown

CURVES = json.loads((Path(__file__).parent / "data/booksim.json").read_text(encoding="utf-8"))
PATTERNS = {"hotspot4": "hotspot:27+28+35+36", "hotmix21": "hotspot:27+28+35+36@0.2105263"}
EFFORT = Effort(warmup=2000, batch=1000, most=4000)
SEED = 3


def like(topology: str, size: int, link: int, vcs: int, buffer: int) -> Arch:
    """An architecture whose hop takes BookSim2's 2 + ``link`` cycles, with its buffers."""
    latency = link + 1
    shape = {"mesh": "line", "torus": "ring"}[topology]
    dim = f"{shape}{size}@die(latency={latency},cpf=1)"
    depth = max(1, buffer - 2 * (latency - 1))  # RouterParams.buffer_flits adds the loop
    router = RouterParams(kind="vc", vcs=vcs, depth=depth, local_depth=buffer, stages=2)
    return replace(PRESETS["edge"].on(f"{dim},{dim}"), router=router)


def _zero_load(curve: dict[str, Any], hops: float) -> tuple[float, float]:
    """Latencies without load by formula, ours and BookSim2's: ``hops`` routers, S flits.

    Ours: 1 into the router, 2 + link a hop, 3 from the last grant to the sink. BookSim2's:
    2 H + link (H - 1) + 3, as measured: its sink reads a flit a cycle later. A packet longer than
    a buffer waits for credits, whose loop is 3 + 2 link cycles here and a cycle more there.
    """
    link, tail = curve["link"], curve["packet"] - 1
    loop, long = 3 + 2 * link, curve["packet"] > curve["buffer"]
    ours = 1 + (2 + link) * (hops - 1) + 3 + tail + (max(0, loop - curve["buffer"]) if long else 0)
    theirs = 2 * hops + link * (hops - 1) + 3 + tail
    return ours, theirs + (max(0, loop + 1 - curve["buffer"]) if long else 0)


def _curve(curve: dict[str, Any]) -> list[object]:
    arch = like(curve["topology"], curve["k"], curve["link"], curve["vcs"], curve["buffer"])
    pattern = Pattern.parse(PATTERNS.get(curve["pattern"], curve["pattern"]), arch.topology)
    load = Load(pattern=pattern, rate=0.002, sizes={curve["packet"]: 1.0}, seed=SEED)
    zero = point(arch, load, Effort(batch=8000, most=8000))
    hops = zero.flit_hops / max(1, zero.packets) / curve["packet"]
    ours, theirs = _zero_load(curve, curve["zero_load"][1])
    shift, worst, at = theirs - ours, 0.0, 0.0
    steps = [p for p in curve["points"] if p[0] <= 0.7 * curve["saturation"]]
    for rate, latency in steps[:: max(1, len(steps) // 5)]:
        found = point(arch, replace(load, rate=rate), EFFORT).latency + shift
        if abs(found / latency - 1) > abs(worst):
            worst, at = found / latency - 1, rate
    knee = saturation(arch, load, zero.latency, replace(EFFORT, most=1000))
    over = point(arch, replace(load, rate=min(1.0, load.mean_flits)), replace(EFFORT, most=1000))
    return [
        curve["id"], f"{zero.latency:.2f}", f"{curve['zero_load'][0]:.2f}", f"{shift:+.0f}",
        f"{100 * worst:+.1f} % at {at:g}", f"{knee:.3f}", f"{curve['saturation']:.3f}",
        f"{knee - curve['saturation']:+.3f}", f"{over.accepted:.3f}",
        "-" if curve["overload"] is None else f"{curve['overload']:.3f}", f"{hops:.2f}",
    ]  # fmt: skip


def curves() -> str:
    """Latency and saturation: BookSim2's curves with speculation, on the closest configuration"""
    rows = []
    for curve in CURVES["curves"]:
        rows.append(_curve(curve))
        print(*rows[-1], flush=True)
    head = ["curve", "zero load", "BookSim2", "stages", "worst latency to 70 %", "saturation",
            "BookSim2", "difference", "accepted at 1.0", "BookSim2", "measured hops"]  # fmt: skip
    deviations = [abs(float(str(row[4]).split()[0])) for row in rows]
    knees = [float(str(row[7])) for row in rows]
    said = (
        f"Of {len(rows)} curves {sum(x <= 2 for x in deviations)} are within 2 % up to 70 % of "
        f"saturation, the worst is {max(deviations):.1f} %; {sum(x >= -0.015 for x in knees)} "
        f"saturate at most 0.015 below BookSim2, the worst by {min(knees):+.3f}.\n\n"
        "Zero load to the cycle: a hop takes the same three cycles (four on torus links of two); "
        "BookSim2's sink reads a flit a cycle later, and its credits take a cycle longer, which a "
        'packet longer than a buffer feels. Column "stages" takes both out. What is left is mostly '
        "less waiting here: a head takes its VC and the crossbar in one allocation, where BookSim2 "
        "throws a speculative grant away when its VC allocation fails. Packets of 5 flits in "
        "buffers of 4 come out high; on the four such curves looked at, by up to 1.1 cycles, about "
        "the cycle of their credits that the correction adds at any load. torus-transpose with 5 "
        "flits in buffers of 8 (+3.9 % at its last load, near saturation) isn't explained.\n"
    )
    return markdown(head, rows) + "\n" + said


def _rate(topology: str, size: int, load: float) -> tuple[float, float]:
    """Router-cycles and flit-hops a second of user time."""
    arch = like(topology, size, 1, 4, 8)
    cycles = max(1000, min(1_000_000, int(400_000 / (size * size * load * size))))
    goes = Load(pattern=Pattern.parse("uniform", arch.topology), rate=load, seed=SEED)
    machine = TrafficMachine.synthetic(arch, goes, warmup=1000, batch=cycles // 10)
    start = time.process_time()
    machine.run_until(machine.measure_until)
    seconds = time.process_time() - start
    return arch.tiles * machine.measure_until / seconds, machine.measured().flit_hops / seconds


def speed() -> str:
    """4 VCs of 8 flits, packets of 1 flit, uniform; user time, the least of nine runs in turn"""
    gates = {(8, 0.001): 50, (8, 0.1): 20, (8, 0.3): 20, (16, 0.1): 40, (32, 0.1): 150}
    rows, cases = [], [one for one in CURVES["speed"] if one["topo"] in ("mesh", "torus")]
    rounds = [[_rate(one["topo"], one["k"], one["rate"]) for one in cases] for _ in range(10)]
    for theirs, found in zip(cases, zip(*rounds[1:], strict=True), strict=True):
        size, load = theirs["k"], theirs["rate"]
        ours, hops = max(found)
        gate = gates.get((size, load)) if theirs["topo"] == "mesh" else None
        rows.append([
            f"{theirs['topo']} {size}x{size}", load, f"{ours / 1e6:,.2f} M",
            f"{theirs['rc_per_s'] / 1e6:.2f} M", f"{ours / theirs['rc_per_s']:.0f}",
            "" if gate is None else f">= {gate}", f"{hops / 1e6:.1f} M", f"{1e9 / hops:.0f}",
        ])  # fmt: skip
        print(*rows[-1], flush=True)
    head = ["network", "load", "router-cycles/s", "BookSim2", "ratio", "gate", "flit-hops/s",
            "ns a flit-hop"]  # fmt: skip
    return markdown(head, rows) + (
        "\nA flit-hop costs about the same on every size, so the ratio to BookSim2, whose hops get "
        "dearer, is that of one hop: some 300 instructions at three a cycle, a third for arrivals "
        "and credits, a third for requests, a third for grants. Tried, in ns a flit-hop (16x16 and "
        "32x32 at 0.1; pairs of runs by turns, the least of nine): requests of all routers before "
        "the first grant, flits with their due cycles in rings (55 and 54); blocks of 16 nodes, "
        "everything that leaves in queues, a buffer's row and first slots in one line (47 and 52); "
        "rows of arrivals fetched ahead (-3 and -6); the place behind an arbiter's pointer without "
        "a branch (-4); what leaves in a cycle as one batch of 8 bytes a flit (-4.5 and -6); two "
        "dimensions of a route unrolled (-0.6 and -3); credits in the row of the output (-1); "
        "flits counted, not their way in and out (-1 to -2); the least key of an output, its queue "
        "and its stride in its own row (-0.5 to -2): 36 and 37. No gain from huge pages, "
        "fetching the rows of outputs, blocks of 32 or 64 nodes, one mask for credits and owners "
        "written at once, or LLVM without branches for conditional moves; a loss of 2 from a "
        "port's VC picked by the least key, and from a single loop over the bits of a block; of "
        "2.5 from what arrives in lists of a block, used while its rows are in the first cache; "
        "of 7 from a block's valid requests gathered first, without branches. The constants of the "
        "router as literals: -3, for 8 s of compiling each router. A guess at the rest: with "
        "neighbour traffic at full load, the same in each cycle, a hop takes less (some 20 ns, if "
        "a packet costs 70 to make), so wrongly guessed branches may cost much; this machine can't "
        "count them, and the version without branches was slower.\n\nThe figure is the least of "
        "nine runs, all configurations in turn; BookSim2's are from its file, not from this run, "
        "so that favours ours. On the same day, with the machine shared, medians of three gave 41 "
        "and 37 at 16x16 and 87 and 102 at 32x32 (0.1), the least of nine in a row 33 and 122: the "
        "gate at 16x16 is reached on a quiet machine only.\n"
    )


def _wrong_dateline(topology: Topology) -> Callable[[int, int], tuple[int, int]]:
    """Routing that never changes the virtual channel behind the wrap link."""
    return lambda node, to: (topology.next_hop(node, to)[0], 0)


def _drains(arch: Arch, cycles: int, spoilt: bool = False) -> tuple[int, int]:
    """(packets made, packets delivered) of a run far past saturation that then drains."""
    load = Load(
        pattern=Pattern.parse("uniform", arch.topology), rate=0.9, sizes={4: 1.0}, seed=SEED
    )
    machine = TrafficMachine.synthetic(arch, load, warmup=0, batch=cycles // 10)
    if spoilt:
        routes = machine.network.routes
        routes[:] = [route and route >> 8 << 8 | 1 for route in routes]
    machine.run_until(100 * cycles)
    settings = machine.sources.settings
    return int(settings[k.MADE_N]), int(settings[k.DELIVERED_N])


def deadlock(cycles: int = 10_000_000) -> str:
    """Proofs of the presets, a long run past saturation, and a wrong dateline"""
    rows = []
    for name, preset in PRESETS.items():
        start = time.perf_counter()
        proof = check_deadlock_free(preset.topology)
        ms = 1e3 * (time.perf_counter() - start)
        rows.append([f"{name}: {preset.topology}", f"proved, {proof.pairs:,} pairs, {ms:.1f} ms"])
    torus = Topology.parse("torus:6x3")
    try:
        check_deadlock_free(torus, _wrong_dateline(torus))
        rows.append(["torus:6x3, wrong dateline", "NOT refused"])
    except DeadlockError as error:
        rows.append(["torus:6x3, wrong dateline", f"refused: {error}"])
    arch = replace(PRESETS["tiny"].on("torus:6x3"), router=RouterParams(depth=2))
    made, delivered = _drains(arch, 20_000, spoilt=True)
    rows.append(["the same, run", f"stops: {delivered:,} of {made:,} packets delivered"])
    made, delivered = _drains(arch, cycles)
    rows.append([
        f"torus:6x3, {cycles:,} cycles at 0.9",
        f"drains: {delivered:,} of {made:,} packets delivered",
    ])  # fmt: skip
    return markdown(["what", "found"], [*rows, *_routings(cycles // 10)])


ROUTINGS = (
    ("vc4-d4", "torus:6x6"), ("vc4-d4-ordered", "torus:6x6"), ("vc4-d4-o1turn", "mesh:8x8"),
    ("vc1-d4-west_first", "mesh:8x8"), ("vc2-d4-odd_even", "mesh:8x8"),
    ("vc2-d8-cut_through", "torus:6x6"), ("vc1-d8-bubble", "torus:6x6"),
)  # fmt: skip


def _routings(cycles: int) -> Iterator[list[str]]:
    """Every routing function and switching: its proof, and a run that drains."""
    for text, topology in ROUTINGS:
        arch = replace(Arch.load("tiny").on(topology), max_packet_words=6).on(router=text)
        name, start = f"{text} on {topology}", time.perf_counter()
        if arch.router.switching != "bubble":  # whose rings are cycles of channels
            proof = check_ways(arch.router, arch.topology)
            ms = 1e3 * (time.perf_counter() - start)
            what = f"{proof.channels:,} channels, {proof.dependencies:,} dependencies"
            yield [name, f"proved, {what}, {ms:.0f} ms"]
        made, delivered = _drains(arch, cycles)
        drains = f"drains: {delivered:,} of {made:,} packets delivered"
        yield [f"{name}, {cycles:,} cycles at 0.9", drains]


PARTS: dict[str, Callable[[], str]] = {"curves": curves, "speed": speed, "deadlock": deadlock}


def measure(options: Sequence[str] = ()) -> str:
    """The parts as Markdown; those that are not measured again as the results have them."""
    return in_parts("network", PARTS, options)
