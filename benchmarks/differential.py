"""The hardware under Verilator against the fast simulator and the golden model, on random programs
shaped like real ones, on random small machines.

Equal to the bit: all of vector memory (logits and appended rows, which each program loads back,
among it), the arg max, clamped and wrapped words. Equal to the cycle: each step, the beats, flits
and waits of each tile. A case that fails prints the command that repeats it, cut to as few pieces
as still fail.
"""

import argparse
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenpath.hw.arch.isa import Op, PutOp
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Program
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.sim import golden
from tokenpath.sim.drawn import RACING, draw_arch, draw_router, random_program
from tokenpath.sim.fast import FastMachine
from tokenpath.sim.rtl import RtlMachine, first_difference
from tokenpath.sim.verilated import VerilatedMachine

from .common import markdown

CASES, ARCHES = 10_080, 28
TOPOLOGIES = (
    *("line:1", "ring:4", "flat:2", "mesh:2x2", "line:1", "full3@board(latency=5,cpf=3)"),
    *("line2@package(latency=7,cpf=2)", "torus:3x2", "line:1", "switch:4", "line:2", "ring:3"),
    *("line:1", "ring3@die(latency=2,cpf=1),switch2@board(latency=5,cpf=3)", "switch:2"),
    *("flat:4", "line:1", "line2@die,full2@package(latency=9,cpf=2)", "line:2"),
    *("ring3@die(latency=2,cpf=2)", "line:1", "mesh:3x2", "flat:3", "line:4", "line:1"),
    *("ring5@package(latency=3,cpf=2)", "flat:2", "flat:5"),
)
"""The topology of each machine in turn."""

FULLY_CHECKED = 8
"""One program of so many also passes the full check."""

EXECUTORS = ("verilator", "rtl")

COUNTED = ("beats_read", "starved_cycles", "injected_flits")
"""Counters that the fast simulator and the hardware have in common."""

CORNERS = (
    *(op.name for op in Op),
    *(f"PUT {op.name}" for op in PutOp),
    *("short stream", "long stream", "streams ahead", "stream of moving rows"),
    *("stream of appended rows", "append", "beats wrap around", "lanes starve"),
    *("all to one", "burst", "ring", "moving", "put over packets", "put to itself", "empty put"),
    *("put upon put", "back to back to one tile", "contention", "flits wrap around"),
    *(
        "a flit waits for a credit",
        "a STREAM waits for room",
        "busy link",
        "wait for several",
        "take",
        "release",
        "memory waits and posts",
    ),
    *("compute waits and posts", "network waits and posts", "clamped", "wrapped", RACING),
)
"""What the cases have to reach, each at least once."""


@dataclass(frozen=True)
class Case:
    """A program of a machine by its numbers; ``pieces`` cuts it, 0 doesn't."""

    seed: int
    arch: int
    program: int
    pieces: int = 0

    def __str__(self) -> str:
        return ":".join(map(str, (self.seed, self.arch, self.program, self.pieces)))

    def machine(self) -> Arch:
        """The machine, the same for all its programs; two have the same tile, which saves time."""
        tile = draw_arch(random.Random(f"{self.seed}:tile {self.arch // 2}"), 1)
        arch = tile.on(TOPOLOGIES[self.arch % len(TOPOLOGIES)], RouterParams(depth=1))
        rng = random.Random(f"{self.seed}:machine {self.arch}")
        return arch.on(router=draw_router(rng, arch, ordered=True))

    def draw(self, arch: Arch) -> tuple[Program, Counter[str], list[tuple[int, int]]]:
        """The program, its corners, and the (token, position) of two steps."""
        rng = random.Random(f"{self.seed}:{self.arch}:{self.program}")
        steps = [(rng.randrange(12), rng.randrange(6)) for _ in range(2)]
        pieces = rng.randint(4, 24) + 6 * arch.tiles
        program, corners = random_program(arch, rng, self.pieces or pieces)
        return program, corners, steps

    def pieces_of(self, arch: Arch) -> int:
        """Pieces of the whole program."""
        rng = random.Random(f"{self.seed}:{self.arch}:{self.program}")
        for _ in range(2):
            rng.randrange(12), rng.randrange(6)
        return rng.randint(4, 24) + 6 * arch.tiles


