"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    str,
    typer.Option(
        "--model", "-m", help="glassllm, mathformer, smollm2, ... ('tokenpath models') or a path."
    ),
]
ArchName = Annotated[
    str, typer.Option("--arch", "-a", metavar="PRESET|FILE.toml", help="The tile.")
]
TopologyText = Annotated[
    str | None,
    typer.Option(
        "--topology",
        "-t",
        help="mesh:4x4, torus:8x8, flat:16, line4@die,full8@board; else the preset's.",
    ),
]
RouterText = Annotated[
    str | None,
    typer.Option(
        "--router",
        "-r",
        metavar="ROUTER",
        help="wormhole-d4, vc4-d8-s2, deflection, ... (docs/routers.md); else the preset's.",
    ),
]
KvShards = Annotated[
    int | None, typer.Option("--kv-shards", help="Tiles over which a head's KV cache is split.")
]
Split = Annotated[
    str, typer.Option("--split", help="Hidden layer over the array: 2d, input or output.")
]
Reduce = Annotated[
    str, typer.Option("--reduce", help="Sums over the array: direct, ring or oneshot.")
]
Softmax = Annotated[str, typer.Option("--softmax", help="Finish across KV shards: exact or merge.")]
Context = Annotated[
    int | None,
    typer.Option("--context", help="Positions that the KV cache has room for; else the model's."),
]
Page = Annotated[int, typer.Option("--page", help="Positions in a row that one KV shard keeps.")]
Executor = Annotated[
    str, typer.Option("--executor", "-e", help="fast, golden (values only), rtl or verilator.")
]
Seed = Annotated[
    int | None, typer.Option("--seed", help="Random legal order of the engines (golden).")
]
Save = Annotated[
    Path | None, typer.Option("--save", metavar="FILE", help="Keep the run for 'tokenpath report'.")
]


def token_ids(text: str, option: str) -> list[int]:
    """Numbers of a comma-separated list. Raises InputError naming the one that isn't a number."""
    from tokenpath.hw.arch.errors import InputError

    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if not part.isdecimal():
            raise InputError(
                f"{option}: {part!r} is not a token id; give numbers separated by commas"
            )
    if not parts:
        raise InputError(f"{option} is empty; give token ids separated by commas")
    return [int(part) for part in parts]
