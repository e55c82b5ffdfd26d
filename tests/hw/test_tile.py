"""A tile by its ports alone: loaded, run and read by the host."""

from dataclasses import replace

import pytest
from amaranth.sim import Simulator
from test_load import program

from tokenpath.hw.arch import timing
from tokenpath.hw.arch.isa import Engine, Instr, Op
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import Code
from tokenpath.hw.clock import period
from tokenpath.hw.load import images
from tokenpath.hw.sequencer import START_CYCLES
from tokenpath.hw.tile import Space, Tile

SMALL = replace(
    PRESETS["tiny"].on("mesh:1x1"), scratch_words=64, inbox_words=32, operand_beats=4,
    score_rows=8, queries=1, store_beats=16, code_words=16, descriptors=4,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_the_host_loads_runs_and_reads_a_tile() -> None:
    """Compute doubles two words and hands them to the network engine, which puts them home."""
    double = Instr(op=Op.SUM, dst=8, src=0, aux=0, n=2, m=2, post=1)
    put = Instr(op=Op.PUT, src=8, dst=64, m=1, wait=1, y=2)
    there = Instr(op=Op.SUM, dst=16, src=64, n=2, m=1, wait=2)
    rows = tuple(tuple(i.columns() for i in e) for e in ((), (double, there), (put,)))
    code = Code(engines=rows, labels=((), ("a", "b"), ("c",)))
    drawn = replace(program(), arch=SMALL, code=(code,))
    drawn.descriptors[0, 0, 2] = 2
    drawn.vector_shared[0] = 2**31 - 1
    (image,) = images(drawn)
    dut, seen = Tile(arch=SMALL), []

    async def write(ctx, space, values):
        ctx.set(dut.host_space, space)
        for address, value in enumerate(values):
            ctx.set(dut.host_address, address)
            ctx.set(dut.host_data, value)
            ctx.set(dut.host_write, 1)
            await ctx.tick()
        ctx.set(dut.host_write, 0)

    async def read(ctx, space, address):
        ctx.set(dut.host_space, space)
        ctx.set(dut.host_address, address)
        return (await ctx.tick(), ctx.get(dut.host_word))[-1]

    async def bench(ctx):
        for engine in Engine:
            await write(ctx, Space(int(engine)), image.code[engine])
        await write(ctx, Space.LENGTHS, [len(r) for r in image.code])
        await write(ctx, Space.DESCRIPTORS, image.descriptors)
        await write(ctx, Space.VECTOR, image.vector)
        await write(ctx, Space.STORE, image.store)
        ctx.set(dut.go, 1)
        for cycle in range(-START_CYCLES, 60):
            for name in ("sent", "received"):
                if ctx.get(getattr(dut, name)):
                    seen.append((name, cycle))
            if cycle > 0 and ctx.get(dut.idle):
                break
            await ctx.tick()
            ctx.set(dut.go, 0)
        seen.append(("idle", cycle))
        seen.append([await read(ctx, Space.VECTOR, at) for at in (8, 9, 16, 17, 64, 65)])
        seen.append([await read(ctx, Space.COUNTS, at) for at in (0, 1)])

    simulator = Simulator(dut)
    simulator.add_clock(period())
    simulator.add_testbench(bench)
    simulator.run()
    summed = timing.vector_cycles(Op.SUM, 2, 2, 0, 4, 4) + 1  # the PUT issues
    sent = summed + 1 + timing.DESCRIPTOR_CYCLES + 1  # two flits
    visible = sent + 1 + timing.SINK_CYCLES
    end = visible + 1 + timing.vector_cycles(Op.SUM, 2, 1, 0, 4, 4)
    assert seen[:3] == [("sent", sent), ("received", visible - 1), ("idle", end)]
    assert seen[3] == [2**32 - 2, 2**32 - 2] * 3
    assert seen[4] == [0, 1]