@dataclass
class Result:
    """``difference``: the first one found, "" for none; cycles of all steps; corners reached."""

    difference: str
    cycles: int
    corners: Counter[str]


def compare(case: Case, arch: Arch, executor: str) -> Result:
    """Run one case on the three executors."""
    program, corners, steps = case.draw(arch)
    program.check("full" if case.program % FULLY_CHECKED == 0 else "static", None)
    judge, fast, rtl = golden.Machine(program), FastMachine(program), _hardware(program, executor)
    cycles = 0
    for number, (token, position) in enumerate(steps):
        want, timed, real = (each.step(token, position) for each in (judge, fast, rtl))
        cycles += timed.cycles
        corners += _reached(fast, timed, real)
        if corners[RACING]:  # how often such sums wrap depends on their order
            want.overflows = timed.overflows
        found = _differences(program, (want, timed, real), (judge, fast, rtl))
        if difference := next(found, ""):
            if executor == "rtl":
                difference += f"; {first_difference(rtl, fast)}"
            return Result(f"step {number}: {difference}", cycles, corners)
    return Result("", cycles, corners)


_reusable: list[RtlMachine] = []
"""The last machine in Amaranth's simulator, which takes many seconds to make."""


def _hardware(program: Program, executor: str) -> Any:
    if executor == "verilator":
        return VerilatedMachine(program)
    if _reusable and _reusable[0].program.arch == program.arch:
        _reusable[0].load(program)
    else:
        _reusable[:] = [RtlMachine(program, trace=True)]
    return _reusable[0]


def _differences(program: Program, steps: Sequence[Any], machines: Sequence[Any]) -> Iterator[str]:
    """What differs between (golden, fast, RTL) behind a step."""
    _, timed, real = steps
    judge, fast, rtl = machines
    if timed.cycles != real.cycles:
        yield f"{real.cycles} cycles in hardware, {timed.cycles} in fast"
    for name in ("best", "saturations", "overflows"):
        values = [getattr(step, name) for step in steps]
        if len(set(values)) > 1:
            yield f"{name} is {values[0]} in golden, {values[1]} in fast, {values[2]} in hardware"
    for name in COUNTED:
        pair = [step.counters[name].tolist() for step in (timed, real)]
        if pair[0] != pair[1]:
            yield f"{name} are {pair[0]} in fast, {pair[1]} in hardware"
    for tile in range(program.tiles):
        words = judge.tiles[tile].vector
        for name, others in (("fast", fast.values.vector[tile]), ("hardware", rtl.words(tile))):
            wrong = np.flatnonzero(others != words)
            if len(wrong):
                at = int(wrong[0])
                yield (
                    f"{len(wrong)} words of tile {tile} differ, word {at} is {words[at]} in golden "
                    f"and {others[at]} in {name}"
                )


def _reached(fast: FastMachine, step: Any, real: Any) -> Counter[str]:
    """Corners that show only when a program runs, by the counters of fast and of the hardware."""
    arch, counters = fast.program.arch, step.counters
    flits = list(zip(arch.topology.links, counters["link_flits"].tolist(), strict=True))
    return Counter(
        {
            "lanes starve": int((counters["starved_cycles"] > 0).sum()),
            "beats wrap around": int((counters["beats_read"] > arch.stream_depth).sum()),
            "flits wrap around": sum(
                count > arch.router.buffer_flits(link.tier) for link, count in flits
            ),
            "busy link": sum(count > 1 and link.tier.cycles_per_flit > 1 for link, count in flits),
            "contention": int(step.network.get("contention", 0) > 0),
            "a flit waits for a credit": int((real.counters["blocked_cycles"] > 0).sum()),
            "a STREAM waits for room": int((real.counters["full_cycles"] > 0).sum()),
            "clamped": int(step.saturations > 0),
            "wrapped": int(step.overflows > 0),
        }
    )


