"""Bounds: counted by hand, and below what a program really does."""

import math
from dataclasses import replace

import pytest
from synthetic import small_model, small_shape

from tokenpath.hw.arch.isa import COLUMN, Engine, Op
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.timing import put_flits
from tokenpath.sw.bound import bounds, demand
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import plan

TINY = PRESETS["tiny"]
EVEN = {"d_model": 16, "ffn": 24, "head_dim": 8}  # multiples of a beat: nothing is padded


def test_the_demand_of_a_small_model_by_hand():
    shape = small_shape(windows=(3, None))  # 2 layers, 4 heads of 4 over 2, width 12, ffn 11
    need = demand(plan(shape, TINY), position=9)
    weights = 2 * (12 * (16 + 8 + 8) + 16 * 12 + 3 * 11 * 12) + 19 * 12
    rows = 3 + 10  # a window of three, and all ten positions
    assert need.macs == weights + 2 * rows * 16
    assert need.beats == weights // 8 + 2 * rows * 2  # a KV row is one beat
    assert (need.collectives, need.words) == (2 * 2 + 1, 12)


def work(program, position):
    """(MACs of DOT, SCORE and AXPY; beats streamed to them) of one tile in one step."""
    registers = {r: value for _, r, value in program.step_registers(position, 0)}
    macs = beats = 0
    for row in program.code[0].engines[Engine.COMPUTE]:
        op = row[COLUMN["op"]]
        if op in (Op.DOT, Op.SCORE, Op.AXPY):
            n, m = (row[COLUMN[x]] + registers.get(row[COLUMN[f"{x}_reg"]], 0) for x in "nm")
            macs += n * m * (row[COLUMN["q"]] or 1)
            beats += n * program.arch.row_beats(m)
    return macs, beats


@pytest.mark.parametrize("position", [0, 1, 9, 15])
def test_one_tile_does_exactly_what_is_demanded_if_nothing_is_padded(position):
    spec = small_model(windows=(3, None), **EVEN)
    mapping = plan(spec.shape, TINY.on("mesh:1x1"))
    need = demand(mapping, position)
    assert work(lower(mapping, spec, values=False), position) == (need.macs, need.beats)


def test_padding_and_repeated_streams_are_not_demanded():
    spec = small_model(heads=6)  # three query heads a KV head, two at a time
    mapping = plan(spec.shape, TINY.on("mesh:1x1"))
    need = demand(mapping, 9)
    macs, beats = work(lower(mapping, spec, values=False), 9)
    assert need.macs < macs and need.beats < beats


def test_each_layer_of_the_machine_has_its_bound():
    mapping = plan(small_shape(), TINY)
    need, bound = demand(mapping, 9), bounds(mapping, 9)
    assert bound["compute"] == math.ceil(need.macs / (4 * 8 * 2))  # tiles x lanes x queries
    assert bound["memory"] == math.ceil(need.beats / 4)
    latency = TINY.topology.diameter_cycles + put_flits(9, 2)  # 12 words, a quarter is at home
    assert latency <= bound["interconnect"] <= need.collectives * latency


def test_one_tile_talks_to_nobody():
    assert bounds(plan(small_shape(), TINY.on("mesh:1x1")), 9)["interconnect"] == 0


def test_more_of_anything_lowers_its_bound():
    shape = small_shape()
    one, four = (bounds(plan(shape, TINY.on(f"flat:{n}")), 9) for n in (1, 4))
    assert four["compute"] < one["compute"] and four["memory"] < one["memory"]
    wide = bounds(plan(shape, replace(TINY, queries=4)), 9)
    assert wide["compute"] < bounds(plan(shape, TINY), 9)["compute"]
    near, far = (bounds(plan(shape, TINY.on(t)), 9) for t in ("full4@die", "full4@rack"))
    assert near["interconnect"] < far["interconnect"]
