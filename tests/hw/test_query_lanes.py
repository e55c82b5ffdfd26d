"""One query's multipliers: latencies of sums and accumulators, and when clamped terms count."""

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.query_lanes import QueryLanes

K = 3
ELEMENTS, OTHERS = [100, -127, 3, 4, 5, 6, 7, -8], [-9, 127, 11, 12, 13, 14, -15, 16]
CODES, OTHER_CODES = [(-3 << K) | 5, (-2 << K) | 1], [(-4 << K) | 7, (-6 << K)]


def lanes():
    return QueryLanes(
        lanes=8, block=4, element_bits=8, act_bits=8, scale_bits=11, weight_mantissa_bits=K,
        kv_mantissa_bits=K, act_mantissa_bits=K, shift_bits=12, operand_beats=4,
        accumulator_beats=2,
    )  # fmt: skip


async def take(ctx, dut):
    """One beat that is all of a row, in this cycle and with its elements in the next."""
    ctx.set(dut.codes, CODES)
    for name in ("taken", "first", "last", "first_row"):
        ctx.set(getattr(dut, name), 1)
    await ctx.tick()
    ctx.set(dut.taken, 0)
    ctx.set(dut.codes, [0, 0])
    ctx.set(dut.elements, ELEMENTS)
    ctx.set(dut.operand, {"elements": OTHERS, "scales": OTHER_CODES})
    await ctx.tick()
    ctx.set(dut.elements, [0] * 8)


@pytest.mark.parametrize("headroom", [8, 28])
@pytest.mark.parametrize("enabled", [0, 1])
def test_a_sum_is_there_eight_cycles_behind_its_beat(headroom, enabled):
    dut, limit, frac = lanes(), numeric.term_limit(headroom), 6
    terms = [
        numeric.dot_term(
            sum(a * b for a, b in zip(ELEMENTS[s], OTHERS[s], strict=True)),
            code, other, K, K, frac,
        )
        for s, code, other in zip((slice(4), slice(4, 8)), CODES, OTHER_CODES, strict=True)
    ]  # fmt: skip
    kept = [numeric.clamp_term(term, limit) for term in terms]

    async def bench(ctx):
        ctx.set(dut.enabled, enabled)
        ctx.set(dut.limit, limit)
        ctx.set(dut.dot_frac, 2 * K - frac)
        await take(ctx, dut)
        clamped = 0
        for cycle in range(2, 12):
            assert ctx.get(dut.done) == (cycle == 8)
            if cycle == 8:
                assert ctx.get(dut.sum) == sum(kept)
            clamped += ctx.get(dut.clamped)
            await ctx.tick()
        assert clamped == enabled * sum(a != b for a, b in zip(terms, kept, strict=True))

    simulate(dut, bench)
    assert (terms != kept) == (headroom == 28)


def test_accumulators_may_be_read_five_cycles_behind_the_last_beat():
    dut, mantissa, shift, frac = lanes(), 200, 9, 4
    down = [shift + K - numeric.scale_exponent(code, K) - frac for code in CODES]
    factor = [mantissa * numeric.scale_mantissa(code, K) for code in CODES]
    words = [numeric.shift_round(factor[i // 4] * e, down[i // 4]) for i, e in enumerate(ELEMENTS)]

    async def bench(ctx):
        for name, value in (("adds", 1), ("limit", 2**20), ("add_frac", K - frac), ("index", 1)):
            ctx.set(getattr(dut, name), value)
        ctx.set(dut.mantissa, mantissa)
        ctx.set(dut.shift, shift)
        await take(ctx, dut)
        await ctx.tick().repeat(3)
        ctx.set(dut.drain_index, 1)
        await ctx.tick()
        assert [ctx.get(dut.words[i]) for i in range(8)] == words
        assert any(words) and not ctx.get(dut.done)

    simulate(dut, bench)


def test_it_converts():
    assert "module query_lanes" in verilog_of(lanes(), "query_lanes")
