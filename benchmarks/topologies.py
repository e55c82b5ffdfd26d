"""Cycles of a token on equal tiles and different networks, and where they went on the critical
path."""

from tokenpath.hw.arch.params import Arch
from tokenpath.sim.fast import FastMachine
from tokenpath.sim.run import Run, drive
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import plan
from tokenpath.sw.model import load
from tokenpath.sw.report.summary import LAYERS

from .common import markdown

TOPOLOGIES = ("mesh:4x4", "torus:4x4", "flat:16", "tiered:4x4")
TOKENS = 16


def measure() -> str:
    """The table, as Markdown."""
    spec = load("glassllm")
    ids, rows = spec.encode_prompt("Alice was beginning to"), []
    for topology in TOPOLOGIES:
        arch = Arch.load("edge").on(topology)
        run = Run(executor="fast", arch_fingerprint=arch.fingerprint, prompt=ids)
        drive(FastMachine(lower(plan(spec.shape, arch), spec)), run, TOKENS)
        steps = run.generated
        mean = {name: sum(s.ledger[name] for s in steps) / len(steps) for name in LAYERS}
        assert all(sum(s.ledger.values()) == s.cycles for s in steps)
        cycles = sum(s.cycles for s in steps) / len(steps)
        net: dict[str, float] = {}
        for step in steps:
            for name, value in step.network.items():
                net[name] = net.get(name, 0) + value / len(steps)
        parts = ", ".join(f"{name} {value:,.0f}" for name, value in net.items())
        columns = [f"{mean[name]:,.1f}" for name in LAYERS]
        rows.append([topology, f"{cycles:,.1f}", *columns, parts])
    columns = ["topology", "cycles a token", *LAYERS, "interconnect in parts"]
    note = "the four columns sum to each token's cycles"
    return f"{markdown(columns, rows)}\nglassllm, {TOKENS} tokens, preset edge; {note}.\n"
