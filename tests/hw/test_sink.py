import random

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.arch.isa import PutOp
from tokenpath.hw.flit import HEADER
from tokenpath.hw.sink import Sink

WORDS, EDGES = 64, [0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]


def signed(word):
    return (word ^ 1 << 31) - (1 << 31)


def packet(rng, width):
    """A random packet, and what it is to do: flits of (words, head, tail), effect by flit."""
    op = rng.choice(list(PutOp))
    size = rng.choice([0, 1, 1, 2, width - 2, width - 1, width, 3 * width + 1])
    at = rng.choice([20, 20, 20, rng.randint(16, 24)])
    payload = [rng.choice([*EDGES, rng.getrandbits(32)]) for _ in range(size)]
    semaphore = rng.choice([0, 5, 127])
    fields = {"op": op, "last": (size + 1) % width, "address": at, "semaphore": semaphore}
    header = HEADER.const(fields | {"destination": 3}).as_value().value
    words = [header & 0xFFFFFFFF, header >> 32, *payload]
    places = [None, None, *range(at, at + size)]
    for k in range(0, len(words), width):
        there = list(zip(places[k : k + width], words[k : k + width], strict=True))
        there = [(place, word) for place, word in there if place is not None]
        tail = k + width >= len(words)
        yield words[k : k + width], k == 0, tail, op, there, semaphore if tail else 0


def combine(op, old, new):
    """The word, and whether it wrapped."""
    if op == PutOp.ADD:
        total = signed(old) + signed(new)
        return total & 0xFFFFFFFF, not -(1 << 31) <= total < 1 << 31
    return (max(old, new, key=signed) if op == PutOp.MAX else new), False


@pytest.mark.parametrize(
    "width,forward,lanes",
    [
        (2, True, 1), (3, True, 1), (4, True, 1), (8, True, 1), (4, False, 1), (2, True, 2),
        (2, False, 2), (4, True, 3), (3, True, 8),
    ],
)  # fmt: skip
def test_words_and_posts_two_cycles_behind(width, forward, lanes):
    """Without ``forward`` the memory answers with what is written in the same cycle. Packets of
    different VCs are mixed."""
    dut = Sink(flit_words=width, vcs=lanes, address_bits=6, forward=forward, lanes=lanes)
    rng = random.Random(width)

    async def bench(ctx):
        memory, want, wraps = [0] * WORDS, [0] * WORDS, 0
        queues, due, overlaps = [[] for _ in range(lanes)], ([], None, 0), 0
        for cycle in range(900):
            vc = rng.randrange(lanes)
            queues[vc] = queues[vc] or list(packet(rng, width))
            now = queues[vc].pop(0) if rng.random() < (1 if cycle // 60 % 2 else 0.5) else None
            ctx.set(dut.i.flit.vc, vc)
            drive(ctx, now)
            there, op, semaphore = due  # of the flit of the cycle before: written in this one
            assert ctx.get(dut.post) == semaphore
            for place, word in there:
                want[place], wrapped = combine(op, want[place], word)
                wraps += wrapped
            at, count = ctx.get(dut.write_address), ctx.get(dut.write_count)
            ask, before = ctx.get(dut.read_address), list(memory)
            memory[at : at + count] = list(ctx.get(dut.write_words))[:count]
            assert memory == want
            await ctx.tick()
            answer = before if forward else memory
            ctx.set(dut.read_words, [answer[(ask + i) % WORDS] for i in range(width)])
            _, _, _, op, reach, semaphore = now or (0, 0, 0, None, [], 0)
            overlaps += bool({place for place, _ in reach} & {place for place, _ in there})
            due = (reach, op, semaphore)
        ctx.set(dut.i.valid, 0)
        least = 20 if width > 2 else 5
        assert overlaps > least if width > 2 or lanes > 1 else overlaps == 0
        assert ctx.get(dut.wraps) == wraps > 20

    def drive(ctx, now):
        ctx.set(dut.i.valid, now is not None)
        words, head, tail, *_ = now or ([], 1, 1)
        ctx.set(dut.i.flit.head, head)
        ctx.set(dut.i.flit.tail, tail)
        ctx.set(dut.i.flit.data, words + [rng.getrandbits(32)] * (width - len(words)))

    simulate(dut, bench)


@pytest.mark.parametrize("width,lanes", [(2, 1), (3, 1), (4, 1), (2, 4)])
def test_verilog(width, lanes):
    assert "module dut" in verilog_of(Sink(flit_words=width, vcs=lanes, lanes=lanes))
