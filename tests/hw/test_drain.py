"""The walk over accumulators and single words."""

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.arch.timing import beats
from tokenpath.hw.drain import Drain


def drain(lanes=8, vlanes=4, queries=3):
    return Drain(
        lanes=lanes, vlanes=vlanes, queries=queries, beats=3, address_bits=10, length_bits=8
    )


def walk(lanes, vlanes, q, m, vectors):
    """What is written, a tuple a cycle."""
    steps = []
    for query in range(q if vectors else 0):
        for at in range(0, m, vlanes):
            place = at // lanes, at % lanes // vlanes
            steps.append((False, query, *place, 100 + query * m + at, min(vlanes, m - at)))
    for query in range(0, q, vlanes):
        steps.append((True, query, None, None, 700 + query, min(vlanes, q - query)))
    return steps


@pytest.mark.parametrize(("lanes", "vlanes"), [(8, 4), (4, 4), (8, 2)])
def test_each_word_once_in_order(lanes, vlanes):
    dut = drain(lanes, vlanes)

    async def bench(ctx):
        ctx.set(dut.vectors_at, 100)
        ctx.set(dut.tail_at, 700)
        cases = [(q, m, v) for q in range(4) for m in (0, 1, lanes, 2 * lanes + 3) for v in (0, 1)]
        for q, m, vectors in cases:
            for name, value in (("start", 1), ("q", q), ("m", m), ("vectors", vectors)):
                ctx.set(getattr(dut, name), value)
            steps = walk(lanes, vlanes, q, m, vectors)
            assert len(steps) == vectors * q * beats(m, vlanes) + beats(q, vlanes)
            assert ctx.get(dut.last) == (q == 0)
            assert ctx.get(dut.count) == 0
            await ctx.tick()
            ctx.set(dut.start, 0)
            for left, (tail, query, beat, group, address, count) in zip(
                range(len(steps) - 1, -1, -1), steps, strict=True
            ):
                got = [ctx.get(getattr(dut, n)) for n in ("tail", "query", "address", "count")]
                assert got == [tail, query, address, count], (q, m, vectors)
                if not tail:
                    assert (ctx.get(dut.beat), ctx.get(dut.group)) == (beat, group)
                assert ctx.get(dut.last) == (left == 0)
                await ctx.tick()
            assert ctx.get(dut.count) == 0 and not ctx.get(dut.last)

    simulate(dut, bench)


def test_lanes_that_are_no_multiple_are_refused():
    with pytest.raises(ValueError, match="lanes 8 is not a multiple of vlanes 3"):
        drain(8, 3)


def test_it_converts():
    assert "module drain" in verilog_of(drain(), "drain")
