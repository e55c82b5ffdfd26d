"""SUM, MAX and MERGE."""

from bench import verilog_of
from vector_bench import Bench, Case, drawn

from tokenpath.hw.arch.isa import Op
from tokenpath.hw.arch.numeric import NO_ROWS, WORD_MAX, WORD_MIN
from tokenpath.hw.vector_combine import VectorCombine


def test_drawn_instructions_reach_the_corners():
    bench = Bench(vlanes=4, part=VectorCombine)
    counts = bench.run(drawn((Op.SUM, Op.MAX, Op.MERGE), 70, 1, bench))
    for name in ("SUM", "MAX", "MERGE"):
        for corner in ("of nothing", "in place", "with a rest"):
            assert counts[f"{name} {corner}"], (name, corner)
    assert counts["SUM wraps"]


def test_a_sum_that_comes_back_into_range_does_not_wrap():
    operands = {"dst": 100, "src": 0, "aux": 2, "n": 2, "m": 4}
    there_and_back = [WORD_MAX, 1, WORD_MAX, 0, WORD_MIN, 0, WORD_MIN, 0]
    counts = Bench(part=VectorCombine).run([Case(Op.SUM, operands, {0: there_and_back})])
    assert not counts["SUM wraps"]
    counts = Bench(part=VectorCombine).run(
        [Case(Op.SUM, operands, {0: [WORD_MAX, 1, 1, 0, 0, 0, 0, 0]})]
    )
    assert counts["SUM wraps"] == 1


def test_sums_far_outside_a_word_are_seen():
    operands = {"dst": 100, "src": 0, "aux": 0, "n": 2, "m": 256}  # the same slot each time
    counts = Bench(part=VectorCombine).run([Case(Op.SUM, operands, {0: [WORD_MIN, 1 << 24]})])
    assert counts["SUM wraps"] == 1
    records = [word for _ in range(9) for word in (0, 1 << 30, WORD_MIN)] + [34, 1, 1]
    Bench(part=VectorCombine).run(
        [Case(Op.MERGE, {"dst": 100, "src": 0, "aux": 3, "n": 1, "m": 10, "q": 1}, {0: records})]
    )


def test_slots_may_lie_backwards_or_on_one_another():
    words = {0: list(range(1, 20))}
    Bench(part=VectorCombine).run(
        [
            Case(Op.SUM, {"dst": 100, "src": 9, "aux": -3, "n": 3, "m": 4}, words),
            Case(Op.MAX, {"dst": 100, "src": 9, "aux": 0, "n": 3, "m": 2}, words),
        ]
    )


def test_merge_of_tiles_without_rows_and_of_maxima_far_apart():
    def records(*maxima: int) -> dict[int, list[int]]:
        return {0: [word for maximum in maxima for word in (maximum, 1 << 20, -7, 1 << 30, -1)]}

    operands = {"dst": 100, "src": 0, "aux": 5, "n": 3, "q": 1}
    cases = [
        Case(Op.MERGE, operands | {"m": len(maxima)}, records(*maxima))
        for maxima in (
            (NO_ROWS,),
            (NO_ROWS, NO_ROWS),
            (NO_ROWS, 3, NO_ROWS),
            (5, NO_ROWS, 2),
            (0, 1, 2, 3, 2, 1),
            (WORD_MIN, WORD_MAX, WORD_MIN),
            (0, 30, 31, 32),
            (64, 1, 2),
        )
    ]
    Bench(vlanes=4, part=VectorCombine).run(cases)


def test_verilog():
    assert "module dut" in verilog_of(VectorCombine(vlanes=2, address_bits=8))
