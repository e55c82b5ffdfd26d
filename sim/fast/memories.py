"""The memories of all tiles as flat arrays, for the kernels that compute values."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Program
from tokenpath.sim.compiled import kernel

from .jit import inner, pointer8, pointer16, pointer32, pointer64

OP, DST, SRC, AUX, BUX, N, M, Q, X, Y = range(10)
"""Places of an instruction's operands, registers added, in ``ops`` (10,) int64."""

LANES, BLOCK, BLOCKS, OPERAND_BEATS, SCORE_FRAC = range(5)
WEIGHT_MANTISSA, KV_MANTISSA, ACT_MANTISSA, KV_BITS, ACT_BITS = range(5, 10)
"""Places of the architecture's integers in ``params``."""

VECTOR_WORDS, STORE_BEATS, OPERAND_ROWS, APPEND_BEATS, SCORE_QUERIES, SCORE_ROWS = range(10, 16)
ACCUMULATORS, PAYLOAD_WORDS = range(16, 18)
"""Sizes of a tile's memories, and of what all share, in ``params``."""

SUM_FRAC = 18
"""One place of ``params`` for each headroom from here on."""

HEADROOMS = 31
"""A headroom of h bits leaves 31 - h for a summand."""

SATURATIONS, OVERFLOWS = range(2)
"""Columns of ``counters``."""

BATCH = 256
"""Blocks whose product sums are scaled in one loop: they fit the first-level cache."""


class Values(NamedTuple):
    """Memories of all tiles: arrays for Python, the same as pointers for kernels.

    ``elements`` and ``scales`` are the store. Operand memory and the append buffer hold int16
    elements whatever their format, so that kernels are compiled once. ``counters`` holds
    saturations and overflows since the start. Tiles share ``accumulators``, ``work`` and ``ops``:
    they are the scratch of one instruction and its operands. ``payload`` are words of packets.
    """

    vector: NDArray[np.int32]  # (tiles, words)
    elements: NDArray[np.int8]  # (tiles, beats, lanes)
    scales: NDArray[np.int16]  # (tiles, beats, blocks)
    operand: NDArray[np.int16]  # (tiles, queries * operand_beats, lanes)
    operand_scales: NDArray[np.int16]  # (tiles, queries * operand_beats, blocks)
    append: NDArray[np.int16]  # (tiles, append_beats, lanes)
    append_scales: NDArray[np.int16]  # (tiles, append_beats, blocks)
    scores: NDArray[np.int32]  # (tiles, queries, score_rows)
    accumulators: NDArray[np.int32]  # (accumulator_beats * lanes,) of one AXPY
    work: NDArray[np.int64]  # (work_words,)
    counters: NDArray[np.int64]  # (tiles, 2)
    ops: NDArray[np.int64]  # (10,)
    payload: NDArray[np.int32]
    params: NDArray[np.int64]  # (SUM_FRAC + HEADROOMS,)


@inner
def values_at(a: NDArray[np.int64]) -> Values:
    """The fields of Values as pointers, from their addresses."""
    return Values(
        pointer32(a[0]), pointer8(a[1]), pointer16(a[2]), pointer16(a[3]), pointer16(a[4]),
        pointer16(a[5]), pointer16(a[6]), pointer32(a[7]), pointer32(a[8]), pointer64(a[9]),
        pointer64(a[10]), pointer64(a[11]), pointer32(a[12]), pointer64(a[13]),
    )  # fmt: skip


def make_values(program: Program, packets: int = 0) -> Values:
    """Memories as a program starts with them; without weights, of no tile: for timing only.
    ``packets`` is for how many there is payload.

    The image of the store is copied once, since rows of the KV cache are appended to it. Memories
    that start with zeros cost nothing until they are written.
    """
    arch = program.arch
    images = program.elements is not None and program.scales is not None
    tiles = arch.tiles if images else 0
    beats, blocks = program.store_beats_used, arch.blocks_per_beat
    operand_beats = arch.queries * arch.operand_beats
    values = Values(
        vector=np.zeros((tiles, arch.vector_words), np.int32),
        elements=_image(program.elements if images else None, np.int8, (tiles, beats, arch.lanes)),
        scales=_image(program.scales if images else None, np.int16, (tiles, beats, blocks)),
        operand=np.zeros((tiles, operand_beats, arch.lanes), np.int16),
        operand_scales=np.zeros((tiles, operand_beats, blocks), np.int16),
        append=np.zeros((tiles, arch.append_beats, arch.lanes), np.int16),
        append_scales=np.zeros((tiles, arch.append_beats, blocks), np.int16),
        scores=np.zeros((tiles, arch.queries, arch.score_rows), np.int32),
        accumulators=np.zeros(arch.accumulator_beats * arch.lanes, np.int32),
        work=np.zeros(work_words(arch), np.int64),
        counters=np.zeros((tiles, 2), np.int64),
        ops=np.zeros(10, np.int64),
        payload=np.zeros(packets * arch.max_packet_words, np.int32),
        params=params_of(arch, beats, packets),
    )
    if tiles:
        shared, own = np.asarray(program.vector_shared), np.asarray(program.vector_tile)
        values.vector[:, : shared.size] = shared
        values.vector[:, shared.size : shared.size + own.shape[1]] = own
    return values


def _image(buffer: memoryview | None, dtype: type, shape: tuple[int, ...]) -> NDArray[Any]:
    """A writable copy of one of a program's images."""
    return np.zeros(shape, dtype) if buffer is None else np.array(buffer, dtype).reshape(shape)


def work_words(arch: Arch) -> int:
    """Scratch for any operation: a result or a row of scores, and batches of blocks behind it."""
    batch = max(BATCH, arch.queries * arch.operand_beats * arch.blocks_per_beat)
    return max(arch.vector_words, arch.score_rows) + max(4 * batch, arch.score_rows)


def params_of(arch: Arch, store_beats: int, packets: int) -> NDArray[np.int64]:
    """The integers of an architecture that values depend on, at the places named above."""
    numeric = arch.numeric
    weight, kv, act = numeric.weight, numeric.kv, numeric.act
    fixed = {
        LANES: arch.lanes,
        BLOCK: numeric.block,
        BLOCKS: arch.blocks_per_beat,
        OPERAND_BEATS: arch.operand_beats,
        SCORE_FRAC: numeric.score_frac,
        WEIGHT_MANTISSA: weight.mantissa_bits,
        KV_MANTISSA: kv.mantissa_bits,
        ACT_MANTISSA: act.mantissa_bits,
        KV_BITS: kv.bits,
        ACT_BITS: act.bits,
        VECTOR_WORDS: arch.vector_words,
        STORE_BEATS: store_beats,
        OPERAND_ROWS: arch.queries * arch.operand_beats,
        APPEND_BEATS: arch.append_beats,
        SCORE_QUERIES: arch.queries,
        SCORE_ROWS: arch.score_rows,
        ACCUMULATORS: arch.accumulator_beats * arch.lanes,
        PAYLOAD_WORDS: packets * arch.max_packet_words,
    }
    sums = [numeric.sum_frac(headroom) for headroom in range(HEADROOMS)]
    return np.array([*(fixed[place] for place in range(SUM_FRAC)), *sums], np.int64)


@kernel
def place(tile: int, at: int, count: int, size: int) -> int:
    """Flat place of ``at`` in the memories of all tiles, ``size`` places each.

    Raises IndexError unless ``count`` places from there on are the tile's: kernels check no more.
    """
    if at < 0 or count < 0 or at + count > size:
        raise IndexError("an instruction reaches outside of a memory of its tile")
    return tile * size + at
