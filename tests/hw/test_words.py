"""Scratch and inbox behind one space of addresses."""

from amaranth.sim import Simulator

from tokenpath.hw.clock import period
from tokenpath.hw.words import Words


def test_each_side_writes_its_memory_and_everybody_reads_both() -> None:
    """Scratch has words 0..9, the inbox 10..21; reads see a write one cycle later."""
    dut = Words(scratch_words=10, inbox_words=12, width=2, reads=2)

    async def put(ctx, port, address, words):
        ctx.set(port.address, address)
        ctx.set(port.count, len(words))
        for lane, word in enumerate(words):
            ctx.set(port.data[lane], word)

    async def bench(ctx):
        await put(ctx, dut.write, 7, [70, 80])
        await put(ctx, dut.arrive, 13, [-130, 140])
        for read, address in zip((*dut.reads, dut.arrivals), (7, 13, 14), strict=True):
            ctx.set(read.address, address)
        await ctx.tick()
        assert [ctx.get(read.data[0]) for read in dut.reads] == [0, 0]  # not in the same cycle
        ctx.set(dut.write.count, 0)
        await put(ctx, dut.arrive, 10, [100])
        await ctx.tick()
        assert [ctx.get(dut.reads[0].data[lane]) for lane in range(2)] == [70, 80]
        assert [ctx.get(dut.reads[1].data[lane]) for lane in range(2)] == [-130, 140]
        assert ctx.get(dut.arrivals.data[0]) == 140
        ctx.set(dut.reads[0].address, 10)
        ctx.set(dut.reads[1].address, 9)
        await ctx.tick()
        assert [ctx.get(read.data[0]) for read in dut.reads] == [100, 0]
        assert [ctx.get(dut.row(address)) for address in (7, 8, 10, 13)] == [70, 80, 100, -130]

    simulator = Simulator(dut)
    simulator.add_clock(period())
    simulator.add_testbench(bench)
    simulator.run()
