"""ARGMAX and ARGPAIR."""

import pytest
from bench import verilog_of
from vector_bench import Bench, Case, drawn

from tokenpath.hw.arch.isa import Op
from tokenpath.hw.arch.numeric import WORD_MIN
from tokenpath.hw.vector_best import VectorBest

OPS = (Op.ARGMAX, Op.ARGPAIR)


@pytest.mark.parametrize("vlanes", [2, 8, 32])
def test_drawn_instructions_with_many_ties(vlanes):
    bench = Bench(vlanes=vlanes, part=VectorBest)
    counts = bench.run(drawn(OPS, 40 if vlanes < 32 else 8, vlanes, bench))
    if vlanes < 32:
        for name in ("ARGMAX", "ARGPAIR"):
            for corner in ("of nothing", "in place", "with a rest"):
                assert counts[f"{name} {corner}"], (name, corner)


def test_the_first_of_equals_wherever_the_two_are():
    cases = []
    for first in range(8):
        for second in range(first + 1, 9):
            words = [WORD_MIN] * 9
            words[first] = words[second] = -5
            cases.append(Case(Op.ARGMAX, {"dst": 50, "src": 3, "n": 9, "aux": 7}, {3: words}))
    Bench(vlanes=4, part=VectorBest).run(cases)


def test_no_pairs_change_nothing():
    Bench(part=VectorBest).run(
        [Case(Op.ARGPAIR, {"dst": 4, "src": 0, "n": 0}, {0: [9, 9, 9, 9, 9, 9]})]
    )


def test_verilog():
    assert "module dut" in verilog_of(VectorBest(vlanes=4, address_bits=8))
