"""RMS, ROPE, SILU and DIV."""

import pytest
from bench import verilog_of
from vector_bench import Bench, Case, drawn

from tokenpath.hw.arch.isa import Op
from tokenpath.hw.arch.numeric import WORD_MAX, WORD_MIN
from tokenpath.hw.vector_scale import VectorScale


@pytest.mark.parametrize("op", [Op.RMS, Op.ROPE, Op.SILU, Op.DIV])
def test_drawn_instructions_reach_the_corners(op):
    bench = Bench(vlanes=4)
    counts = bench.run(drawn([op], 40, 2, bench))
    for corner in ("of nothing", "in place", "with a rest", "rails"):
        assert counts[f"{op.name} {corner}"], corner


def test_rms_of_zeros_of_rails_and_of_no_vectors():
    operands = {"dst": 100, "src": 0, "aux": 20, "bux": 30, "n": 5, "m": 2, "x": 14, "y": 16}
    constants, gains = [3, 75000, 1], [WORD_MAX, WORD_MIN, 1 << 16, 0, -5]
    words = ([0] * 10, [WORD_MIN] * 10, [0, 0, 1, 0, 0] * 2, [WORD_MAX, 1, 2, 3, 4] * 2)
    cases = [
        Case(Op.RMS, operands | {"q": q, "m": m}, {0: w, 20: constants, 30: gains})
        for w in words
        for q in (0, 1)
        for m in (0, 2)
    ]
    counts = Bench().run(cases)
    assert counts["RMS rails"]


def test_the_exponent_of_the_root_may_shift_either_way():
    operands = {"dst": 100, "src": 0, "aux": 20, "n": 4, "m": 1, "x": 14}
    cases = [
        Case(Op.RMS, operands | {"y": y}, {0: [5, -9, 700, -1], 20: [0, 1 << 16, exponent]})
        for exponent in (0, 15, 60, 1 << 20, -90, WORD_MIN, WORD_MAX)
        for y in (-20, 0, 60)
    ]
    Bench().run(cases)


def test_a_quotient_of_any_fraction_bits():
    operands = {"dst": 100, "src": 0, "aux": 20, "n": 3, "m": 3}
    words = {0: [1, -1, 0, WORD_MAX, WORD_MIN, 12345, 9, 9, 9], 20: [3, WORD_MAX, WORD_MIN]}
    cases = [
        Case(Op.DIV, operands | {"q": q, "x": x, "y": y}, words)
        for q in (0, 30, 255)
        for x in (-128, 0, 127)
        for y in (-128, 7, 127)
    ]
    Bench().run(cases)


def test_verilog():
    assert "module dut" in verilog_of(VectorScale(vlanes=2, address_bits=8))
