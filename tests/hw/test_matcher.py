import random

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.arch.allocation import Allocator
from tokenpath.hw.matcher import Matcher

KINDS = [("output_first", 1), ("output_first", 2), ("output_first", 3), ("wavefront", 1)]
ALL_OF_5 = [(i, o) for i in range(5) for o in range(5)]
SOME_OF_6 = [(i, o) for i in range(6) for o in range(1, 6) if i != o and (i * o) % 5 != 3]


@pytest.mark.parametrize("arbiter", ["round_robin", "matrix"])
@pytest.mark.parametrize(("kind", "iterations"), KINDS)
@pytest.mark.parametrize(
    ("ports", "pairs"), [(1, [(0, 0)]), (2, [(0, 1), (1, 0)]), (5, ALL_OF_5), (6, SOME_OF_6)]
)
def test_every_cycle_is_the_rules(ports, pairs, kind, iterations, arbiter):
    # an output of its own for each VC: an input asks for several at once
    rule = Allocator(ports=ports, vcs=ports, kind=kind, iterations=iterations, arbiter=arbiter)
    dut = Matcher(
        ports=ports, pairs=pairs, kind=kind, iterations=iterations,
        arbiter="matrix" if arbiter == "matrix" else "pairs",
    )  # fmt: skip
    rng = random.Random(ports)

    async def bench(ctx):
        sizes = set()
        for cycle in range(300):
            load = (0.1, 0.5, 1)[cycle // 30 % 3]
            asked = {pair for pair in pairs if rng.random() < load}
            ctx.set(dut.requests.as_value(), sum(1 << i * ports + o for i, o in asked))
            found = [(i, o) for i, _, o in rule.cycle((i, o, o) for i, o in asked)]
            match = ctx.get(dut.match.as_value())
            assert match == sum(1 << i * ports + o for i, o in found)
            sizes.add(len(found))
            await ctx.tick()
        assert max(sizes) >= ports - 1

    simulate(dut, bench)


@pytest.mark.parametrize("kind", ["output_first", "wavefront"])
def test_verilog(kind):
    assert "module dut" in verilog_of(Matcher(ports=5, pairs=ALL_OF_5, kind=kind, iterations=1))
