"""Bounds: what a step demands, and the fewest cycles in which each layer of the machine could
serve it."""

from dataclasses import dataclass

from tokenpath.hw.arch.timing import put_flits

from .mapping import Mapping


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What one step asks of the machine: multiply-accumulates, beats of the store, and words
    that the residual sums move."""

    macs: int
    beats: int
    collectives: int
    words: int


def demand(mapping: Mapping, position: int) -> Demand:
    """Demand of the step at ``position``, whatever the placement."""
    shape, arch = mapping.shape, mapping.arch
    lanes = arch.lanes
    attention = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    matrices = [
        (attention, shape.d_model),
        (shape.d_model, shape.heads * shape.head_dim),
        (2 * shape.ffn, shape.d_model),
        (shape.d_model, shape.ffn),
    ]
    macs = (
        shape.layers * sum(rows * width for rows, width in matrices) + shape.vocab * shape.d_model
    )
    beats = macs // lanes
    for window in shape.windows:
        rows = min(position + 1, window or position + 1)
        macs += 2 * rows * shape.heads * shape.head_dim
        beats += 2 * rows * shape.kv_heads * arch.row_beats(shape.head_dim)
    return Demand(macs=macs, beats=beats, collectives=2 * shape.layers + 1, words=shape.d_model)


def bounds(mapping: Mapping, position: int) -> dict[str, int]:
    """Lower bounds in cycles of the step at ``position``, one for each layer.

    ``compute``: MACs over all lanes of all queries. ``memory``: beats over all ports.
    ``interconnect``: each sum over the array needs the latency of its longest way, and the rest
    of a vector through one port of each tile, whichever is longer.
    """
    arch, need = mapping.arch, demand(mapping, position)
    tiles = arch.tiles
    lanes = tiles * arch.lanes * arch.queries
    across = 0
    if tiles > 1:
        flits = put_flits(need.words * (tiles - 1) // tiles, arch.flit_words)
        latency = arch.topology.diameter_cycles
        across = need.collectives * max(latency, flits) + latency  # the arg max is short
    return {
        "compute": -(-need.macs // lanes),
        "memory": -(-need.beats // tiles),
        "interconnect": across,
    }
