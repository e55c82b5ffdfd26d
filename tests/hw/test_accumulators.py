"""Accumulators: a beat a cycle onto any beat, modulo 2**32."""

import random

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.accumulators import Accumulators
from tokenpath.hw.arch.numeric import wrap


@pytest.mark.parametrize("idle", [0.0, 0.4])
@pytest.mark.parametrize("beats", [1, 2, 3])
def test_sums_are_complete_two_cycles_after_the_last_beat(beats, idle):
    dut, rng = Accumulators(lanes=3, beats=beats), random.Random(beats)

    async def bench(ctx):
        for _ in range(3):
            sums, pending = [[0] * 3 for _ in range(beats)], None
            adds = [(row, beat) for row in range(5) for beat in range(beats)]
            while adds:
                valid = rng.random() >= idle
                ctx.set(dut.valid, valid)
                ctx.set(dut.drain_index, rng.randrange(beats))
                ctx.set(dut.terms, pending or [rng.randint(-9, 9) for _ in range(3)])
                pending = None
                if valid:
                    row, beat = adds.pop(0)
                    ctx.set(dut.index, beat)
                    ctx.set(dut.fresh, row == 0)
                    pending = [rng.choice([2**31 - 1, -(2**31), 5]) for _ in range(3)]
                    before = sums[beat] if row else [0] * 3
                    sums[beat] = [wrap(a + b) for a, b in zip(before, pending, strict=True)]
                await ctx.tick()
            ctx.set(dut.valid, 0)
            ctx.set(dut.terms, pending)
            await ctx.tick()  # the sums may be read from here on
            for beat in range(beats):
                ctx.set(dut.drain_index, beat)
                await ctx.tick()
                assert [ctx.get(dut.words[i]) for i in range(3)] == sums[beat]

    simulate(dut, bench)


def test_it_converts():
    assert "module accumulators" in verilog_of(Accumulators(lanes=3, beats=2), "accumulators")
