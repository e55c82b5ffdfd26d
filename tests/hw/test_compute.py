"""Both units of the compute engine behind one contract: who gets the ports, how long it takes."""

from dataclasses import replace

import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import connect
from amaranth.sim import Simulator

from tokenpath.hw.arch import timing
from tokenpath.hw.arch.isa import Op
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.clock import period
from tokenpath.hw.compute import Compute
from tokenpath.hw.words import ADDRESS_BITS, Words

SMALL = replace(
    PRESETS["tiny"], scratch_words=64, inbox_words=32, operand_beats=4, score_rows=8, queries=1
)


def execute(instructions, words, beats=()):
    """Cycles of each instruction (0: instant), and the scratch behind them."""
    m = Module()
    m.submodules.dut = dut = Compute(arch=SMALL, address_bits=ADDRESS_BITS)
    m.submodules.words = memory = Words(scratch_words=64, inbox_words=32, width=4, reads=2)
    connect(m, dut.first, memory.reads[0])
    connect(m, dut.second, memory.reads[1])
    connect(m, dut.write, memory.write)
    found, waiting = [], list(beats)

    async def bench(ctx):
        for address, word in enumerate(words):
            ctx.set(memory.row(address), word)
        for operands in instructions:
            for name, value in operands.items():
                ctx.set(getattr(dut.operands, name), value)
            if ctx.get(dut.instant):
                found.append(0)
                continue
            ctx.set(dut.start, 1)
            cycles = 0
            while cycles == 0 or not ctx.get(dut.done):
                ctx.set(dut.beats.valid, bool(waiting))
                if waiting:
                    ctx.set(dut.beats.payload, waiting[0])
                if waiting and ctx.get(dut.beats.ready):
                    waiting.pop(0)
                await ctx.tick()
                ctx.set(dut.start, 0)
                cycles += 1
            found.append(cycles)
            await ctx.tick()
        found.append([ctx.get(memory.row(address)) for address in range(24)])

    simulator = Simulator(m)
    simulator.add_clock(period())
    simulator.add_testbench(bench)
    simulator.run()
    *cycles, scratch = found
    return cycles, scratch


ZERO = dict.fromkeys(("dst", "src", "aux", "bux", "n", "m", "q", "x", "y"), 0)


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_operations_on_words_and_on_beats_follow_each_other() -> None:
    """A LOAD, sums of what it loaded, and instructions that take no cycles between them."""
    beat = {"elements": [1, -2, 3, 4, 5, 6, 7, -8], "scales": [0, 8]}  # scales 1 and 2
    total = ZERO | {"op": Op.SUM, "dst": 20, "src": 8, "aux": 4, "n": 3, "m": 2}
    cycles, scratch = execute(
        [
            ZERO | {"op": Op.SYNC},
            ZERO | {"op": Op.LOAD, "dst": 8, "n": 1, "m": 8, "x": 2},
            total,
            ZERO | {"op": Op.RMS, "n": 5},
            total | {"dst": 0},
        ],
        words=[9] * 4,
        beats=[beat],
    )
    loads = 1 + timing.stream_epilogue(Op.LOAD, 8, 0, SMALL.vlanes)
    sums = timing.vector_cycles(Op.SUM, 3, 2, 0, SMALL.vlanes, SMALL.numeric.block)
    assert cycles == [0, loads, sums, 0, sums]
    assert scratch[8:16] == [4, -8, 12, 16, 40, 48, 56, -64]
    assert scratch[20:23] == scratch[:3] == [44, 40, 68]
