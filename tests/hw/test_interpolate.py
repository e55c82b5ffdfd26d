"""Points between the nodes of a table."""

from bench import through, verilog_of

from tokenpath.hw.arch import numeric
from tokenpath.hw.interpolate import Interpolate


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
