import random
from collections import deque

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.fifo import InputBuffer


@pytest.mark.parametrize(
    "vcs,depth", [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 3), (3, 4), (4, 5), (8, 4), (1, 16)]
)
def test_queues_in_order(vcs, depth):
    dut, rng = InputBuffer(vcs=vcs, depth=depth, data_bits=8, tag_bits=3), random.Random(depth)
    queues = [deque() for _ in range(vcs)]

    async def bench(ctx):
        corners = set()
        for cycle in range(600):
            eager = 0.8 if cycle // 50 % 2 else 0.3  # fills up, then empties
            for v, queue in enumerate(queues):
                assert ctx.get(dut.filled[v]) == bool(queue)
                assert ctx.get(dut.tags[v]) == (queue[0][1] if queue else 0)
            to, at = rng.randrange(vcs), rng.randrange(vcs)
            entry = (rng.getrandbits(8), rng.getrandbits(3))
            push = rng.random() < eager and len(queues[to]) < depth
            pop = rng.random() < 1 - eager and bool(queues[at])
            corners.add((len(queues[to]) + push == depth, pop, push))
            ctx.set(dut.push, push)
            ctx.set(dut.push_vc, to)
            ctx.set(dut.push_data, entry[0])
            ctx.set(dut.push_tag, entry[1])
            ctx.set(dut.select, at)
            ctx.set(dut.pop, pop << at)
            if queues[at]:
                assert ctx.get(dut.data) == queues[at][0][0]
            await ctx.tick()
            if pop:
                queues[at].popleft()
            if push:
                queues[to].append(entry)
        assert {(True, False, True), (True, False, False)} <= corners

    simulate(dut, bench)


@pytest.mark.parametrize("vcs,depth", [(1, 1), (1, 4), (2, 3)])
def test_verilog(vcs, depth):
    assert "module dut" in verilog_of(InputBuffer(vcs=vcs, depth=depth, data_bits=8, tag_bits=3))
