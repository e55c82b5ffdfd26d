"""Vector memory against a list of words."""

import gc
import random

import pytest
from amaranth.hdl import Cat
from bench import simulate, verilog_of

from tokenpath.hw.vector_memory import VectorMemory


def read_words(ctx, port, width):
    return [ctx.get(port.data[i]) for i in range(width)]


@pytest.mark.parametrize(("width", "words"), [(1, 7), (2, 16), (4, 23), (8, 64)])
def test_any_address_and_count_with_the_old_words_in_the_cycle_of_the_write(width, words):
    random.seed(width)
    model = [random.getrandbits(31) for _ in range(words)]
    dut = VectorMemory(words=words, width=width, reads=2, init=model)
    corners = set()

    async def bench(ctx):
        for _ in range(300):
            at, count = random.randrange(words), random.randint(0, width)
            count = min(count, words - at)
            data = [random.randint(-(2**31), 2**31 - 1) for _ in range(width)]
            reads = [random.choice((at, random.randrange(words))) for _ in dut.reads]
            ctx.set(dut.write.address, at)
            ctx.set(dut.write.count, count)
            for i, word in enumerate(data):
                ctx.set(dut.write.data[i], word)
            for port, address in zip(dut.reads, reads, strict=True):
                ctx.set(port.address, address)
            wanted = [model[a : a + width] for a in reads]
            await ctx.tick()
            model[at : at + count] = data[:count]
            for port, want in zip(dut.reads, wanted, strict=True):
                assert read_words(ctx, port, width)[: len(want)] == want
            corners.update({("count", count), ("bank", at % width), ("same", reads[0] == at)})
        assert [ctx.get(dut.row(address)) for address in range(words)] == model

    simulate(dut, bench)
    assert len(corners) == 2 * width + 3  # every count, every bank, a read beside its write


def test_a_read_one_cycle_behind_a_write_sees_it():
    dut = VectorMemory(words=8, width=2, reads=1)

    async def bench(ctx):
        ctx.set(dut.write.address, 3)
        ctx.set(dut.write.count, 2)
        ctx.set(Cat(dut.write.data[0], dut.write.data[1]), 5 | 6 << 32)
        ctx.set(dut.reads[0].address, 3)
        await ctx.tick()
        assert read_words(ctx, dut.reads[0], 2) == [0, 0]
        ctx.set(dut.write.count, 0)
        await ctx.tick()
        assert read_words(ctx, dut.reads[0], 2) == [5, 6]

    simulate(dut, bench)


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="width 3 is not a power of two; give 1, 2, 4, 8"):
        VectorMemory(words=8, width=3)
    with pytest.raises(ValueError, match="9 initial words don't fit; there are 8"):
        VectorMemory(words=8, width=2, init=[0] * 9)
    gc.collect()  # what was refused is never elaborated


def test_verilog():
    assert "module dut" in verilog_of(VectorMemory(words=64, width=4, reads=3))