def shrink(case: Case, arch: Arch, executor: str) -> Case:
    """The same program with as few pieces as still fail."""
    for pieces in range(1, case.pieces_of(arch)):
        cut = Case(case.seed, case.arch, case.program, pieces)
        if _attempt(cut, arch, executor).difference:
            return cut
    return case


def _attempt(case: Case, arch: Arch, executor: str) -> Result:
    """A case; an executor that gives up is a difference, too."""
    try:
        return compare(case, arch, executor)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return Result(f"{type(error).__name__}: {error}", 0, Counter())


@dataclass
class Campaign:
    """What a number of cases have shown."""

    cases: int = 0
    cycles: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.corners: Counter[str] = Counter()
        self.failures: list[str] = []
        self.machines: list[list[object]] = []

    def run(self, seed: int, cases: int, arches: Sequence[int], executor: str) -> "Campaign":
        """Run ``cases`` cases, as many on each of the machines."""
        start = time.process_time()
        for turn, number in enumerate(arches):
            share = cases // len(arches) + (turn < cases % len(arches))
            self._machine(seed, number, share, executor)
        self.seconds = time.process_time() - start
        return self

    def _machine(self, seed: int, number: int, share: int, executor: str) -> None:
        arch, failed = Case(seed, number, 0).machine(), len(self.failures)
        cycles = 0
        for index in range(share):
            case = Case(seed, number, index)
            result = _attempt(case, arch, executor)
            cycles += result.cycles
            self.corners += result.corners
            if result.difference:
                self._fail(case, arch, executor)
        self.cases += share
        self.cycles += cycles
        row = [number, arch.topology, f"{arch.lanes} x {arch.queries}", arch.vlanes]
        row += [arch.numeric.block, arch.router, arch.stream_depth, share, f"{cycles:,}"]
        self.machines.append([*row, len(self.failures) - failed])
        print(*self.machines[-1], file=sys.stderr, flush=True)

    def _fail(self, case: Case, arch: Arch, executor: str) -> None:
        cut = shrink(case, arch, executor) if len(self.failures) < 5 else case
        text = _attempt(cut, arch, executor).difference
        self.failures.append(f"python -m benchmarks differential --case {cut}: {text}")
        print(self.failures[-1], file=sys.stderr, flush=True)

    def missing(self) -> list[str]:
        """Corners that no case reached."""
        return [name for name in CORNERS if not self.corners[name]]

    def report(self) -> str:
        """The tables, as Markdown."""
        columns = ["machine", "topology", "lanes x queries", "vlanes", "block", "router"]
        columns += ["stream depth", "cases", "cycles", "different"]
        corners = [(name, f"{self.corners[name]:,}") for name in CORNERS]
        lines = [
            f"{self.cases:,} cases, {self.cycles:,} cycles of two steps each, "
            f"{len(self.failures)} different ({self.seconds / 60:.0f} CPU-minutes).\n",
            *(f"`{failure}`\n" for failure in self.failures),
            *(f"Not reached: {', '.join(self.missing())}.\n" for _ in self.missing()[:1]),
            markdown(columns, self.machines),
            markdown(["corner", "times reached"], corners),
        ]
        return "\n".join(lines)


def measure(options: Sequence[str] = ()) -> str | None:
    """Run all cases, or the one of ``--case``, of which nothing is recorded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks differential")
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--arches", type=int, default=ARCHES)
    parser.add_argument("--executor", choices=EXECUTORS, default="verilator")
    parser.add_argument("--case", help="SEED:MACHINE:PROGRAM[:PIECES], as a failure prints it")
    given = parser.parse_args(options)
    warnings.filterwarnings("ignore", module="amaranth")
    if given.case:
        case = Case(*map(int, given.case.split(":")))
        print(compare(case, case.machine(), given.executor).difference or "equal")
        return None
    campaign = Campaign().run(given.seed, given.cases, range(given.arches), given.executor)
    text = campaign.report()
    if campaign.failures or campaign.missing():
        print(text)
        raise SystemExit(1)
    return text if given.cases >= CASES else print(text)
