"""When operations on a stream take beats and end, against timing.py."""

import random

import pytest
from amaranth.hdl import Fragment
from bench import simulate, verilog_of

from tokenpath.hw.arch import timing
from tokenpath.hw.arch.isa import Op
from tokenpath.hw.lane_control import LaneControl

Q = 3


def control(lanes=8, vlanes=4):
    return LaneControl(lanes=lanes, vlanes=vlanes, length_bits=8, index_bits=2)


def drain_cycles(op, m, vlanes):
    return (Q * timing.beats(m, vlanes) if op == Op.AXPY else 0) + timing.beats(Q, vlanes)


@pytest.mark.parametrize("idle", [0.0, 0.5])
@pytest.mark.parametrize(("lanes", "vlanes"), [(8, 4), (4, 4), (16, 4)])
def test_beats_and_done_are_exactly_in_time(lanes, vlanes, idle):
    dut, rng = control(lanes, vlanes), random.Random(lanes)
    ops = [
        (op, n, m)
        for op in (Op.DOT, Op.SCORE, Op.AXPY, Op.LOAD) for n in (0, 1, 4)
        for m in (1, lanes, 2 * lanes + 1)
    ]  # fmt: skip
    rng.shuffle(ops)

    async def bench(ctx):
        ctx.set(dut.weight_ready, 1)
        t = 0
        for op, n, m in ops:
            left, there = n * timing.beats(m, lanes), False
            total, start = left, t
            free = t + 1 + timing.stream_prologue(op)
            epilogue = timing.stream_epilogue(op, m, Q, vlanes)
            ends = None if left else t + timing.stream_prologue(op) + epilogue
            for name, value in (("op", op), ("n", n), ("m", m)):
                ctx.set(getattr(dut, name), value)
            drained = None
            while True:
                there = left > 0 and (there or rng.random() >= idle)
                ctx.set(dut.start, t == start)
                ctx.set(dut.valid, there)
                if ctx.get(dut.drain_start):
                    drained = t + drain_cycles(op, m, vlanes)
                ctx.set(dut.drain_last, drained == t)
                takes = there and t >= free
                assert ctx.get(dut.taken) == takes
                if takes:
                    row, index = divmod(total - left, timing.beats(m, lanes))
                    assert ctx.get(dut.index) == index
                    assert ctx.get(dut.first) == (index == 0)
                    assert ctx.get(dut.first_row) == (row == 0)
                    assert ctx.get(dut.left) == m - index * lanes
                    left, there = left - 1, False
                    free = t + timing.beat_interval(op, lanes, vlanes)
                    ends = None if left else t + epilogue
                assert ctx.get(dut.done) == (t == ends), (op, n, m, t - start)
                await ctx.tick()
                t += 1
                if t - 1 == ends:
                    break

    simulate(dut, bench)


def test_a_row_waits_for_its_weight():
    dut = control()

    async def bench(ctx):
        for name, value in (("op", Op.AXPY), ("n", 1), ("m", 3), ("start", 1), ("valid", 1)):
            ctx.set(getattr(dut, name), value)
        await ctx.tick()
        ctx.set(dut.start, 0)
        await ctx.tick().repeat(20)
        assert not ctx.get(dut.ready)
        ctx.set(dut.weight_ready, 1)
        assert ctx.get(dut.ready)

    simulate(dut, bench)


@pytest.mark.parametrize("vlanes", [2, 4, 8])
def test_a_load_has_time_to_write_its_last_beat(vlanes):
    dut = control(32, vlanes)
    Fragment.get(dut, None)
    assert dut.load_cycles == max(timing.FILL_LATENCY, 2 + 32 // vlanes)


def test_it_converts():
    assert "module lane_control" in verilog_of(control(), "lane_control")
