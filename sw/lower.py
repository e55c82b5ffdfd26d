"""Lowering: a mapped model becomes the Program of one decode step."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import REGISTERS, Engine
from tokenpath.hw.arch.program import Code, Program

from . import ends, images
from .attention import Attention
from .hidden import hidden
from .mapping import Mapping
from .model import ModelSpec
from .step import Step


def lower(mapping: Mapping, spec: ModelSpec, *, values: bool = True) -> Program:
    """Program of one decode step; without ``values`` it has no weights and serves timing only.

    Raises InputError when the model doesn't fit the machine, when its routers take no packets of
    several flits, and with values when they may let a packet pass another one of the same tile:
    puts rely on their order.
    """
    router = mapping.arch.router
    router.check_programs()
    if values and not router.keeps_order:
        raise InputError(
            f"router {router} lets packets of a tile pass each other, and programs rely on their "
            "order: give --timing-only, or a router that keeps it (wormhole-d4, vc4-d4-ordered)"
        )
    step = Step(mapping, spec, values)
    emitter, attention = step.emitter, Attention(step)
    with emitter.label("embed"):
        ends.embed(step)
        ends.rope_angles(step)
    for layer in range(spec.shape.layers):
        with emitter.label(f"{layer}.attention"):
            attention.emit(layer)
        with emitter.label(f"{layer}.hidden"):
            hidden(step, layer)
    with emitter.label("head"):
        ends.head(step)
    if values:
        images.fill_store(step.store, spec)
    return _freeze(step)


def _freeze(step: Step) -> Program:
    """The program, its arrays as buffers."""
    emitter, mapping, tiles = step.emitter, step.mapping, range(step.arch.tiles)
    code = Code(
        engines=tuple(tuple(i.columns() for i in queue) for queue in emitter.code),  # type: ignore[arg-type]
        labels=tuple(tuple(names) for names in emitter.labels),  # type: ignore[arg-type]
    )
    for engine, rows in zip(Engine, code.engines, strict=True):
        if len(rows) > step.arch.code_words:
            raise InputError(
                f"the program has {len(rows)} {engine.name.lower()} instructions "
                f"and {step.arch.name} "
                f"code_words {step.arch.code_words}; give an architecture with more"
            )
    registers = np.zeros((len(tiles), REGISTERS), np.int32)
    registers[:, : len(emitter.columns)] = np.array(emitter.columns, np.int64).T
    own = np.concatenate([*step.own, np.zeros((len(tiles), 0), np.int64)], axis=1).astype(np.int32)
    spans = [mapping.vocab_span(t) for t in tiles]
    team = mapping.attention
    return Program(
        arch=step.arch,
        code=(code,),
        tile_code=(0,) * len(tiles),
        registers=_buffer(registers),
        descriptors=_buffer(np.array(emitter.tables, np.int32).reshape(len(tiles), -1, 4)),
        vector_shared=_buffer(np.array(step.shared, np.int64).astype(np.int32)),
        vector_tile=_buffer(own),
        elements=_buffer(step.store.elements) if step.store.elements is not None else None,
        scales=_buffer(step.store.scales) if step.store.scales is not None else None,
        store_beats_used=step.store.used,
        rules=tuple(emitter.rules),
        shards_of=tuple(team.member(t) for t in tiles),
        shards=team.members,
        page=mapping.page,
        context=mapping.context,
        vocab=step.shape.vocab,
        logits_at=step.logits,
        logit_words=tuple(end - first for first, end in spans),
        logit_first=tuple(first for first, _ in spans),
        result_tile=0,
        result_at=step.best,
        meta={
            "model": step.shape.name,
            "split": mapping.split,
            "softmax": mapping.softmax,
            "reduce": mapping.reduce,
            "groups": team.groups,
            "kv_shards": team.members,
        },
    )


def _buffer(array: NDArray[Any]) -> memoryview:
    """The buffer of an array, without a copy."""
    return memoryview(np.ascontiguousarray(array))  # type: ignore[arg-type]
