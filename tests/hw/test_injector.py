import random

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.flit import HEADER, descriptor
from tokenpath.hw.injector import Injector


def flits_of(rows, flit_words, most, source, target, op, semaphore, memory):
    """(first flit of a descriptor, words, head, tail) of a PUT, from its description."""
    for to, at, words, there in rows:
        sizes = [most] * (words // most)
        if words % most or not words:
            sizes.append(words % most)
        done = 0
        for number, size in enumerate(sizes):
            last = number == len(sizes) - 1
            header = HEADER.const(
                {
                    "destination": to, "op": op, "last": (size + 1) % flit_words,
                    "address": (target + there + done) % (1 << 24),
                    "semaphore": semaphore if last else 0,
                }
            ).as_value().value  # fmt: skip
            payload = [memory[(source + at + done + i) % len(memory)] for i in range(size)]
            packet = [header & 0xFFFFFFFF, header >> 32, *payload]
            count = -(-len(packet) // flit_words)
            for k in range(count):
                words_here = packet[k * flit_words : (k + 1) * flit_words]
                yield number == 0 and k == 0, words_here, k == 0, k == count - 1
            done += size


@pytest.mark.parametrize(
    "flit_words,most,depth,lanes,rule",
    [
        (2, 14, 2, 1, ""), (4, 6, 1, 1, ""), (4, 62, 4, 1, ""), (3, 7, 2, 1, ""), (8, 20, 2, 1, ""),
        (2, 1, 3, 1, ""), (16, 5, 2, 1, ""), (2, 14, 1, 2, ""), (4, 6, 1, 3, ""), (2, 5, 2, 8, ""),
        (2, 14, 1, 1, "whole"), (4, 6, 2, 1, "whole"), (2, 5, 1, 3, "whole"),
        (2, 5, 2, 4, "ordered"), (2, 14, 1, 2, "ordered whole"),
    ],
)  # fmt: skip
def test_flits_of_puts_to_the_cycle(flit_words, most, depth, lanes, rule):
    whole, sizes = "whole" in rule, (4, 3, 5) if "ordered" in rule else None
    rng = random.Random(flit_words)
    memory = [rng.getrandbits(32) for _ in range(256)]
    dut = Injector(
        flit_words=flit_words, vcs=lanes, depth=depth, max_words=most, descriptors=32,
        address_bits=8, lanes=lanes, whole_packets=whole, ordered=sizes,
    )  # fmt: skip
    lengths = [0, 1, most - 1, most, most + 1, 2 * most, 3 * most + 2]
    table = [
        (rng.getrandbits(24), rng.randint(-9, 99), rng.choice(lengths), rng.randint(-9, 99))
        for _ in range(32)
    ]
    rows = [descriptor(destination=t, source=s, words=w, target=a) for t, s, w, a in table]

    async def cycle(ctx, credit):
        """One cycle; what the memories answer and the credit of this one."""
        row, at = ctx.get(dut.descriptor_address), ctx.get(dut.address)
        ctx.set(dut.o.credit, credit)
        await ctx.tick()
        ctx.set(dut.descriptor.as_value(), rows[row])
        ctx.set(dut.words, [memory[(at + i) % 256] for i in range(flit_words)])

    async def bench(ctx):
        credits, owed, pointer, vc = [depth] * lanes, [], 0, 0
        for put in range(12):
            first, count = rng.randrange(28), rng.choice([0, 1, 1, 2, 4])
            source, target = rng.randint(20, 90), rng.randint(10, 99)
            op, semaphore = rng.randrange(3), rng.randrange(128)
            operands = {"source": source, "target": target, "first": first, "count": count}
            for name, value in (operands | {"op": op, "semaphore": semaphore}).items():
                ctx.set(getattr(dut, name), value)
            ctx.set(dut.start, 1)
            assert ctx.get(dut.instant) == (count == 0)
            rest = (flit_words, most, source, target, op, semaphore, memory)
            waiting = list(flits_of(table[first : first + count], *rest))
            clock, earliest = 0, 3
            while waiting or clock < 3:
                back = bool(owed) and rng.random() < (1 if put % 2 else 0.4)
                if waiting and waiting[0][2]:
                    order = [(pointer + k) % lanes for k in range(lanes)]
                    vc = next((v for v in order if credits[v]), vc)
                    if sizes:  # coordinates of 2, 2 and 3 bits
                        to = waiting[0][1][0]
                        vc = ((to & 3) + (to >> 2 & 3) + (to >> 4 & 7)) % lanes
                free = whole and bool(waiting) and not waiting[0][2]
                send = bool(waiting) and clock >= earliest and (free or credits[vc] > 0)
                assert ctx.get(dut.o.valid) == send
                blocked = bool(waiting) and clock >= earliest and not send
                assert ctx.get(dut.blocked) == blocked
                if send:
                    _, words, head, tail = waiting.pop(0)
                    flit = dut.o.flit
                    assert ctx.get(flit.vc) == vc
                    pointer = vc + 1 if head else pointer
                    assert (ctx.get(flit.head), ctx.get(flit.tail)) == (head, tail)
                    assert [ctx.get(flit.data[i]) for i in range(len(words))] == words
                    if waiting and waiting[0][0]:
                        earliest = clock + 3
                assert ctx.get(dut.done) == (send and not waiting)
                home = owed.pop(rng.randrange(len(owed))) if back else None
                await cycle(ctx, 0 if home is None else 1 << home)
                ctx.set(dut.start, 0)
                if send:
                    credits[vc] -= not free
                    owed += [vc] if tail or not whole else []
                if home is not None:
                    credits[home] += 1
                clock += 1

    simulate(dut, bench)


@pytest.mark.parametrize("flit_words", [2, 3, 4])
def test_verilog(flit_words):
    dut = Injector(
        flit_words=flit_words, vcs=flit_words, depth=2, max_words=14, descriptors=16,
        lanes=flit_words - 1,
    )  # fmt: skip
    assert "module dut" in verilog_of(dut)
