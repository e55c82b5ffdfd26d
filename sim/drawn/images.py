"""Random memories to start with."""

import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.numeric import WORD_MAX, WORD_MIN
from tokenpath.hw.arch.params import Arch

from . import layout

LOUD = 0.02
"""Share of words and scales that are at the ends of their range."""


def images(arch: Arch, rng: random.Random) -> dict[str, Any]:
    """The fields ``vector_tile``, ``elements`` and ``scales`` of a program."""
    draw = np.random.default_rng(rng.randrange(1 << 32))
    tiles, beats = arch.tiles, arch.store_beats
    bits = max(arch.numeric.weight.bits, arch.numeric.kv.bits)
    limit = 1 << (bits - 1)
    elements = draw.integers(-limit, limit, (tiles, beats, arch.lanes), dtype=np.int8)
    return {
        "vector_tile": _words(arch, draw).data,
        "elements": elements.data,
        "scales": _scales(arch, draw).data,
    }


def _words(arch: Arch, draw: np.random.Generator) -> NDArray[np.int32]:
    """Words of all magnitudes, a few of them extreme; constants that mean something."""
    shape = (arch.tiles, arch.scratch_words)
    words = draw.integers(WORD_MIN, WORD_MAX, shape) >> draw.integers(8, 32, shape)
    ends = draw.choice([WORD_MAX, WORD_MIN, 0], shape)
    words = np.where(draw.random(shape) < LOUD, ends, words)
    for tile in range(arch.tiles):
        for at in range(layout.RMS, layout.RMS + 12, 3):
            words[tile, at : at + 3] = draw.integers([-5, 1 << 16, 0], [99, 1 << 17, 5])
        angles = draw.random(16) * 7
        pairs = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(-1)
        words[tile, layout.TABLE : layout.BELOW] = np.round(pairs * 65536)
        below = draw.integers(-(1 << 16), WORD_MAX, 8) >> draw.integers(0, 31, 8)
        words[tile, layout.BELOW : layout.MAXIMA] = below
        words[tile, layout.MAXIMA : layout.GAINS] = draw.integers(-8, 60, 8)
        words[tile, layout.GAINS : layout.WORK] = draw.integers(-(1 << 17), 1 << 17, 32)
    return words.astype(np.int32)


def _scales(arch: Arch, draw: np.random.Generator) -> NDArray[np.int16]:
    """Scale codes with mantissas; a few exponents are extreme."""
    shape = (arch.tiles, arch.store_beats, arch.blocks_per_beat)
    k = max(arch.numeric.weight.mantissa_bits, arch.numeric.kv.mantissa_bits)
    exponents = draw.integers(-16, 2, shape)
    exponents = np.where(draw.random(shape) < LOUD, draw.choice([-128, -64, 127], shape), exponents)
    return ((exponents << k) | draw.integers(0, 1 << k, shape)).astype(np.int16)
