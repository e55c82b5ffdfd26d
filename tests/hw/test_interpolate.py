"""Points between the nodes of a table."""

from bench import simulate, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.interpolate import Interpolate


def through(dut, inputs, outputs, rows, latency):
    """Outputs of a pipeline for one row of inputs a cycle, each exactly ``latency`` later."""
    results = []

    async def bench(ctx):
        for row in [*rows, *[rows[-1]] * latency]:
            for name, value in zip(inputs, row, strict=True):
                ctx.set(getattr(dut, name), value)
            results.append(tuple(ctx.get(getattr(dut, name)) for name in outputs))
            await ctx.tick()

    simulate(dut, bench)
    return results[latency:]


def test_every_point_of_a_small_table_with_two_runs():
    nodes = (1, 9, 4, 30, 31, 0)  # two runs of two segments
    rows = [(index, rest) for index in range(4) for rest in range(8)]
    wanted = []
    for index, rest in rows:
        at = index + index // 2
        wanted.append((numeric.interpolate(nodes[at], nodes[at + 1], rest, 3),))
    dut = Interpolate(nodes=nodes, runs=2, rest_bits=3)
    assert through(dut, ["index", "rest"], ["value"], rows, 2) == wanted


def test_verilog():
    assert "module dut" in verilog_of(Interpolate(nodes=(1, 9, 4), rest_bits=3))
