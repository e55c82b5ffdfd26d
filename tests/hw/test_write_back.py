"""What reaches the write port, and when."""

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.arch.isa import Op
from tokenpath.hw.write_back import WriteBack

LANES, QUERIES, VLANES = 4, 3, 2


def write_back():
    return WriteBack(
        lanes=LANES, queries=QUERIES, vlanes=VLANES, accumulator_beats=2, address_bits=8,
        length_bits=8,
    )  # fmt: skip


def written(dut, ctx, memory):
    at = ctx.get(dut.write.address)
    count = ctx.get(dut.write.count)
    for i in range(count):
        assert at + i not in memory
        memory[at + i] = ctx.get(dut.write.data[i])
    return count


async def start(ctx, dut, **operands):
    for name, value in operands.items():
        ctx.set(getattr(dut, name), value)
    ctx.set(dut.start, 1)
    await ctx.tick()
    ctx.set(dut.start, 0)


def test_sums_and_words_go_to_ascending_addresses():
    dut = write_back()

    async def bench(ctx):
        memory = {}
        await start(ctx, dut, op=Op.DOT, dst=30)
        for t in range(6):
            ctx.set(dut.done, t % 2)
            ctx.set(dut.count, 2)  # of no LOAD
            ctx.set(dut.result, -t)
            assert written(dut, ctx, memory) == t % 2
            await ctx.tick()
        assert memory == {30: -1, 31: -3, 32: -5}
        memory = {}
        await start(ctx, dut, op=Op.LOAD, dst=9)
        for t, count in enumerate([2, 0, 1, 2]):
            ctx.set(dut.count, count)
            ctx.set(dut.words, [t, 10 + t])
            written(dut, ctx, memory)
            await ctx.tick()
        assert memory == {9: 0, 10: 10, 11: 2, 12: 3, 13: 13}

    simulate(dut, bench)


@pytest.mark.parametrize("empty", [0, 1])
@pytest.mark.parametrize("q", [1, 2, 3])
def test_axpy_writes_its_words_two_cycles_behind_the_walk(q, empty):
    dut = write_back()
    m, sums = 7, [[[100 * i + 10 * b + k for k in range(4)] for b in (0, 1)] for i in range(3)]

    async def bench(ctx):
        memory, last = {}, []
        await start(ctx, dut, op=Op.AXPY, dst=30, aux=200, m=m, q=q, empty=empty)
        ctx.set(dut.totals, [-1, -2, -3])
        for t in range(22):
            ctx.set(dut.drain_start, t == 0)
            if ctx.get(dut.drain_last):
                last.append(t)
            count = written(dut, ctx, memory)
            assert bool(count) == (3 <= t <= 2 + q * 4 + -(-q // 2))
            beat = ctx.get(dut.drain_index)
            await ctx.tick()
            ctx.set(dut.sums, [sums[i][beat] for i in range(3)])
        assert last == [q * 4 + -(-q // 2)]
        expected = {200 + i: -1 - i for i in range(q)}
        for i in range(q):
            row = sums[i][0] + sums[i][1]
            expected |= {30 + i * m + k: 0 if empty else row[k] for k in range(m)}
        assert memory == expected

    simulate(dut, bench)


def test_score_writes_maxima_at_once_and_leaves_nothing_to_the_next():
    dut = write_back()

    async def bench(ctx):
        memory = {}
        await start(ctx, dut, op=Op.SCORE, dst=50, q=3)
        ctx.set(dut.maxima, [7, 8, 9])
        for t in range(3):
            ctx.set(dut.drain_start, t == 0)
            assert ctx.get(dut.drain_last) == (t == 2)
            written(dut, ctx, memory)
            await ctx.tick()
        assert memory == {50: 7, 51: 8, 52: 9}
        await start(ctx, dut, op=Op.AXPY, dst=60, m=4)
        for _ in range(5):
            assert not written(dut, ctx, memory)
            await ctx.tick()

    simulate(dut, bench)


def test_it_converts():
    assert "module write_back" in verilog_of(write_back(), "write_back")
