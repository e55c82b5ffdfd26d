"""One prompt over many machines and mappings: with the exact softmax the logits are the same
bits.

Every row runs the fast simulator; rows with an order also run the golden model with its engines
in that random order.
"""

from itertools import islice, product

from tokenpath.hw.arch.params import Arch
from tokenpath.sim import golden
from tokenpath.sim.fast import FastMachine
from tokenpath.sim.run import Run, drive
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import REDUCES, SPLITS, plan
from tokenpath.sw.model import load

from .common import markdown

TOPOLOGIES = (
    "mesh:4x4",
    "torus:4x4",
    "flat:16",
    "tiered:4x4",
    "mesh:2x2",
    "torus:8x2",
    "flat:8",
    "line2@die,full2@board,ring3@rack",
    "mesh:1x1",
    "switch:9",
)
TOKENS = 8
PROMPT = "Alice was beginning to"


def combinations() -> list[tuple[str, int, str, str]]:
    """(topology, KV shards, split, reduce): every topology with every number of shards that
    fits."""
    kinds = list(product(SPLITS, REDUCES))
    fitting = [
        (topology, shards)
        for topology in TOPOLOGIES
        for shards in (1, 2, 4, 8)
        if shards <= Arch.load("edge").on(topology).tiles
    ]
    return [(*pair, *kinds[i % len(kinds)]) for i, pair in enumerate(fitting)]


def measure() -> str:
    """The table, as Markdown, and the number of different hashes."""
    spec = load("glassllm")
    ids = spec.encode_prompt(PROMPT)
    rows, hashes = [], set()
    ordered = set(islice(range(0, 1000, 9), 4))
    for index, (topology, shards, split, reduce) in enumerate(combinations()):
        arch = Arch.load("edge").on(topology)
        program = lower(
            plan(spec.shape, arch, kv_shards=shards, split=split, reduce=reduce, page=2), spec
        )
        run = Run(executor="fast", arch_fingerprint=arch.fingerprint, prompt=ids)
        drive(FastMachine(program, trace=False), run, TOKENS)
        digest = run.logits_sha256()
        hashes.add(digest)
        order = "-"
        if index in ordered:
            other = golden.run(program, ids, TOKENS, seed=index)
            hashes.add(other.logits_sha256())
            order = f"seed {index}, {'equal' if other.logits_sha256() == digest else 'DIFFERENT'}"
        cycles = sum(step.cycles for step in run.generated) // TOKENS
        rows.append(
            (topology, arch.tiles, shards, split, reduce, order, f"{cycles:,}", digest[:16])
        )
    columns = ["topology", "tiles", "KV shards", "split", "reduce", "golden in random order"]
    return (
        markdown([*columns, "cycles a token", "logits sha256"], rows)
        + f"\n{len(rows)} combinations, {len(hashes)} different hash"
        + ("es" if len(hashes) != 1 else "")
        + f" (glassllm, {PROMPT!r}, {TOKENS} tokens)\n"
    )
