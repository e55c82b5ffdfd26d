"""Routers, switches and links under Verilator against the fast simulator: random and adversarial
packets on every microarchitecture and topology sampled.

Equal to the cycle: the delivery of every packet. Every flit arrives once, at its tile, with its
words, in the order of its packet, and not between the flits of another packet on its virtual
channel (VC). On every link no credit is missing or too many, no VC has two packets, no flit comes
while the link is busy, and all credits are home in the end. A case that fails prints the command
that repeats it, cut to as few packets as still fail.
"""

import argparse
import contextlib
import os
import random
import sys
import warnings
import zlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.timing import HEADER_WORDS, SINK_CYCLES
from tokenpath.sim.drawn.arches import draw_routes
from tokenpath.sim.drawn.packets import LONGEST, SHAPES, draw_packets
from tokenpath.sim.fast import columns as c
from tokenpath.sim.traffic import TrafficMachine
from tokenpath.sim.traffic_trace import Trace
from tokenpath.sim.verilated_network import CREDITLESS, FLIT_WORDS, VerilatedNetwork, Watched

from .common import markdown

CASES, MACHINES = 10_080, 63
ROUTERS = (
    *("wormhole-d1", "wormhole-d2-l5", "wormhole-d4", "wormhole-d16-l1"),
    *("vc1-d1-s2", "vc2-d1", "vc2-d3-s2", "vc3-d2", "vc4-d2-s2", "vc4-d4", "vc8-d1-s2"),
    *("vc2-d1-s3", "vc4-d2-s3-matrix", "vc2-d2-matrix", "vc8-d2-s3-wavefront"),
    *("vc2-d2-output_first", "vc4-d1-islip2-matrix", "vc3-d3-s2-islip3", "vc4-d2-s3-islip2"),
    *("vc4-d4-wavefront", "vc2-d1-s2-wavefront-matrix"),
    *("vc2-d2-o1turn", "vc4-d3-s3-islip2-o1turn", "vc8-d1-wavefront-o1turn"),
    *("vc2-d2-west_first", "vc4-d1-s3-matrix-west_first", "vc1-d3-output_first-west_first"),
    *("vc1-d1-odd_even", "vc4-d4-s2-wavefront-odd_even", "vc2-d2-s3-islip2-odd_even"),
    *("vc2-d4-ordered", "vc4-d1-s2-matrix-ordered", "vc8-d2-s3-wavefront-ordered"),
    *("vc2-d8-cut_through", "vc1-d8-s2-odd_even-cut_through", "vc4-d12-s3-islip2-cut_through"),
    *("vc1-d16-bubble", "vc3-d9-s3-wavefront-bubble", "vc4-d8-s2-matrix-bubble-ordered"),
    *("vc1-d2-table", "vc2-d1-s2-table", "vc4-d2-s3-wavefront-table", "vc2-d2-table-ordered"),
    *("vc3-d8-islip2-cut_through-table", "deflection"),
)
TOPOLOGIES = (
    *("mesh:3x3", "ring:5", "mesh:2x2", "torus:3x3", "flat:4", "mesh:4x1", "full2,line2"),
    *("torus:4x2", "mesh:3x2", "switch:4", "mesh:2x2x2", "ring4@package(latency=3,cpf=2)"),
    *(
        "line2@board(latency=7,cpf=3),full2@package(latency=2,cpf=2)",
        "line2@die,switch3@board(latency=5,cpf=3)",
    ),
    "ring:17",  # above 16 a route is computed, not looked up
)
SLACK = 300
"""Cycles that the hardware may take longer before it is given up."""

CORNERS = (
    *SHAPES,
    *("depth 1", "a packet longer than a buffer", f"a packet of {LONGEST} flits"),
    "a packet to its own tile",
    *("a packet is held up in the network", "a flit waits for a credit at its source"),
    *("a VC of a link has no credit", "packets hold all VCs of a link"),
    "packets take turns on a link",
)
"""What the cases have to reach, each at least once."""


def pairs() -> Iterator[tuple[str, str]]:
    """All (router, topology) that can be built: for every router one, then another, ..."""
    left = []
    for at, router in enumerate(ROUTERS):
        turned = TOPOLOGIES[7 * at % len(TOPOLOGIES) :] + TOPOLOGIES[: 7 * at % len(TOPOLOGIES)]
        left.append((router, deque(one for one in turned if _goes(router, one))))
    while any(topologies for _, topologies in left):
        for router, topologies in left:
            if topologies:
                yield router, topologies.popleft()


def _goes(router: str, topology: str) -> bool:
    with contextlib.suppress(InputError):  # VCs that can't be halved at a dateline, ...
        return bool(machine(router, topology))
    return False


