"""Wall-clock speed: first token cold and warm, values and cycles against plain numpy fp32,
timing only of a large model."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from statistics import median

from tokenpath.hw.arch.params import Arch
from tokenpath.sw.model import load
from tokenpath.sw.model.reference import Reference

from .common import Prompt, logits, machine, markdown, prompts

FIRST = ["-m", "tokenpath", "decode", "--tokens", "1", "--json"]


def _first_token() -> list[list[object]]:
    """Wall seconds of a whole process that decodes one token, without and with numba's
    cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        seconds = []
        for _ in range(4):
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, *FIRST], env=environment, check=True, capture_output=True
            )
            seconds.append(time.perf_counter() - start)
    return [
        ["first token of glassllm on mesh:4x4, cold", f"{seconds[0]:.1f} s", "< 20 s"],
        ["the same, warm (median of 3)", f"{median(seconds[1:]):.1f} s", "< 4 s"],
    ]


def _against_numpy(repeats: int = 3) -> list[list[object]]:
    """SmolLM2 on mesh:8x8, values and cycles, and numpy fp32 on the same tokens, in turn."""
    spec = load("smollm2")
    prompt: Prompt = prompts("smollm2")[0]
    fast = machine(spec, Arch.load("server").on("mesh:8x8"), trace=True, context=512)
    reference = Reference(spec)
    feed = [*prompt.ids, *prompt.wanted[:-1]]
    logits(fast, Prompt("warm", prompt.ids, prompt.wanted[:1]))
    ratios, ours, theirs = [], [], []
    for _ in range(repeats):
        start = time.perf_counter()
        reference.reset()
        for token in feed:
            reference.step(token)
        middle = time.perf_counter()
        logits(fast, prompt)
        end = time.perf_counter()
        theirs.append((middle - start) / len(feed))
        ours.append((end - middle) / len(feed))
        ratios.append(ours[-1] / theirs[-1])
    return [
        [
            "SmolLM2 on mesh:8x8, values, cycles and ledger, ms a token",
            f"{1e3 * median(ours):.0f}",
            "",
        ],
        ["numpy fp32, the same tokens, ms a token", f"{1e3 * median(theirs):.0f}", ""],
        [f"ratio (median of {repeats} pairs)", f"{median(ratios):.2f}", "< 4"],
    ]


def large(topology: str = "mesh:16x16") -> tuple[float, float, int]:
    """(seconds, peak GB, cycles) of one token of llama-3-8b at context 8192, timing only,
    compilation of the program included."""
    start = time.perf_counter()
    fast = machine(load("llama-3-8b"), Arch.load("server").on(topology), trace=True, context=8192)
    step = fast.step(0, 8191)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return time.perf_counter() - start, peak, step.cycles


def _large() -> list[list[object]]:
    code = "from benchmarks.speed import large; print(*large())"
    text = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    seconds, peak, cycles = text.split()
    return [
        [
            "llama-3-8b, mesh:16x16, context 8192, one token, timing only",
            f"{float(seconds):.1f} s",
            "< 10 s",
        ],
        ["its peak memory", f"{float(peak):.2f} GB", "< 4 GB"],
        ["its cycles", f"{int(cycles):,}", ""],
    ]


def measure() -> str:
    """The table, as Markdown."""
    return markdown(["what", "measured", "gate"], [*_first_token(), *_large(), *_against_numpy()])
