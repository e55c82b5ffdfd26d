"""Random programs, shaped like real ones, against a model that ticks every cycle and against the
golden model.
"""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import TINY, instruction_times
from reference import Reference

from tokenpath.hw.arch.isa import Instr, Op
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.sim import golden
from tokenpath.sim.drawn import draw_router, images, program, random_program
from tokenpath.sim.fast import FastMachine, columns, run, tables

TOPOLOGIES = [
    "line:1", "line:2", "line:4", "ring:3", "ring:5", "mesh:2x2", "mesh:3x3", "torus:3x3",
    "torus:4x3", "flat:4", "flat:2x3", "switch:4",
    "line2@die,full3@package(latency=7,cpf=2)", "line3@die(latency=3,cpf=2)",
    "ring3@die(latency=2,cpf=1),switch2@board(latency=5,cpf=3)", "full4@board(latency=30,cpf=5)",
    "ring4@package(latency=2,cpf=3)",
]  # fmt: skip


@st.composite
def arches(draw: st.DrawFn) -> Arch:
    """Small machines whose buffers fill."""
    stream_depth = draw(st.sampled_from([2, 3, 4, 5, 8, 17]))
    machine = TINY.on(draw(st.sampled_from(TOPOLOGIES)))
    machine = replace(
        machine,
        stream_depth=stream_depth,
        store_latency=draw(st.integers(1, stream_depth - 1)),
        flit_words=draw(st.sampled_from([2, 4])),
        max_packet_words=draw(st.sampled_from([1, 4, 14])),
        vlanes=draw(st.sampled_from([2, 4, 8])),
    )
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    return replace(machine, router=draw_router(rng, machine, ordered=False))


def compare(arch: Arch, rng: random.Random, events: int) -> Counter[str]:
    """Two steps of a random program, every issue and every end; the corners that it has."""
    drawn, corners = random_program(arch, rng, events, values=False)
    reference, machine = Reference(drawn), FastMachine(drawn, values=False)
    for position in range(2):
        cycles = reference.step(position)
        step = machine.step(0, position)
        assert instruction_times(machine) == reference.times
        assert step.cycles == cycles
        assert sum(step.ledger.values()) == cycles
        assert sum(step.network.values()) == step.ledger["interconnect"]
        assert min([0, *step.ledger.values(), *step.network.values()]) == 0
        links = [reference.link_flits[link.src, link.src_port] for link in arch.topology.links]
        assert step.counters["link_flits"].tolist() == links
    return Counter(corners)


@settings(max_examples=60)
@given(arch=arches(), rng=st.randoms(use_true_random=False), events=st.integers(1, 60))
def test_every_cycle_is_that_of_the_model_that_ticks(arch, rng, events):
    compare(arch, rng, events)


def test_the_random_programs_reach_the_corners():
    corners = Counter[str]()
    for seed in range(40):
        rng = random.Random(seed)
        arch = replace(
            TINY.on(rng.choice(TOPOLOGIES)), router=RouterParams(depth=rng.randint(1, 2))
        )
        corners += compare(arch, rng, 50)
    names = (
        "long stream",
        "short stream",
        "streams ahead",
        "put over packets",
        "put to itself",
        "empty put",
        "all to one",
    )
    assert min(corners[name] for name in names) >= 20, corners


@pytest.mark.slow
def test_ten_thousand_programs_are_the_same_to_the_cycle():
    for seed in range(10_000):
        rng = random.Random(seed)
        depth = rng.choice([2, 3, 4, 5, 8, 17])
        arch = replace(
            TINY.on(rng.choice(TOPOLOGIES)),
            stream_depth=depth,
            store_latency=rng.randint(1, depth - 1),
            max_packet_words=rng.choice([1, 4, 14]),
        )
        arch = replace(arch, router=draw_router(rng, arch, ordered=False))
        compare(arch, rng, rng.randint(1, 60))


@settings(max_examples=40)
@given(
    topology=st.sampled_from(TOPOLOGIES),
    rng=st.randoms(use_true_random=False),
    events=st.integers(1, 60),
    packet=st.sampled_from([1, 4, 14]),
)
def test_values_are_those_of_the_golden_model(topology, rng, events, packet):
    drawn, _ = random_program(replace(TINY.on(topology), max_packet_words=packet), rng, events)
    judge, machine = golden.Machine(drawn), FastMachine(drawn)
    for position in range(2):
        want, got = judge.step(0, position), machine.step(0, position)
        assert (got.saturations, got.overflows) == (want.saturations, want.overflows)
    for tile, values in zip(judge.tiles, machine.values.vector, strict=True):
        np.testing.assert_array_equal(values, tile.vector)
    for tile, elements in zip(judge.tiles, machine.values.elements, strict=True):
        np.testing.assert_array_equal(elements, tile.elements)


def test_a_full_log_and_a_full_pool_of_packets_change_nothing(monkeypatch):
    drawn, _ = random_program(TINY.on("mesh:3x3"), random.Random(8), 60)
    judge, machine = golden.Machine(drawn), FastMachine(drawn)
    monkeypatch.setattr(tables, "PACKETS", 1)
    cramped = FastMachine(drawn)
    cramped.engines.constants[columns.LOG_SIZE] = 6 * drawn.tiles + 1
    for position in range(2):
        judge.step(0, position)
        assert machine.step(0, position).cycles == cramped.step(0, position).cycles
    assert len(cramped.engines.packets) > 8 * columns.K_WIDTH
    for tile, values in zip(judge.tiles, cramped.values.vector, strict=True):
        np.testing.assert_array_equal(values, tile.vector)


@pytest.mark.parametrize("cramped", [False, True])
def test_a_value_outside_of_its_memory_is_an_error_of_the_step(cramped):
    compute = [Instr(op=Op.SYNC)] * 90 + [Instr(op=Op.SILU, n=8, dst=TINY.vector_words - 7)]
    queues = [((), compute + [Instr(op=Op.SILU, n=8)] * 90, ())] * TINY.tiles
    machine = FastMachine(program(TINY, queues, **images(TINY, random.Random(0))))
    if cramped:
        machine.engines.constants[columns.LOG_SIZE] = 6 * TINY.tiles + 1
    with pytest.raises(IndexError, match="outside of a memory"):
        machine.step(0, 0)


def test_timing_does_not_depend_on_values():
    drawn, _ = random_program(TINY, random.Random(5), 60)
    steps = [FastMachine(drawn, values=values).step(0, 0) for values in (True, False)]
    assert steps[0].cycles == steps[1].cycles
    assert steps[0].ledger == steps[1].ledger


def test_without_values_no_memory_of_values_exists():
    drawn, _ = random_program(TINY, random.Random(5), 20)
    machine = FastMachine(drawn, values=False)
    assert machine.values is None
    assert len(machine.engines.log) < 10
    assert machine.step(0, 0).logits is None


def test_a_run_feeds_the_prompt_and_then_what_it_generated():
    drawn, _ = random_program(TINY, random.Random(5), 20)
    seen = []
    result = run(drawn, [3, 1], 3, on_step=seen.append)
    assert [step.position for step in result.steps] == [0, 1, 2, 3]
    assert [step.token for step in result.steps] == [
        3,
        1,
        result.steps[1].best,
        result.steps[2].best,
    ]
    assert seen == result.steps
    timed = run(drawn, [3, 1], 3, values=False)
    assert [step.token for step in timed.steps] == [0, 0, 0, 0]
    assert [step.cycles for step in timed.steps] == [step.cycles for step in result.steps]
