"""The token path ledger: each cycle of a step in one layer, along the critical path.

The walk starts at what became visible last and follows causes back to cycle 0. An instruction's
issue has one cause: the instruction before it in its engine, or the post that made its semaphore
sufficient (of an instruction, or of a packet), if that came later. An operation that waited for
its STREAM's first beat is followed into the STREAM; a STREAM whose reads waited for room is
followed into the operation that made it. Nothing lies between a cause and its effect, so the
segments sum to the step's cycles:

* compute: vector operations, prologue and epilogue of operations on beats
* memory: cycles in which an operation consumes beats or waits for the first, STREAM, APPEND
* interconnect: from behind the issue of a PUT to the delivery of its packet, or to the PUT's end
* wait: issue cycles

The interconnect is parted once more: inject (descriptors and flits of the PUT that went ahead),
hop (the head flit's way in an empty network), serialisation (the flits behind it at the slowest
link's rate), contention (the rest).
"""

# ruff: noqa: F403, F405
from dataclasses import dataclass

import numpy as np

from tokenpath.sim.compiled import kernel

from .columns import *
from .engine import operand, stream_epilogue, stream_prologue
from .jit import inner, wide
from .state import I64, Engines, Network, addresses, engines_at, network_at
from .ways import only_way

LAYERS = ("compute", "memory", "interconnect", "wait")
COMPUTE, MEMORY, INTERCONNECT, WAIT = range(4)
PARTS = ("inject", "hop", "serialisation", "contention")
INJECT, HOP, SERIALISATION, CONTENTION = range(4)


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Cycles of the critical path: ``total`` by layer, ``stages`` by label and layer, ``network``
    by part.
    """

    total: dict[str, int]
    stages: dict[str, dict[str, int]]
    network: dict[str, int]


@inner
def flight(
    e: Engines, n: Network, source: int, to: int, flits: int, cycles: int, parts: I64
) -> None:
    """Part the cycles between a packet's first flit and its delivery."""
    turn = 1 if e.constants[STAGES] > 2 else 0  # the cycle in which a head takes its VC
    node, hop, behind = source, 1 + e.constants[EJECTION], flits - 1  # the tail behind the head
    while node != to:
        o = (only_way(e, n, node, to) >> VC_BITS) * O_WIDTH
        hop += turn + n.queues[n.outputs[o + O_QUEUE] - U_NEXT + U_LATENCY]
        behind = max(behind - turn, (flits - 1) * n.outputs[o + O_CYCLES])
        node = wide(n.buffers[n.outputs[o + O_DOWN] + B_NODE])
    hop, behind = hop + turn, max(behind - turn, flits - 1)
    parts[HOP] += hop
    parts[SERIALISATION] += behind
    parts[CONTENTION] += cycles - hop - behind


@inner
def tile_of(record0: I64, tiles: int, record: int) -> int:
    """The tile that a record belongs to."""
    low, high = 0, tiles
    while high - low > 1:
        middle = (low + high) >> 1
        if record0[middle] <= record:
            low = middle
        else:
            high = middle
    return low


@inner
def operation(e: Engines, tile: int, row: int, r: int, now: int, sums: I64) -> int:
    """Layers of an operation on beats up to cycle ``now``; the cycle at which its cause takes
    over.
    """
    op, q, records = e.code[row + OP], e.code[row + Q], e.records
    behind = records[r + R_END] - stream_epilogue(
        op, operand(e, tile, row + M), q, e.constants[VLANES]
    )
    if now > behind:
        sums[COMPUTE] += now - behind
        now = behind
    if records[r + R_VIA] >= 0:
        sums[MEMORY] += now - records[r + R_VIA_AT] - 1
        return wide(records[r + R_VIA_AT] + 1)
    start = records[r + R_ISSUED] + 1 + stream_prologue(op)
    sums[MEMORY] += now - start
    sums[COMPUTE] += stream_prologue(op)
    return wide(records[r + R_ISSUED] + 1)


@kernel
def trace(engines: I64, network: I64, label_of: I64, starts: I64, stages: I64, parts: I64) -> int:
    """Add the critical path of the last step to ``stages`` (labels, 4) and ``parts`` (4,)."""
    e, n = engines_at(engines), network_at(network)
    g, records = e.g, e.records
    now, record, inject, flits, to = (
        g[END_TIME],
        g[END_RECORD],
        g[END_INJECT],
        g[END_FLITS],
        g[END_TO],
    )
    while record >= 0:
        tile = tile_of(e.record0, e.constants[TILES], record)
        at = e.engines[4 * tile * E_WIDTH + CODE0] + record - e.record0[tile]
        row, r, sums = at * CODE_WIDTH, record * R_WIDTH, stages[label_of[at]]
        op, issued = e.code[row + OP], records[r + R_ISSUED]
        via = -1
        if inject >= 0:
            sums[INTERCONNECT] += now - issued - 1
            parts[INJECT] += inject - issued - 1
            flight(e, n, tile, to, flits, now - inject, parts)
        elif op in (DOT, SCORE, AXPY, LOAD):
            now = operation(e, tile, row, r, now, sums)
            via = wide(records[r + R_VIA])
        elif op == STREAM:
            if records[r + R_VIA] >= 0 and records[r + R_VIA_AT] < now - 1:
                via = wide(records[r + R_VIA])
                sums[MEMORY] += now - records[r + R_VIA_AT] - 1
                now = wide(records[r + R_VIA_AT] + 1)
            else:  # never throttled, or followed from its first read
                sums[MEMORY] += now - issued - 1
        elif op == APPEND:
            sums[MEMORY] += now - issued - 1
        elif op == PUT:
            sums[INTERCONNECT] += now - issued - 1
            parts[INJECT] += now - issued - 1
        else:
            sums[COMPUTE] += now - issued - 1
        inject = -1
        if via >= 0:
            record = via
            continue
        sums[WAIT] += 1
        now = wide(issued)
        cause = records[r + R_CAUSE]
        if cause >= 0:
            record, inject, flits, to = cause, records[r + R_INJECT], records[r + R_FLITS], tile
        elif starts[at]:
            break
        else:
            record -= 1
    return wide(now)


class Tracer:
    """Reads the ledger of a step out of the records of a machine's tables."""

    def __init__(self, first: I64, label_of: I64, labels: tuple[str, ...]) -> None:
        self.labels, self.label_of = labels, label_of
        self.starts = np.zeros(len(label_of) + 1, np.int64)
        self.starts[first[:, :3].reshape(-1)] = 1

    def ledger(self, engines: Engines, network: Network) -> Ledger:
        """Trace the last step back. Raises RuntimeError if its segments don't sum to its
        cycles.
        """
        stages, parts = (
            np.zeros((len(self.labels), len(LAYERS)), np.int64),
            np.zeros(len(PARTS), np.int64),
        )
        rest = trace(
            addresses(engines), addresses(network), self.label_of, self.starts, stages, parts
        )
        cycles = int(engines.g[END_TIME])
        if stages.sum() != cycles or (rest != 0 and cycles):
            raise RuntimeError(
                f"the ledger has {stages.sum()} of {cycles} cycles and ends at cycle {rest}"
            )
        return Ledger(
            total=dict(zip(LAYERS, stages.sum(axis=0).tolist(), strict=True)),
            stages={
                label: dict(zip(LAYERS, row.tolist(), strict=True))
                for label, row in zip(self.labels, stages, strict=True)
                if row.any()
            },
            network=dict(zip(PARTS, parts.tolist(), strict=True)),
        )
