"""Sums of blocks against numeric.dot_term, at their latency."""

import random

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.block_sum import BlockSum


def block_sum(lanes, block):
    return BlockSum(
        lanes=lanes, block=block, product_bits=16, mantissa_bits=8, down_bits=10, row_beats=3
    )


@pytest.mark.parametrize(("lanes", "block"), [(4, 4), (8, 4), (12, 4), (8, 8)])
@pytest.mark.parametrize("idle", [0.0, 0.4])
def test_each_row_has_its_sum_six_cycles_after_its_last_beat(lanes, block, idle):
    dut, rng = block_sum(lanes, block), random.Random(lanes + block)
    blocks, limit = lanes // block, numeric.term_limit(12)
    sums, clamps = {}, {}

    async def bench(ctx):
        ctx.set(dut.limit, limit)
        left, total, begins = 0, 0, True
        for t in range(80):
            if t in sums:
                assert ctx.get(dut.sum) == sums[t]
            assert ctx.get(dut.done) == (t in sums)
            assert ctx.get(dut.clamped) == clamps.get(t, 0)
            valid = rng.random() >= idle
            products = [rng.choice([-32768, 32767, rng.randint(-99, 99)]) for _ in range(lanes)]
            mantissas = [rng.randint(1, 255) for _ in range(blocks)]
            downs = [rng.choice([-40, -2, 4, 8, 12, 60, 99]) for _ in range(blocks)]
            if valid:
                left = left or rng.randint(1, 3)
                total, clamped = 0 if begins else total, 0
                for b in range(blocks):
                    value = sum(products[b * block : (b + 1) * block]) * mantissas[b]
                    term = numeric.shift_round(value, downs[b])
                    kept = numeric.clamp_term(term, limit)
                    total, clamped = total + kept, clamped + (kept != term)
                clamps[t + BlockSum.LATENCY] = clamped
                left -= 1
                ctx.set(dut.first, begins)
                ctx.set(dut.last, left == 0)
                begins = left == 0
                if not left:
                    sums[t + BlockSum.LATENCY] = total
            ctx.set(dut.valid, valid)
            ctx.set(dut.products, products)
            ctx.set(dut.mantissas, mantissas)
            ctx.set(dut.downs, downs)
            await ctx.tick()

    simulate(dut, bench)
    assert any(clamps.values()) and len(sums) > 10


def test_a_sum_may_need_more_than_a_word():
    dut = block_sum(8, 4)

    async def bench(ctx):
        ctx.set(dut.limit, 2**31 - 1)
        ctx.set(dut.products, [32767] * 8)
        ctx.set(dut.mantissas, [255] * 2)
        ctx.set(dut.downs, [-30] * 2)
        for beat in range(3):
            ctx.set(dut.valid, 1)
            ctx.set(dut.first, beat == 0)
            ctx.set(dut.last, beat == 2)
            await ctx.tick()
        ctx.set(dut.valid, 0)
        await ctx.tick().repeat(5)
        assert ctx.get(dut.done) and ctx.get(dut.sum) == 6 * (2**31 - 1)

    simulate(dut, bench)


def test_it_converts():
    assert "module block_sum" in verilog_of(block_sum(8, 4), "block_sum")
