import random

import pytest
from amaranth.hdl import Const, Elaboratable, Module, Signal
from bench import simulate, verilog_of

from tokenpath.hw.arbiter import KINDS, Arbiter, choose_winner

pytestmark = pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")


def moved(order, winner, kind, stay):
    """The order behind a pick."""
    if kind == "matrix":
        rest = [i for i in order if i != winner]
        return [winner, *rest] if stay else [*rest, winner]
    first = winner if stay else winner + 1
    return [(first + k) % len(order) for k in range(len(order))]


class Chooser(Elaboratable):
    """An arbiter and the multiplexers behind it; value i is i + 1."""

    def __init__(self, arbiter):
        self.arbiter = arbiter
        self.value = Signal(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = self.arbiter
        values = [Const(i + 1, 8) for i in range(self.arbiter.count)]
        m.d.comb += self.value.eq(choose_winner(values, self.arbiter.sides))
        return m


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 11])
def test_the_first_request_in_an_order_that_every_pick_changes(count, kind):
    dut, rng = Arbiter(count=count, kind=kind), random.Random(count)
    chooser = Chooser(dut)

    async def bench(ctx):
        order = list(range(count))
        kept = 0
        for _ in range(500):
            requests = rng.getrandbits(count) & rng.choice([-1, rng.getrandbits(count)])
            advance, stay = rng.random() < 0.7, kind != "pairs" and rng.random() < 0.3
            ctx.set(dut.requests, requests)
            ctx.set(dut.advance, advance)
            ctx.set(dut.stay, stay)
            winner = next((i for i in order if requests >> i & 1), None)
            assert ctx.get(dut.valid) == (winner is not None)
            assert ctx.get(dut.grant) == (0 if winner is None else 1 << winner)
            if winner is not None:
                assert ctx.get(dut.index) == winner
                assert ctx.get(chooser.value) == winner + 1
                kept += advance and stay
                order = moved(order, winner, kind, stay) if advance else order
            await ctx.tick()
        assert kept > 30 or kind == "pairs"

    simulate(chooser, bench)


@pytest.mark.parametrize("kind", KINDS)
def test_the_one_that_stays_is_first_and_can_be_the_only_one_allowed(kind):
    dut, rng = Arbiter(count=5, kind=kind), random.Random(3)

    async def bench(ctx):
        ctx.set(dut.advance, 1)
        holder = None
        refused = 0
        for _ in range(400):
            requests = rng.getrandbits(5)
            ctx.set(dut.requests, requests)
            ctx.set(dut.allowed, -1 if holder is None else 1 << holder)
            ctx.set(dut.stay, stay := rng.random() < 0.6)
            if holder is None:
                winner = ctx.get(dut.index) if requests else None
            else:
                winner = holder if requests >> holder & 1 else None
                refused += bool(requests) and winner is None
            assert ctx.get(dut.valid) == (winner is not None)
            assert ctx.get(dut.grant) == (0 if winner is None else 1 << winner)
            if winner is not None:
                holder = winner if stay else None
            await ctx.tick()
        assert refused > 20

    simulate(dut, bench)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="unknown arbiter 'fair'; give round_robin or matrix"):
        Arbiter(count=2, kind="fair")


@pytest.mark.parametrize("kind", KINDS)
def test_a_steady_request_waits_at_most_for_all_others(kind):
    dut, rng = Arbiter(count=5, kind=kind), random.Random(1)

    async def bench(ctx):
        ctx.set(dut.advance, 1)
        waited = 0
        for _ in range(200):
            ctx.set(dut.requests, rng.getrandbits(5) | 4)
            waited = 0 if ctx.get(dut.index) == 2 else waited + 1
            assert waited < 5
            await ctx.tick()

    simulate(dut, bench)


@pytest.mark.parametrize("kind", KINDS)
def test_verilog(kind):
    assert "module dut" in verilog_of(Arbiter(count=5, kind=kind))
