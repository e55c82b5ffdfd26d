"""Router microarchitectures: uniform traffic, and a token's decoding, on four topologies each.

Zero-load latency in cycles and saturation in flits/node/cycle of single flits; cycles of a whole
token, and those of its critical path that are the network's.
"""

from dataclasses import astuple

from tokenpath.commands.routers import ROUTERS
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.routers import Compared, compare
from tokenpath.sw.model import load

from .common import markdown

RUNS = (
    ("glassllm", "edge", ("mesh:4x4", "torus:4x4", "flat:16", "tiered:4x4"), None),
    ("llama-3-8b", "server", ("mesh:16x16", "torus:16x16", "flat:16x16", "tiered:16x16"), 4096),
)
"""Model, preset, topologies, context."""


def measure() -> str:
    """The table, as Markdown."""
    rows = []
    for model, preset, topologies, context in RUNS:
        spec, arch = load(model), Arch.load(preset)
        kinds = [RouterParams.parse(text) for text in ROUTERS]
        for found in compare(spec, arch, topologies, kinds, context=context):
            rows.append([model, *_cells(found)])
            print(*rows[-1], flush=True)
    head = ["model", "topology", "router", "zero load", "saturation", "cycles a token",
            "interconnect", "tokens/s"]  # fmt: skip
    return markdown(head, rows)


def _cells(found: Compared) -> list[str]:
    topology, router, zero, knee, cycles, network, tokens = astuple(found)[:7]
    return [
        topology, router, f"{zero:.2f}", f"{knee:.2f}", f"{cycles:,}", f"{network:,}",
        f"{tokens:,.1f}",
    ]  # fmt: skip
