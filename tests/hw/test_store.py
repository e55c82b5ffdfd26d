"""The store: latency, and who writes."""

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.store import Store

SHAPE = {"beats": 8, "lanes": 4, "block": 2, "element_bits": 4, "scale_bits": 9}


def beat(seed):
    return {"elements": [seed % 8, -seed % 8 - 8, 0, -1], "scales": [seed - 200, -seed]}


@pytest.mark.parametrize("latency", [1, 2, 5])
def test_a_read_answers_after_exactly_the_latency(latency):
    store = Store(latency=latency, **SHAPE)

    async def bench(ctx):
        for address in range(8):
            ctx.set(store.host.payload, {"address": address, "beat": beat(address)})
            ctx.set(store.host.valid, 1)
            await ctx.tick()
        ctx.set(store.host.valid, 0)
        addresses = [3, 7, 0, 1, 1, 5]
        for t in range(len(addresses) + latency):
            ctx.set(store.read_enable, t < len(addresses))
            ctx.set(store.read_address, addresses[t] if t < len(addresses) else 6)
            if t >= latency:
                got = ctx.get(store.read_beat)
                assert got == store.layout.const(beat(addresses[t - latency]))
            await ctx.tick()

    simulate(store, bench)


def test_the_host_waits_for_an_append():
    store = Store(latency=1, **SHAPE)

    async def bench(ctx):
        ctx.set(store.host.payload, {"address": 1, "beat": beat(1)})
        ctx.set(store.host.valid, 1)
        ctx.set(store.append_enable, 1)
        ctx.set(store.append_address, 2)
        ctx.set(store.append_beat, beat(2))
        assert not ctx.get(store.host.ready)
        await ctx.tick()
        ctx.set(store.append_enable, 0)
        assert ctx.get(store.host.ready)
        ctx.set(store.read_enable, 1)
        ctx.set(store.read_address, 2)  # written in the cycle before
        await ctx.tick()
        assert ctx.get(store.read_beat) == store.layout.const(beat(2))
        ctx.set(store.read_address, 1)
        await ctx.tick()
        assert ctx.get(store.read_beat) == store.layout.const(beat(1))

    simulate(store, bench)


def test_no_latency_is_refused():
    with pytest.raises(ValueError, match="store latency 0 is not possible; give at least 1 cycle"):
        Store(latency=0, **SHAPE)


def test_it_converts():
    assert "module store" in verilog_of(Store(latency=2, **SHAPE), "store")
