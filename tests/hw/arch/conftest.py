"""Programs by hand, for the tests of what reads programs."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tokenpath.hw.arch.isa import REGISTERS, Instr, Op
from tokenpath.hw.arch.params import PRESETS, Arch
from tokenpath.hw.arch.program import Code, Program, StepRule
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import plan
from tokenpath.sw.model import ModelShape, ModelSpec

ROOMY = replace(PRESETS["tiny"], scratch_words=1 << 13, inbox_words=1 << 13, store_beats=1 << 14)
DEEP = ModelShape(
    name="deep",
    layers=2,
    d_model=12,
    heads=4,
    kv_heads=2,
    head_dim=6,
    ffn=20,
    vocab=19,
    context=40,
    norm_eps=1e-6,
    rope_theta=1e4,
    rope_pairing="half",
    tied=True,
    windows=(None, 5),
)
"""Two layers of odd sizes, the second with a window."""

Queues = tuple[Sequence[Instr], Sequence[Instr], Sequence[Instr]]


def hand_made(
    arch: Arch,
    codes: Sequence[Queues],
    *,
    descriptors: Sequence[Sequence[tuple[int, int, int, int]]] = (),
    registers: dict[tuple[int, int], int] | None = None,
    **changes: Any,
) -> Program:
    """A program without weights: a queue for each engine (memory, compute, network) of each class.

    One class is for all tiles, several are one a tile. ``descriptors`` are (tile, source, words,
    target) for each tile; ``registers`` values by (tile, register).
    """
    tiles = arch.tiles
    most = max(1, *(len(run) for run in descriptors), 1)
    table = array("i")
    for tile in range(tiles):
        run = list(descriptors[tile]) if tile < len(descriptors) else []
        for row in run + [(tile, 0, 0, 0)] * (most - len(run)):
            table.extend(row)
    words = array("i", bytes(4 * tiles * REGISTERS))
    for (tile, register), value in (registers or {}).items():
        words[tile * REGISTERS + register] = value
    values: dict[str, Any] = {
        "tile_code": tuple(range(tiles)) if len(codes) > 1 else (0,) * tiles,
        "store_beats_used": arch.store_beats,
        "rules": (),
        "shards_of": (0,) * tiles,
        "shards": 1,
        "page": 1,
        "context": 1,
        "vocab": 1,
        "logits_at": 0,
        "logit_words": (0,) * tiles,
        "logit_first": (0,) * tiles,
        "result_tile": 0,
        "result_at": 0,
        **changes,
    }
    return Program(
        arch=arch,
        code=tuple(_code(queues) for queues in codes),
        registers=memoryview(words).cast("B").cast("i", (tiles, REGISTERS)),
        descriptors=memoryview(table).cast("B").cast("i", (tiles, most, 4)),
        vector_shared=memoryview(array("i")),
        vector_tile=memoryview(bytes(4 * tiles)).cast("i", (tiles, 1)),
        elements=None,
        scales=None,
        **values,
    )


def _code(queues: Queues) -> Code:
    rows: Any = tuple(tuple(i.columns() for i in queue) for queue in queues)
    labels: Any = tuple(tuple("stage" for _ in queue) for queue in queues)
    return Code(engines=rows, labels=labels)


@pytest.fixture(name="hand_made", scope="session")
def _hand_made() -> Callable[..., Program]:
    return hand_made


@pytest.fixture(name="program", scope="session")
def _program() -> Program:
    """A program with everything in it: weights, rules, constants, two classes."""
    arch = PRESETS["tiny"].on("line:2")
    beats, lanes, blocks = 3, arch.lanes, arch.blocks_per_beat
    elements = memoryview(bytes(range(2 * beats * lanes))).cast("b", (2, beats, lanes))
    scales = array("h", range(-6, 2 * beats * blocks - 6))
    append = Instr(op=Op.APPEND, dst=(1, 4), n=1)
    program = hand_made(
        arch,
        [([append], [Instr(op=Op.SYNC)], []), ([], [Instr(op=Op.SYNC)], [])],
        registers={(0, 5): -7, (1, 5): 1 << 30},
        rules=(StepRule(register=4, kind="position_low", scale=1, span=2),),
        store_beats_used=beats,
        shards_of=(0, -1),
        context=2,
        vocab=5,
        logit_words=(3, 2),
        logit_first=(0, 3),
        meta={"model": "hand", "kv_shards": 1},
    )
    return replace(
        program,
        vector_shared=memoryview(array("i", [1, -2, 3])),
        vector_tile=memoryview(array("i", range(4))).cast("B").cast("i", (2, 2)),
        elements=elements,
        scales=memoryview(scales).cast("B").cast("h", (2, beats, blocks)),
    )


@pytest.fixture(name="saved")
def _saved(program: Program, tmp_path: Path) -> Path:
    """That program in a file."""
    path = tmp_path / "step.program"
    program.save(path)
    return path


def compiled(shape: ModelShape = DEEP, arch: Arch = ROOMY, **options: Any) -> Program:
    """A program for timing: the code is the same as with weights."""
    return lower(plan(shape, arch, **options), ModelSpec(shape), values=False)


@pytest.fixture(name="compiled", scope="session")
def _compiled() -> Callable[..., Program]:
    return compiled


@pytest.fixture(name="deep", scope="session")
def _deep() -> ModelShape:
    return DEEP


@pytest.fixture(name="roomy", scope="session")
def _roomy() -> Arch:
    """A tiny tile with memory enough for that shape on any topology."""
    return ROOMY
