"""One query with its memories: rows of scores, resident vectors, weights."""

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.query import Query
from tokenpath.hw.weights import Weights

FRAC = 8


def query():
    return Query(
        lanes=4, block=4, element_bits=8, act_bits=8, scale_bits=8, weight_mantissa_bits=0,
        kv_mantissa_bits=0, act_mantissa_bits=0, score_frac=FRAC, operand_beats=4, score_rows=8,
        accumulator_beats=2,
    )  # fmt: skip


async def score(ctx, dut, rows):
    """SCORE rows of two beats: ``rows`` are pairs of beats of elements; src 1, bux 3."""
    for beat in range(3):
        ctx.set(dut.operand_blocks, 1)
        ctx.set(dut.operand_address, beat)
        ctx.set(dut.operand_beat, {"elements": [beat, 1, 1, -1], "scales": [0]})
        await ctx.tick()
    ctx.set(dut.operand_blocks, 0)
    for name, value in (("src", 1), ("bux", 3), ("scored", 1), ("dot_frac", -FRAC), ("start", 1)):
        ctx.set(getattr(dut, name), value)
    ctx.set(dut.limit, 1 << 20)
    await ctx.tick()
    ctx.set(dut.start, 0)
    for beats in rows:
        for at, elements in enumerate(beats):
            ctx.set(dut.taken, 1)
            ctx.set(dut.first, at == 0)
            ctx.set(dut.last, at == 1)
            await ctx.tick()
            ctx.set(dut.elements, elements)
    ctx.set(dut.taken, 0)
    await ctx.tick().repeat(9)


ROWS = [([1, 2, 3, 4], [5, 6, 7, 8]), ([9, 8, 7, -6], [-5, 4, 3, 2]), ([0, 0, 0, 0], [1, 1, 1, 1])]
SCORES = [sum(a * b for a, b in zip(row[0] + row[1], [1, 1, 1, -1, 2, 1, 1, -1], strict=True))
          for row in ROWS]  # fmt: skip


@pytest.mark.parametrize("enabled", [0, 1])
def test_scores_of_an_enabled_query_are_kept_and_weighed(enabled):
    dut = query()

    async def bench(ctx):
        ctx.set(dut.enabled, enabled)
        await score(ctx, dut, ROWS)
        maximum = max(SCORES) if enabled else numeric.NO_ROWS
        assert ctx.get(dut.running) == maximum
        ctx.set(dut.scored, 0)
        ctx.set(dut.adds, 1)
        ctx.set(dut.sum_frac, 14)
        ctx.set(dut.maximum, max(SCORES))
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        ctx.set(dut.advance, 1)
        for t in range(Weights.STAGES + 1 + len(ROWS)):
            ctx.set(dut.row, 3 + min(t, len(ROWS) - 1))
            ctx.set(dut.used, t > Weights.STAGES)
            await ctx.tick()
        ctx.set(dut.used, 0)
        await ctx.tick().repeat(4)
        kept = [s << FRAC if enabled else 0 for s in SCORES]
        total = 0
        for value in kept:
            value -= max(SCORES) << FRAC
            mantissa = numeric.weight_mantissa(value, FRAC, 8)
            total += numeric.shift_round(mantissa, 7 - (value >> FRAC) - 14)
        assert ctx.get(dut.total) == total

    simulate(dut, bench)


def test_it_converts():
    assert "module query" in verilog_of(query(), "query")
