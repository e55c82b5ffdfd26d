"""APPEND: one beat a cycle, for exactly n cycles."""

from bench import simulate, verilog_of

from tokenpath.hw.appender import Appender

SHAPE = {"append_beats": 6, "lanes": 4, "block": 2, "element_bits": 4, "scale_bits": 9}


def appender():
    return Appender(address_bits=8, length_bits=8, **SHAPE)


def beat(seed):
    return {"elements": [seed, -seed, 1, 0], "scales": [seed, -64]}


def test_beats_follow_each_other_and_operations_too():
    dut, log, done = appender(), [], []
    layout = dut.append_beat.shape()

    async def bench(ctx):
        for at in range(6):
            ctx.set(dut.write_address, at)
            ctx.set(dut.write_beat, beat(at))
            ctx.set(dut.write_blocks, 3)
            await ctx.tick()
        ctx.set(dut.write_blocks, 0)
        starts = {0: (100, 1, 3), 4: (7, 5, 1), 6: (200, 0, 6)}
        for t in range(15):
            ctx.set(dut.start, t in starts)
            if t in starts:
                for name, value in zip(("dst", "src", "n"), starts[t], strict=True):
                    ctx.set(getattr(dut, name), value)
                assert not ctx.get(dut.instant)
            if ctx.get(dut.done):
                done.append(t)
            if ctx.get(dut.append_enable):
                log.append((t, ctx.get(dut.append_address), ctx.get(dut.append_beat)))
            await ctx.tick()

    simulate(dut, bench)
    assert done == [3, 5, 12]
    writes = [(1, 100, 1), (2, 101, 2), (3, 102, 3), (5, 7, 5)]
    writes += [(7 + i, 200 + i, i) for i in range(6)]
    assert log == [(t, address, layout.const(beat(at))) for t, address, at in writes]


def test_an_append_of_nothing_is_instant():
    dut = appender()

    async def bench(ctx):
        ctx.set(dut.start, 1)
        assert ctx.get(dut.instant)
        for _ in range(3):
            await ctx.tick()
            ctx.set(dut.start, 0)
            assert not ctx.get(dut.append_enable) and not ctx.get(dut.done)

    simulate(dut, bench)


def test_it_converts():
    assert "module appender" in verilog_of(appender(), "appender")
