"""The factor of RMSNorm against numeric.rms_factor and rms_shift."""

import random

from bench import simulate, verilog_of
from vector_bench import sized

from tokenpath.hw.arch import numeric
from tokenpath.hw.vector_rms import RmsFactor

LANES = 2


def test_vectors_in_turn_with_their_constants():
    rng, dut = random.Random(1), RmsFactor(vlanes=LANES)

    async def testbench(ctx):
        for _ in range(60):
            root, exponent = rng.randrange(1 << 16, 1 << 17), rng.choice((0, 3, 10, -50, 90))
            eps, frac_in, frac_out = rng.choice((0, 1, 999, -5)), rng.randint(8, 20), 16
            ctx.set(dut.frac_out, frac_out)
            for name, words in (("load", (eps, root)), ("load_exponent", (exponent, 0))):
                for lane, word in enumerate(words):
                    ctx.set(dut.constants[lane], word)
                ctx.set(getattr(dut, name), 1)
                await ctx.tick()
                ctx.set(getattr(dut, name), 0)
            total, bits = eps, rng.choice((0, 5, 20, 31))
            for _ in range(rng.randint(1, 4)):
                words, count = sized(rng, LANES, bits, 0.2 if bits == 31 else 0), rng.randint(0, 2)
                total += sum(numeric.square(word) for word in words[:count])
                for lane, word in enumerate(words):
                    ctx.set(dut.squares[lane], word * word)
                ctx.set(dut.count, count)
                await ctx.tick()
            ctx.set(dut.count, 0)
            await ctx.tick().repeat(4)
            shift = numeric.rms_shift(total, exponent, frac_in, frac_out)
            assert ctx.get(dut.factor) == numeric.rms_factor(total, root)
            assert ctx.get(dut.shift) == max(-30, min(63, shift))

    simulate(dut, testbench)


def test_verilog():
    assert "module dut" in verilog_of(RmsFactor(vlanes=2))
