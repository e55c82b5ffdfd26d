from dataclasses import replace

import numpy as np
import pytest
from pairs import SMALL, STORE_BEATS, TILES, Pair

from tokenpath.hw.arch.params import PRESETS
from tokenpath.sim.fast.memories import (
    HEADROOMS,
    SUM_FRAC,
    Values,
    make_values,
    params_of,
    place,
    work_words,
)
from tokenpath.sim.fast.state import addresses


def test_memories_start_as_the_program_says():
    pair = Pair(SMALL)
    values, program = make_values(pair.program), pair.program
    shared, own = np.asarray(program.vector_shared), np.asarray(program.vector_tile)
    for tile in range(TILES):
        assert (values.vector[tile] == np.concatenate([shared, own[tile]])).all()
    assert (values.elements == np.asarray(program.elements)).all()
    assert (values.scales == np.asarray(program.scales)).all()
    assert not any(getattr(values, name).any() for name in Values._fields[3:9] if name != "work")


def test_the_program_keeps_its_image_of_the_store():
    program = Pair(SMALL).program
    before = bytes(program.elements)
    make_values(program).elements[:] = 77
    assert bytes(program.elements) == before


def test_a_program_without_weights_needs_no_memories():
    program = replace(Pair(SMALL).program, elements=None, scales=None)
    values = make_values(program)
    for name in ("vector", "elements", "scales", "operand", "append", "scores", "counters"):
        assert getattr(values, name).size == 0, name


def test_every_memory_is_typed_as_the_kernels_expect():
    """The addresses say nothing of types: the same for every machine."""
    wide = replace(SMALL, numeric=replace(SMALL.numeric, act=replace(SMALL.numeric.act, bits=16)))
    for arch in (SMALL, wide):
        assert len(addresses(Pair(arch).values)) == len(Values._fields)


@pytest.mark.parametrize("name", PRESETS)
def test_work_holds_the_largest_operation(name):
    arch = PRESETS[name]
    blocks = arch.queries * arch.operand_beats * arch.blocks_per_beat
    assert work_words(arch) >= arch.vector_words + 3 * max(256, blocks), (
        "a DOT as long as vector memory"
    )
    assert work_words(arch) >= arch.score_rows + 3 * max(256, blocks), "a SCORE of all rows"
    assert work_words(arch) >= 2 * arch.score_rows, "an AXPY of all rows"


def test_params_have_the_fraction_bits_of_every_headroom():
    params = params_of(SMALL, STORE_BEATS, 1)
    assert len(params) == SUM_FRAC + HEADROOMS
    assert params[SUM_FRAC + 4] == SMALL.numeric.sum_frac(4) == 16
    assert params[SUM_FRAC + 20] == SMALL.numeric.sum_frac(20) == 10


def test_place_counts_through_the_tiles_and_refuses_what_is_outside():
    assert place(0, 3, 2, 5) == 3
    assert place(2, 0, 5, 5) == 10
    assert place(1, 5, 0, 5) == 10
    for at, count in ((4, 2), (-1, 1), (0, -1), (6, 0)):
        with pytest.raises(IndexError, match="outside of a memory"):
            place(1, at, count, 5)


def test_the_store_has_the_beats_in_use():
    assert Pair(SMALL).values.elements.shape == (TILES, STORE_BEATS, SMALL.lanes)
