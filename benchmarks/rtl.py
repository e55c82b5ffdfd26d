"""The hardware itself on whole models: Amaranth's simulator and Verilator against the fast
simulator, every logit and every token's cycles.

Each part stops at the first difference. `python -m benchmarks rtl --parts glassllm,smollm2`
measures those again and keeps the rest.
"""

import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Program
from tokenpath.sim.fast import FastMachine
from tokenpath.sim.rtl import RtlMachine
from tokenpath.sim.run import Machine, Run, drive
from tokenpath.sim.verilated import VerilatedMachine
from tokenpath.sim.verilated_build import build
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import plan
from tokenpath.sw.model import ModelSpec, load

from .common import in_parts, markdown
from .topologies import TOPOLOGIES

TINY = "mesh:2x2"
SMOLLM2 = ("server", "mesh:4x4")
DRAWN = 4
"""Sums and products in Amaranth's simulator, of the 200."""


class Difference(Exception):
    """The hardware did something else than the fast simulator."""


@dataclass
class Pair:
    """A machine of hardware beside the fast simulator, on one program."""

    hardware: Machine
    fast: Machine
    cycles: int = 0
    tokens: int = 0
    cpu_s: float = 0

    def drive(
        self, prompt: list[int], tokens: int, stop: Sequence[int] = (), first: int = 0
    ) -> Run:
        """Both from ``first`` on; returns the run when all steps are equal."""
        runs = []
        for machine in (self.hardware, self.fast):
            start = time.process_time()
            run = Run(executor="", arch_fingerprint="", prompt=prompt)
            runs.append(drive(machine, run, tokens, stop=stop, first=first))
            self.cpu_s += (time.process_time() - start) * (machine is self.hardware)
        ours, theirs = runs
        for mine, wanted in zip(ours.steps, theirs.steps, strict=True):
            for name in ("logits", "best", "cycles", "saturations", "overflows"):
                got, want = getattr(mine, name), getattr(wanted, name)
                if not np.array_equal(got, want):
                    raise Difference(f"position {mine.position}, {name}: {got} and fast {want}")
        self.cycles += sum(step.cycles for step in ours.steps)
        self.tokens += len(ours.steps)
        return ours

    def row(self) -> list[object]:
        """Steps, cycles, CPU seconds and cycles a CPU second."""
        speed = self.cycles / self.cpu_s
        return [self.tokens, f"{self.cycles:,}", f"{self.cpu_s:,.1f}", f"{speed:,.0f}"]


COLUMNS = ("steps", "cycles", "CPU s", "cycles a CPU s")


def program_of(spec: ModelSpec, arch: str, topology: str, **options: Any) -> Program:
    """The model's program on a preset."""
    return lower(plan(spec.shape, Arch.load(arch).on(topology), **options), spec)


def problems() -> list[tuple[str, str, str]]:
    """(model, prompt, answer) of the sums and products of two digits."""
    digits = [(a, b) for a in range(10) for b in range(10)]
    return [
        *(("mathformer-add", f"{a}+{b}=", str(a + b)) for a, b in digits),
        *(("mathformer-mul", f"{a}*{b}=", str(a * b)) for a, b in digits),
    ]


def _solve(
    make: Callable[[Program], Machine], chosen: Iterable[tuple[str, str, str]]
) -> tuple[int, list[Pair]]:
    """Solve each problem on a mesh of 2x2 tiny tiles, one machine a model."""
    pairs: dict[str, Pair] = {}
    specs: dict[str, ModelSpec] = {}
    count = 0
    for name, prompt, answer in chosen:
        if name not in pairs:
            specs[name] = load(name)
            program = program_of(specs[name], "tiny", TINY)
            pairs[name] = Pair(make(program), FastMachine(program))
        spec = specs[name]
        run = pairs[name].drive(spec.encode_prompt(prompt), 4, stop=spec.shape.eos)
        assert spec.tokenizer
        text = spec.tokenizer.decode([token for token in run.tokens if token not in spec.shape.eos])
        if text != answer:
            raise Difference(f"{prompt}{text} should be {answer}")
        count += 1
    return count, list(pairs.values())


