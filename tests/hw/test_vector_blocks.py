"""The walk over blocks."""

import pytest
from bench import simulate, verilog_of

from tokenpath.hw.vector_blocks import BlockWalk


def wanted(vlanes, block, src, n, m):
    """(address, count, first part, last part, last block, ends) of each cycle."""
    stride, rows = min(vlanes, block), []
    for vector in range(m):
        for at in range(0, n, block):
            for part in range(0, block, stride):
                count = max(0, min(stride, n - at - part))
                last_part, last_block = part + stride == block, at + block >= n
                ends = last_part and last_block and vector == m - 1
                place = src + vector * n + min(n, at + part)
                rows.append((place, count, part == 0, last_part, last_block, ends))
    return rows


@pytest.mark.parametrize(("vlanes", "block"), [(2, 4), (4, 4), (8, 4), (2, 8)])
def test_every_length_of_a_few_blocks(vlanes, block):
    dut = BlockWalk(vlanes=vlanes, block=block, address_bits=8)

    async def testbench(ctx):
        for n in range(1, 2 * block + 2):
            for m in (1, 2, 3):
                assert not ctx.get(dut.active)
                for name, value in (("src", 5 + n), ("n", n), ("m", m), ("start", 1)):
                    ctx.set(getattr(dut, name), value)
                await ctx.tick()
                ctx.set(dut.start, 0)
                seen = []
                while ctx.get(dut.active):
                    ports = ("address", "count", "first_part", "last_part", "last_block", "ends")
                    seen.append(tuple(ctx.get(getattr(dut, port)) for port in ports))
                    await ctx.tick()
                assert seen == wanted(vlanes, block, 5 + n, n, m), (n, m)

    simulate(dut, testbench)


def test_verilog():
    assert "module dut" in verilog_of(BlockWalk(vlanes=2, block=4, address_bits=8))
