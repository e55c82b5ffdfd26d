"""Routers, links, injectors and sinks together: every cycle and word is the fast simulator's."""

import random
from dataclasses import replace

import pytest
from bench import Network, Run, simulate
from programs import TINY, instruction_times

from tokenpath.hw.arch.isa import Engine, Op
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.sim.drawn import Writer, images
from tokenpath.sim.fast import FastMachine


def puts(arch, rng, events):
    """A random program of SYNC and PUT."""
    writer, tiles = Writer(arch, rng), range(arch.tiles)
    for _ in range(events):
        tile = rng.randrange(arch.tiles)
        words = rng.choice([0, 1, rng.randint(1, 20), 2 * arch.max_packet_words + 1])
        kind = rng.choice(["put", "put", "put", "all to one", "ring", "sync", "sync"])
        if kind == "put":
            writer.put(tile, [rng.choice(tiles) for _ in range(rng.randint(0, 3))], words)
        elif kind == "all to one":
            for source in tiles:
                writer.put(source, [tile], words)
        elif kind == "ring":
            for source in tiles:
                writer.put(source, [(source + 1) % arch.tiles], words)
        else:
            writer.write(tile, rng.choice(list(Engine)), Op.SYNC)
    return writer.program(**images(arch, rng))


def compare(arch, seed, events=8):
    """Returns (cycles, instructions) of one drawn program; they and the words are equal."""
    program = puts(arch, random.Random(seed), events)
    fast = FastMachine(program)
    step = fast.step(0, 0)
    network = Network(arch, descriptors=128)
    run = Run(network, program, patience=4000)
    simulate(network, run.bench)
    assert run.times == instruction_times(fast)
    assert run.cycles == step.cycles
    assert (run.vector == fast.values.vector[:, : run.vector.shape[1]]).all()
    assert run.wraps == step.overflows
    return run.cycles, len(run.times)


def channels(arch, vcs, *, stages=1, depth=1):
    return replace(arch, router=RouterParams(kind="vc", vcs=vcs, stages=stages, depth=depth))


SLOW = TINY.on("line2@board(latency=7,cpf=3),full2@package(latency=2,cpf=2)")
MACHINES = {
    "mesh": TINY,
    "mesh of depth 1": replace(TINY, router=RouterParams(depth=1)),
    "ring": TINY.on("ring:3"),
    "ring of depth 1, flits of 4 words": replace(
        TINY.on("ring:3"), router=RouterParams(depth=1), flit_words=4, max_packet_words=6
    ),
    "flits of 3 words": replace(TINY, flit_words=3, max_packet_words=10),
    "switch": TINY.on("switch:3"),
    "slow links": SLOW,
    "one tile": replace(TINY.on("line:1"), flit_words=4),
    "mesh of 2 VCs": channels(TINY, 2),
    "mesh of 3 VCs, 2 stages": channels(TINY, 3, stages=2),
    "mesh of 1 VC, 2 stages": channels(TINY, 1, stages=2, depth=2),
    "ring of 4 VCs": channels(TINY.on("ring:3"), 4),
    "torus of 2 VCs, 2 stages, flits of 4 words": replace(
        channels(TINY.on("torus:3x2"), 2, stages=2), flit_words=4
    ),
    "switch of 2 VCs": channels(TINY.on("switch:3"), 2, depth=2),
    "slow links of 2 VCs, 2 stages": channels(SLOW, 2, stages=2),
    **{
        f"{topology}, {router}": TINY.on(topology, router)
        for topology, router in (
            ("mesh:2x2", "vc2-d1-s3"), ("switch:3", "vc2-d2-s3-matrix-islip2"),
            ("ring:3", "vc2-d2-output_first"), ("mesh:3x2", "vc2-d1-wavefront-matrix"),
            ("mesh:3x2", "vc2-d1-o1turn"), ("mesh:3x3", "vc1-d2-west_first"),
            ("mesh:3x3", "vc2-d1-s3-odd_even"), ("torus:3x2", "vc4-d1-ordered"),
            ("mesh:3x2", "vc2-d8-cut_through"), ("ring:4", "vc1-d16-bubble"),
            ("torus:3x3", "vc2-d16-s2-wavefront-bubble-ordered"),
            ("mesh:3x2", "vc2-d16-s3-odd_even-cut_through"),
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_every_cycle_and_word_is_fasts(name):
    cycles, instructions = compare(MACHINES[name], seed=len(name), events=12)
    assert cycles > 40 and instructions > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", MACHINES)
def test_many_programs(name, seed):
    compare(MACHINES[name], seed=100 + seed, events=20)
