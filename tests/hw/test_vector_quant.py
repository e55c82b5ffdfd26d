"""QUANT."""

import pytest
from bench import verilog_of
from vector_bench import Bench, Case, drawn

from tokenpath.hw.arch.isa import Op
from tokenpath.hw.arch.numeric import WORD_MAX, WORD_MIN
from tokenpath.hw.vector_quant import VectorQuant


@pytest.mark.parametrize(
    "machine",
    [
        {"vlanes": 2, "lanes": 8, "block": 4},
        {"vlanes": 4, "lanes": 12, "block": 4, "formats": ((16, 7), (4, 0))},
        {"vlanes": 8, "lanes": 8, "block": 4, "formats": ((4, 0), (8, 7))},
        {"vlanes": 4, "lanes": 16, "block": 16, "formats": ((8, 0), (8, 3))},
    ],
)
def test_drawn_instructions_reach_the_corners(machine):
    bench = Bench(**machine)
    counts = bench.run(drawn([Op.QUANT], 40, 6, bench))
    for corner in ("of nothing", "with a rest"):
        assert counts[f"QUANT {corner}"], corner


def test_blocks_of_zeros_and_rails_and_scales_that_round_up():
    blocks = [
        [0, 0, 0, 0],
        [WORD_MIN, WORD_MAX, 0, 1],
        [127 << 8, -128 << 8, 1, 0],
        [(1 << 20) - 1, -(1 << 20), 5, 3],
        [1, 0, 0, -1],
        [-1, 0, 0, 0],
    ]
    words = {0: [word for block in blocks for word in block]}
    cases = [
        Case(Op.QUANT, {"dst": 1, "src": 0, "n": n, "m": 1, "x": 16, "y": y}, words)
        for n in (24, 23, 20, 17, 4, 3)
        for y in (0, 1)
    ]
    for formats in (((8, 3), (8, 0)), ((16, 7), (4, 1))):
        Bench(formats=formats).run(cases)


def test_the_blocks_behind_the_last_one_of_a_vector_become_zeros():
    full = Case(Op.QUANT, {"dst": 0, "src": 0, "n": 24, "m": 2, "y": 0}, {0: [77] * 48})
    short = Case(Op.QUANT, {"dst": 0, "src": 0, "n": 5, "m": 2, "y": 0})
    Bench(lanes=12).run([full, short])


def test_verilog():
    dut = VectorQuant(
        vlanes=2, lanes=8, block=4, queries=2, beats=8, formats=((8, 3), (4, 0)), address_bits=8
    )
    assert "module dut" in verilog_of(dut)
