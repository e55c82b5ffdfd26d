import random

from bench import simulate

from tokenpath.hw.counters import Counters

NAMES = ("one", "two", "three")


def test_each_event_is_counted_and_read_a_cycle_later():
    dut, rng, seen = Counters(events=NAMES, bits=4), random.Random(1), []

    async def testbench(ctx):
        totals = [0, 0, 0]
        for _ in range(120):
            which = rng.randrange(3)
            ctx.set(dut.address, which)
            high = [rng.random() < share for share in (0.1, 0.5, 0.9)]
            for name, value in zip(NAMES, high, strict=True):
                ctx.set(getattr(dut, name), value)
            want = totals[which] % 16
            totals = [total + value for total, value in zip(totals, high, strict=True)]
            await ctx.tick()
            seen.append((ctx.get(dut.word), want))
        assert totals[0] > 3 and totals[2] > 32, "all count, one wraps twice"

    simulate(dut, testbench)
    assert all(word == want for word, want in seen)
    assert len({word for word, _ in seen}) == 16