def _solved(executor: str, make: Callable[[Program], Machine], chosen: Any) -> str:
    count, pairs = _solve(make, chosen)
    whole = Pair(
        pairs[0].hardware, pairs[0].fast, *(sum(getattr(p, n) for p in pairs) for n in _SUMS)
    )
    row = [executor, f"{count} of 200", *whole.row()]
    return markdown(["executor", "sums and products, all right", *COLUMNS], [row])


_SUMS = ("cycles", "tokens", "cpu_s")


def amaranth() -> str:
    """mathformer on mesh:2x2 of tiny tiles in Amaranth's simulator, drawn sums and products"""
    rng = random.Random(3)
    sums, products = problems()[:100], problems()[100:]
    chosen = [*rng.sample(sums, DRAWN // 2), *rng.sample(products, DRAWN - DRAWN // 2)]
    names = ", ".join(prompt + answer for _, prompt, answer in chosen)
    return _solved("rtl", RtlMachine, chosen) + f"\nDrawn: {names}.\n"


def verilator() -> str:
    """The same under Verilator, all 200"""
    return _solved("verilator", VerilatedMachine, problems())


def glassllm() -> str:
    """glassllm on 16 edge tiles under Verilator, 32 tokens"""
    spec, rows = load("glassllm"), []
    for topology in TOPOLOGIES:
        program = program_of(spec, "edge", topology)
        pair = Pair(VerilatedMachine(program), FastMachine(program))
        run = pair.drive(spec.encode_prompt("Alice was beginning to"), 32)
        rows.append([topology, *pair.row(), run.logits_sha256()[:16]])
    hashes = {row[-1] for row in rows}
    if len(hashes) != 1:
        raise Difference(f"logits differ between topologies: {rows}")
    return markdown(["topology", *COLUMNS, "logits sha256"], rows)


def smollm2(tokens: int = 1) -> str:
    """SmolLM2-135M on 16 server tiles under Verilator, a whole token"""
    spec = load("smollm2")
    program = program_of(spec, *SMOLLM2, context=512)
    start = time.process_time()
    hardware = VerilatedMachine(program)
    loaded = time.process_time() - start
    pair = Pair(hardware, FastMachine(program))
    pair.drive(spec.encode_prompt("Once")[:1], tokens)
    row = [SMOLLM2[1], *pair.row()]
    return markdown(["topology", *COLUMNS], [row]) + f"\nLoading the weights: {loaded:.0f} CPU s.\n"


def speed() -> str:
    """Verilator beside Amaranth's simulator, the same token of mathformer, in turn"""
    program = program_of(load("mathformer-add"), "tiny", TINY)
    fast = FastMachine(program)
    slow, quick = Pair(RtlMachine(program), fast), Pair(VerilatedMachine(program), fast)
    quick.drive([11], 1)
    quick.cycles = quick.tokens = 0
    quick.cpu_s = 0
    slow.drive([11], 1)
    for _ in range(20):
        quick.drive([11], 1)
    ratio = quick.cycles / quick.cpu_s * slow.cpu_s / slow.cycles
    rows = [
        ["rtl", *slow.row()],
        ["verilator", *quick.row()],
        ["ratio", "", "", "", f"{ratio:,.0f}"],
    ]
    return markdown(["executor", *COLUMNS], rows)


def builds() -> str:
    """CPU seconds to build Verilator's libraries, from an empty cache on"""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for preset, topology in (("tiny", TINY), ("edge", "mesh:4x4"), ("edge", "torus:4x4")):
            start = _cpu_s()
            build(Arch.load(preset).on(topology), Path(folder))
            rows.append([preset, topology, f"{_cpu_s() - start:.0f}"])
    return (
        markdown(["preset", "topology", "CPU s"], rows)
        + "\nThe last one has only its router anew.\n"
    )


def _cpu_s() -> float:
    """Of this process and its children."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(each)[:2]) for each in who)


PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part for part in (amaranth, verilator, glassllm, smollm2, speed, builds)
}


def measure(options: Sequence[str] = ()) -> str:
    """The parts as Markdown; those that are not measured again as the results have them."""
    return in_parts("rtl", PARTS, options)
