"""Semaphores against plain counters, under random waits and posts."""

import random

from amaranth.sim import Simulator

from tokenpath.hw.clock import period
from tokenpath.hw.semaphores import Semaphores

COUNT, POSTS = 6, 4


def test_counts_equal_plain_counters() -> None:
    """Several posts and takes a cycle; each waiter has semaphores of its own."""
    dut = Semaphores(count=COUNT, bits=6, waiters=2, posts=POSTS)
    rng, counts, seen = random.Random(3), [0] * COUNT, set()

    async def bench(ctx):
        for _ in range(300):
            waits = [rng.choice((0, 1, 3)), rng.choice((0, 2, 4))]
            needs = [rng.randrange(4) for _ in waits]
            for w in range(2):
                ctx.set(dut.wait[w], waits[w])
                ctx.set(dut.need[w], needs[w])
            enough = [w == 0 or counts[w] >= n for w, n in zip(waits, needs, strict=True)]
            assert ctx.get(dut.enough) == enough[0] | enough[1] << 1
            takes = [e and rng.random() < 0.7 for e in enough]
            ctx.set(dut.take, takes[0] | takes[1] << 1)
            posts = [rng.randrange(COUNT) for _ in range(POSTS)]
            posting = [rng.random() < 0.25 for _ in posts]
            for p in range(POSTS):
                ctx.set(dut.post[p], posts[p])
            ctx.set(dut.posting, sum(on << p for p, on in enumerate(posting)))
            await ctx.tick()
            for semaphore, need, take in zip(waits, needs, takes, strict=True):
                counts[semaphore] -= need if take and semaphore else 0
            added = [s for s, on in zip(posts, posting, strict=True) if on and s]
            for semaphore in added:
                counts[semaphore] += 1
            seen.add((len(added) != len(set(added)), any(takes)))
        assert seen == {(a, b) for a in (False, True) for b in (False, True)}

    simulator = Simulator(dut)
    simulator.add_clock(period())
    simulator.add_testbench(bench)
    simulator.run()
