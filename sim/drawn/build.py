"""A Program from queues of instructions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenpath.hw.arch.isa import REGISTERS, Instr
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Code, Program

Queues = tuple[Sequence[Instr], Sequence[Instr], Sequence[Instr]]
"""Instructions of the memory, compute and network engine."""


def program(arch: Arch, queues: Sequence[Queues], **changes: Any) -> Program:
    """A program with one class of code a tile (or one for all), without weights unless given.

    ``descriptors`` (tiles, count, 4) and ``registers`` (tiles, REGISTERS) are arrays of integers;
    other ``changes`` are fields of Program.
    """
    tiles = arch.tiles
    code = tuple(
        Code(
            engines=_three(tuple(i.columns() for i in queue) for queue in each),
            labels=_three(tuple(i.op.name.lower() for i in queue) for queue in each),
        )
        for each in queues
    )
    table = np.ascontiguousarray(changes.pop("descriptors", np.zeros((tiles, 1, 4))), np.int32)
    words = np.ascontiguousarray(changes.pop("registers", np.zeros((tiles, REGISTERS))), np.int32)
    fields: dict[str, Any] = {
        "arch": arch, "code": code,
        "tile_code": tuple(range(tiles)) if len(queues) == tiles else (0,) * tiles,
        "registers": words.data, "descriptors": table.data,
        "vector_shared": np.zeros(0, np.int32).data,
        "vector_tile": np.zeros((tiles, 1), np.int32).data,
        "elements": None, "scales": None, "store_beats_used": arch.store_beats,
        "rules": (), "shards_of": (-1,) * tiles, "shards": 1, "page": 1, "context": 1, "vocab": 1,
        "logits_at": 0, "logit_words": (0,) * tiles, "logit_first": (0,) * tiles,
        "result_tile": 0, "result_at": 0,
    }  # fmt: skip
    return Program(**(fields | changes))


def _three(parts: Any) -> Any:
    first, second, third = parts
    return first, second, third
