"""What the benchmarks share: where results go, reference prompts, Markdown tables, timed runs."""

import argparse
import json
import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.params import Arch
from tokenpath.sim.fast import FastMachine
from tokenpath.sim.run import Run, drive
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import plan
from tokenpath.sw.model import ModelSpec

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
NAMES = (
    "accuracy", "order_free", "topologies", "speed", "differential", "streaming", "mutation",
    "verilog", "rtl", "cost", "network", "formal", "routers", "network_differential",
)  # fmt: skip
WITH_OPTIONS = (
    "cost",
    "differential",
    "formal",
    "mutation",
    "network",
    "network_differential",
    "rtl",
)


@dataclass(frozen=True)
class Prompt:
    """A prompt and the greedy tokens of the fp32 reference behind it."""

    name: str
    ids: list[int]
    wanted: list[int]


def prompts(model: str) -> list[Prompt]:
    """Reference prompts of glassllm, glassllm-pt or smollm2."""
    golden = json.loads((ROOT / "tests/sw/model/golden.json").read_text(encoding="utf-8"))
    return [
        Prompt(name, row["prompt_ids"], row["greedy_ids"])
        for name, row in golden.items()
        if row["model"] == model and row.get("prompt_ids")
    ]


def header(name: str, about: str, day: date) -> str:
    """Title, what is measured, the command, and the machine."""
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return (
        f"# {name.replace('_', ' ').capitalize()}\n\n{about.strip()}\n\n"
        f"`python -m benchmarks {name}`, {day}, {cpu}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, numpy {np.__version__}\n\n"
    )


def in_parts(name: str, parts: Mapping[str, Callable[[], str]], options: Sequence[str] = ()) -> str:
    """Markdown of a benchmark in parts; ``--parts A,B`` measures those again and keeps the others
    as the results have them.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}")
    parser.add_argument("--parts", default=",".join(parts), help="some of " + ", ".join(parts))
    wanted = parser.parse_args(options).parts.split(",")
    if unknown := [part for part in wanted if part not in parts]:
        parser.error(f"unknown part {unknown[0]!r}; give some of {', '.join(parts)}")
    file = RESULTS / f"{name}.md"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    sections = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    for part in wanted:
        print(f"{part} ...", flush=True)
        sections[part] = f"{parts[part].__doc__}; {date.today()}.\n\n{parts[part]()}\n"
    return "\n".join(
        f"## {part}\n\n{sections[part].strip()}\n" for part in parts if part in sections
    )


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def machine(spec: ModelSpec, arch: Arch, **options: object) -> FastMachine:
    """The fast simulator with the program of a model; ``trace`` is passed on."""
    trace = bool(options.pop("trace", False))
    mapping = plan(spec.shape, arch, **options)  # type: ignore[arg-type]
    return FastMachine(lower(mapping, spec, values=spec.has_weights), trace=trace)


def logits(fast: FastMachine, prompt: Prompt) -> list[NDArray[np.int32]]:
    """Teacher-forced logits at the reference's tokens."""
    run = Run(executor="fast", arch_fingerprint=fast.program.arch.fingerprint, prompt=prompt.ids)
    drive(fast, run, len(prompt.wanted), forced=prompt.wanted[:-1])
    return [step.logits for step in run.generated if step.logits is not None]


def with_formats(arch: Arch, **formats: object) -> Arch:
    """The same machine with other number formats."""
    return replace(arch, numeric=replace(arch.numeric, **formats))  # type: ignore[arg-type]
