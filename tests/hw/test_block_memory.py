"""Beats written by block."""

from bench import simulate, verilog_of

from tokenpath.hw.block_memory import BlockMemory


def memory():
    return BlockMemory(beats=3, lanes=4, block=2, element_bits=4, scale_bits=9)


def test_blocks_are_written_alone_or_together():
    dut = memory()

    async def read(ctx, address):
        ctx.set(dut.read_address, address)
        ctx.set(dut.read_enable, 1)
        await ctx.tick()
        ctx.set(dut.read_enable, 0)
        ctx.set(dut.read_address, 0)
        await ctx.tick()  # the beat stays
        beat = ctx.get(dut.read_beat)
        return [beat.elements[i] for i in range(4)], [beat.scales[i] for i in range(2)]

    async def bench(ctx):
        writes = [(3, [1, 2, 3, 4], [-5, 6]), (2, [-1, -2, -3, -4], [-200, 7])]
        for blocks, elements, scales in writes:
            ctx.set(dut.write_blocks, blocks)
            ctx.set(dut.write_address, 2)
            ctx.set(dut.write_beat, {"elements": elements, "scales": scales})
            await ctx.tick()
        ctx.set(dut.write_blocks, 0)
        ctx.set(dut.write_address, 1)
        assert await read(ctx, 2) == ([1, 2, -3, -4], [-5, 7])
        assert await read(ctx, 1) == ([0, 0, 0, 0], [0, 0])

    simulate(dut, bench)


def test_it_converts():
    assert "module block_memory" in verilog_of(memory(), "block_memory")
