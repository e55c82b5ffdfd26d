"""The vector unit against the golden one: words, counts and cycles, all operations in turn."""

import gc
import random

import pytest
from bench import verilog_of
from vector_bench import Bench, draw, drawn

from tokenpath.hw.arch.isa import ENGINE_OPS, STREAM_OPS, Engine, Op
from tokenpath.hw.vector_unit import OPS, VectorUnit

SIZE = {"vlanes": 2, "lanes": 8, "block": 4, "queries": 2, "beats": 8, "address_bits": 9}
FORMATS = ((8, 3), (4, 0))


@pytest.mark.parametrize(
    "machine",
    [
        {"vlanes": 2, "lanes": 8, "block": 4},
        {"vlanes": 4, "lanes": 4, "block": 4, "formats": ((16, 7), (4, 0))},
        {"vlanes": 8, "lanes": 8, "block": 4, "formats": ((4, 0), (8, 7))},
        {"vlanes": 2, "lanes": 24, "block": 8, "formats": ((8, 0), (8, 3))},
    ],
)
def test_all_operations_in_turn_with_and_without_gaps(machine):
    bench, rng = Bench(**machine), random.Random(3)
    counts = bench.run(drawn(draw, 40, 4, bench), lambda: rng.choice((0, 0, 0, rng.randint(1, 14))))
    assert sum(counts[op.name] for op in draw) > 30


def test_each_operation_behind_each_other_one():
    bench, rng = Bench(vlanes=2), random.Random(5)
    pairs = [(a, b) for a in draw for b in draw]
    rng.shuffle(pairs)
    bench.run(draw[op](rng, bench) for pair in pairs[:25] for op in pair)


def test_it_executes_what_the_lanes_do_not():
    assert set(OPS) == ENGINE_OPS[Engine.COMPUTE] - STREAM_OPS - {Op.SYNC} == set(draw)


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="vlanes 3 is not a power of two; give 2, 4, 8"):
        VectorUnit(**SIZE | {"vlanes": 3}, formats=FORMATS)
    with pytest.raises(ValueError, match="address_bits 40 is too wide; give at most 32"):
        VectorUnit(**SIZE | {"address_bits": 40}, formats=FORMATS)
    gc.collect()  # what was refused is never elaborated


def test_verilog_is_the_same_twice():
    one, two = (verilog_of(VectorUnit(**SIZE, formats=FORMATS)) for _ in range(2))
    assert one == two
    assert "module dut" in one
