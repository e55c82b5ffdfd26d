"""The stream reader and its credit rule, with the store, cycle by cycle."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from bench import simulate, verilog_of

from tokenpath.hw.reader import StreamReader
from tokenpath.hw.store import Store

SHAPE = {"lanes": 4, "block": 4, "element_bits": 4, "scale_bits": 9}
BEATS = 64


class Pair(wiring.Component):
    """A reader with its store, in which beat i has the scale i."""

    def __init__(self, *, depth, latency):
        self.reader = StreamReader(
            depth=depth, latency=latency, address_bits=6, length_bits=8, **SHAPE
        )
        self.store = Store(beats=BEATS, latency=latency, **SHAPE)
        super().__init__({})

    def elaborate(self, platform):
        m = Module()
        m.submodules.reader, m.submodules.store = self.reader, self.store
        m.d.comb += [
            self.store.read_enable.eq(self.reader.read_enable),
            self.store.read_address.eq(self.reader.read_address),
            self.reader.read_beat.eq(self.store.read_beat),
        ]
        return m


MOODS = {
    "eager": lambda r, t: True,
    "every third": lambda r, t: t % 3 == 0,
    "late": lambda r, t: t > 70,
    "random": lambda r, t: r.random() < 0.6,
}


async def fill(ctx, store):
    for i in range(BEATS):
        beat = {"elements": [i % 8] * 4, "scales": [i]}
        ctx.set(store.host.payload, {"address": i, "beat": beat})
        ctx.set(store.host.valid, 1)
        assert ctx.get(store.host.ready)
        await ctx.tick()
    ctx.set(store.host.valid, 0)


@pytest.mark.parametrize("mood", MOODS)
@pytest.mark.parametrize(("depth", "latency"), [(2, 1), (4, 2), (4, 3), (5, 3), (9, 4)])
def test_reads_and_beats_come_exactly_by_the_rule(depth, latency, mood):
    pair, rng = Pair(depth=depth, latency=latency), random.Random(depth * 10 + latency)
    reader = pair.reader
    streams = [(3, 2, 9), (20, 1, 1), (21, 9, 4), (0, 3, 5)]  # src, rows, elements a row

    async def bench(ctx):
        await fill(ctx, pair.store)
        t, pending, issue = 0, list(streams), 0
        wanted, last, consumed, reads = [], [], [], []
        for src, n, m in streams:
            wanted += range(src, src + n * -(-m // 4))
            last.append(len(wanted) - 1)
        earliest, number = 0, -1  # of the next read
        while len(consumed) < len(wanted):
            start = bool(pending) and t == issue
            if start:
                src, n, m = pending.pop(0)
                for name, value in (("src", src), ("n", n), ("m", m)):
                    ctx.set(getattr(reader, name), value)
                earliest, number = t + 1, number + 1
            ctx.set(reader.start, start)
            ready = MOODS[mood](rng, t)
            ctx.set(reader.beats.ready, ready)
            j = len(reads)
            busy = number >= 0 and j <= last[number]
            room = j < depth or (len(consumed) > j - depth and consumed[j - depth] < t)
            expected = busy and t >= earliest and room
            assert ctx.get(reader.read_enable) == expected, (t, j)
            valid = len(reads) > len(consumed) and reads[len(consumed)] + latency <= t
            assert ctx.get(reader.beats.valid) == valid, t
            if expected:
                assert ctx.get(reader.read_address) == wanted[j]
                reads.append(t)
            done = expected and j == last[number]
            assert ctx.get(reader.done) == done
            if done:
                issue = t + 1
            if valid:
                assert ctx.get(reader.beats.payload.scales[0]) == wanted[len(consumed)]
                assert ctx.get(reader.beats.payload.elements[3]) == wanted[len(consumed)] % 8
                if ready:
                    consumed.append(t)
            await ctx.tick()
            t += 1
            assert t < 500

    simulate(pair, bench)


def test_a_stream_of_nothing_is_instant():
    reader = StreamReader(depth=4, latency=2, address_bits=6, length_bits=8, **SHAPE)

    async def bench(ctx):
        for n, m in ((0, 3), (3, 0), (1, 1)):
            ctx.set(reader.n, n)
            ctx.set(reader.m, m)
            ctx.set(reader.start, n * m == 0)
            assert ctx.get(reader.instant) == (n * m == 0)
            await ctx.tick()
            assert not ctx.get(reader.read_enable)

    simulate(reader, bench)


def test_a_depth_that_hides_no_latency_is_refused():
    with pytest.raises(ValueError, match="stream depth 3 can't hide a store latency of 3 cycles"):
        StreamReader(depth=3, latency=3, address_bits=6, length_bits=8, **SHAPE)


def test_it_converts():
    reader = StreamReader(depth=4, latency=2, address_bits=6, length_bits=8, **SHAPE)
    assert "module reader" in verilog_of(reader, "reader")