def machine(router: str, topology: str) -> Arch:
    """An Arch with those, a table drawn by their names. Raises InputError where they don't go
    together."""
    arch, params = Arch.load("tiny").on(topology), RouterParams.parse(router.replace("-table", ""))
    if "-table" in router:
        routes = draw_routes(random.Random(f"{router}/{topology}"), arch.topology)
        params = replace(params, routing="table", routes=routes)
    longest = max(2, params.depth // 2) if params.whole_packets else LONGEST
    words = FLIT_WORDS * longest - HEADER_WORDS
    return replace(arch, router=params, flit_words=FLIT_WORDS, max_packet_words=words)


@dataclass(frozen=True)
class Case:
    """Packets by their numbers; ``packets`` takes the first ones only, 0 all."""

    seed: int
    router: str
    topology: str
    number: int
    packets: int = 0

    @classmethod
    def parse(cls, text: str) -> "Case":
        """What ``str`` makes of a case."""
        seed, router, topology, number, packets = text.split("/")
        return cls(int(seed), router, topology, int(number), int(packets))

    def __str__(self) -> str:
        return "/".join(
            map(str, (self.seed, self.router, self.topology, self.number, self.packets))
        )

    @property
    def shape(self) -> str:
        """A name of SHAPES, each in turn."""
        return list(SHAPES)[self.number % len(SHAPES)]

    def draw(self, arch: Arch) -> Trace:
        """The packets."""
        name = zlib.crc32(f"{self.router}/{self.topology}".encode())
        random = np.random.default_rng([self.seed, name, self.number])
        longest = 1 if arch.router.kind in CREDITLESS else arch.packet_flits
        trace = draw_packets(random, self.shape, arch.topology, longest)
        return Trace(rows=trace.rows[: self.packets or None])


class Bench:
    """The hardware of a machine, and what a packet takes on it alone."""

    def __init__(self, arch: Arch) -> None:
        self.arch, self.hardware = arch, VerilatedNetwork(arch)

    @cached_property
    def alone(self) -> Any:
        """Cycles of a single flit by (source, destination)."""
        tiles = self.arch.tiles
        pair, apart = np.arange(tiles * tiles), 10 * SLACK
        one = np.ones(len(pair), np.int64)
        trace = Trace(rows=np.stack([apart * pair, pair // tiles, pair % tiles, one], axis=1))
        taken = _fast(self.arch, trace) - trace.by_source(tiles)[0][:, 0]
        return taken[taken > 0].reshape(tiles, tiles)

    def compare(self, case: Case) -> "Result":
        """Run one case on both."""
        trace = case.draw(self.arch)
        fast = _fast(self.arch, trace)
        watched = self.hardware.run(trace, int(fast.max()) + SLACK + self.hardware.quiet)
        difference = next(_differences(fast, watched), "")
        corners = self._reached(trace, watched, fast) if not difference else Counter()
        return Result(difference, watched.cycles, watched.link_flits, corners)

    def _reached(self, trace: Trace, watched: Watched, fast: Any) -> Counter[str]:
        """Corners, by the packets and by what was seen on the links."""
        arch, sent, rows = self.arch, watched.sent, trace.rows
        source = np.searchsorted(trace.by_source(arch.tiles)[1], np.arange(len(fast)), "right") - 1
        single = sent.flits == 1
        late = fast[single] - watched.left[single] > self.alone[source, sent.to][single]
        return Counter(
            {
                "a packet longer than a buffer": int((rows[:, 3] > arch.router.depth).sum()),
                f"a packet of {LONGEST} flits": int((rows[:, 3] == LONGEST).sum()),
                "a packet to its own tile": int((rows[:, 1] == rows[:, 2]).sum()),
                "a packet is held up in the network": int(late.sum()),
                "a flit waits for a credit at its source": watched.waits,
                "a VC of a link has no credit": watched.no_credit,
                "packets hold all VCs of a link": watched.all_held,
                "packets take turns on a link": watched.woven,
            }
        )


def _fast(arch: Arch, trace: Trace) -> Any:
    """When each packet is delivered in the fast simulator, 0 for never."""
    run = TrafficMachine.recorded(arch, trace)
    run.run_until(c.LAST_CYCLE)
    return run.delivered()


@dataclass
class Result:
    """``difference``: the first one found, "" for none; cycles in hardware; flits over links."""

    difference: str
    cycles: int
    flits: int
    corners: Counter[str]


def _differences(fast: Any, watched: Watched) -> Iterator[str]:
    if watched.broken:
        yield watched.broken
        return
    sent = watched.sent
    real = sent.delivered(watched.arrivals) + SINK_CYCLES
    wrong = np.flatnonzero((sent.flits > 0) & (real != fast))
    if len(wrong):
        first = wrong[np.argmin(np.minimum(real, fast)[wrong])]
        yield (
            f"{len(wrong)} packets differ, packet {first} to tile {sent.to[first]} is delivered in "
            f"cycle {real[first]} in hardware, {fast[first]} in fast"
        )


def shrink(bench: Bench, case: Case) -> Case:
    """The same case with as few of its first packets as still fail."""
    for packets in range(1, len(case.draw(bench.arch).rows)):
        cut = replace(case, packets=packets)
        if bench.compare(cut).difference:
            return cut
    return case


class Campaign:
    """What a number of cases have shown."""

    def __init__(self) -> None:
        self.cases = self.cycles = self.flits = 0
        self.seconds = self.building = 0.0
        self.corners: Counter[str] = Counter()
        self.shapes: Counter[str] = Counter()
        self.failures: list[str] = []
        self.machines: list[list[object]] = []

    def run(self, seed: int, cases: int, chosen: Sequence[tuple[str, str]]) -> "Campaign":
        """Run ``cases`` cases, as many on each of the machines."""
        start = _seconds()
        for turn, (router, topology) in enumerate(chosen):
            share = cases // len(chosen) + (turn < cases % len(chosen))
            self._machine(seed, router, topology, share)
        self.seconds = _seconds() - start
        return self

    def _machine(self, seed: int, router: str, topology: str, share: int) -> None:
        start, failed = _seconds(), len(self.failures)
        bench = Bench(machine(router, topology))
        self.building += _seconds() - start
        cycles = flits = 0
        for number in range(share):
            case = Case(seed, router, topology, number)
            result = bench.compare(case)
            cycles, flits = cycles + result.cycles, flits + result.flits
            self.corners += result.corners
            self.corners[case.shape] += 1
            self.corners["depth 1"] += bench.arch.router.depth == 1
            if result.difference:
                self._fail(bench, case)
        self.cases, self.cycles, self.flits = (
            self.cases + share, self.cycles + cycles, self.flits + flits,
        )  # fmt: skip
        row = [router, topology, share, f"{cycles:,}", f"{flits:,}", len(self.failures) - failed]
        self.machines.append(row)
        print(*row, file=sys.stderr, flush=True)

    def _fail(self, bench: Bench, case: Case) -> None:
        cut = shrink(bench, case) if len(self.failures) < 5 else case
        text = bench.compare(cut).difference
        self.failures.append(f"python -m benchmarks network_differential --case '{cut}': {text}")
        print(self.failures[-1], file=sys.stderr, flush=True)

    def missing(self) -> list[str]:
        """Corners that no case reached."""
        return [name for name in CORNERS if not self.corners[name]]

    def report(self) -> str:
        """The tables, as Markdown."""
        columns = ["router", "topology", "cases", "cycles", "flits over links", "different"]
        corners = [(name, f"{self.corners[name]:,}") for name in CORNERS]
        lines = [
            f"{self.cases:,} cases on {len(self.machines)} machines, {self.cycles:,} cycles in "
            f"hardware, {self.flits:,} flits over links, {len(self.failures)} cases different "
            f"({self.seconds / 60:.0f} CPU-minutes, {self.building / 60:.0f} of them building).\n",
            *(f"`{failure}`\n" for failure in self.failures),
            *(f"Not reached: {', '.join(self.missing())}.\n" for _ in self.missing()[:1]),
            markdown(columns, self.machines),
            markdown(["corner", "times reached"], corners),
        ]
        return "\n".join(lines)


def _seconds() -> float:
    """CPU time of this process and of the compilers that it ran."""
    return sum(os.times()[:4])


def measure(options: Sequence[str] = ()) -> str | None:
    """Run all cases, or the one of ``--case``, of which nothing is recorded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks network_differential")
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--machines", type=int, default=MACHINES)
    parser.add_argument("--case", help="SEED/ROUTER/TOPOLOGY/NUMBER/PACKETS, as a failure says")
    given = parser.parse_args(options)
    warnings.filterwarnings("ignore", module="amaranth")
    if given.case:
        case = Case.parse(given.case)
        bench = Bench(machine(case.router, case.topology))
        print(bench.compare(case).difference or "equal")
        return None
    campaign = Campaign().run(given.seed, given.cases, list(islice(pairs(), given.machines)))
    text = campaign.report()
    if campaign.failures or campaign.missing():
        print(text)
        raise SystemExit(1)
    return text if given.cases >= CASES else print(text)
