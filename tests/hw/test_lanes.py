"""DOT, SCORE, AXPY and LOAD against the golden vector unit, bit for bit and cycle for cycle."""

import pytest
from bench import verilog_of
from lanes_bench import Bench, Draw, lanes_of, machine

from tokenpath.hw.arch.isa import Op

MACHINES = {
    "two queries": {"queries": 2},
    "16-bit activations, powers of 2": {
        "lanes": 4, "queries": 1, "vlanes": 2, "act_bits": 16, "mantissa_bits": 0,
    },
    "more queries than vlanes": {"queries": 3, "vlanes": 2, "act_bits": 16},
    "three blocks a beat": {"lanes": 12, "queries": 1, "mantissa_bits": 2, "kv_mantissa_bits": 0},
    "as many vlanes as lanes": {"lanes": 4, "queries": 3, "vlanes": 4, "kv_mantissa_bits": 5},
}  # fmt: skip


def drawn(arch, seed, rounds):
    """Each operation ``rounds`` times, an AXPY behind a SCORE."""
    draw = Draw(arch, seed)
    ops = []
    for _ in range(rounds):
        turn = [[Op.DOT], [Op.LOAD], [Op.SCORE, Op.AXPY]]
        draw.random.shuffle(turn)
        ops += [(op, draw.instruction(op)) for part in turn for op in part]
    return ops


@pytest.mark.parametrize("mood", [0.0, 0.5], ids=["eager", "starved"])
@pytest.mark.parametrize("name", MACHINES)
def test_values_counters_and_cycles_are_those_of_the_definition(name, mood):
    arch = machine(**MACHINES[name])
    bench = Bench(arch, 7, mood=mood)
    bench.run(drawn(arch, 20 + len(name), 8))


def test_the_drawn_operations_reach_the_corners():
    arch = machine(lanes=4, queries=1, vlanes=2)
    bench = Bench(arch, 3)
    bench.run(drawn(arch, 5, 24))
    for op in ("DOT", "SCORE", "AXPY", "LOAD"):
        assert bench.corners[f"{op} partial"]
        assert bench.corners[f"{op} empty"]
    for corner in ("DOT clamped", "SCORE clamped", "AXPY clamped", "DOT wrapped"):
        assert bench.corners[corner], corner


@pytest.mark.parametrize("op", [Op.DOT, Op.SCORE, Op.AXPY, Op.LOAD])
def test_each_operation_follows_each_other_without_a_trace(op):
    arch = machine(lanes=4, queries=1, vlanes=2)
    draw = Draw(arch, 11)
    ops = []
    for other in (Op.DOT, Op.SCORE, Op.AXPY, Op.LOAD):
        for first, second in ((op, other), (other, op)):
            ops += [(first, draw.instruction(first)), (second, draw.instruction(second))]
            ops[-1][1].update(n=0)
            ops += [(first, draw.instruction(first))]
    Bench(arch, 5).run(ops)


def test_scales_may_be_16_bits_wide():
    arch = machine(lanes=4, queries=1, vlanes=2)
    Bench(arch, 9, scale_bits=16).run(drawn(arch, 13, 4))


def test_too_many_queries_are_refused():
    text = "queries 13 are too many for 2 vlanes.*; give at most 12"
    with pytest.raises(ValueError, match=text):
        lanes_of(machine(queries=13, vlanes=2))


def test_it_converts():
    assert "module lanes" in verilog_of(lanes_of(machine()), "lanes")
