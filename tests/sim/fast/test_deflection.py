"""The kernel in every cycle against the rule in plain Python, with the same sources."""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from deflection_model import DeflectionModel, Flit

from tokenpath.hw.arch.deflection import most_cycles
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.timing import SINK_CYCLES
from tokenpath.sim.fast import columns as c
from tokenpath.sim.fast import deflection as k
from tokenpath.sim.fast import traffic
from tokenpath.sim.traffic import TrafficMachine
from tokenpath.sim.traffic_trace import Trace


def drawn(tiles, packets, cycles, seed):
    """A trace with waves of load, part of it to one tile."""
    rng = np.random.default_rng(seed)
    rows = np.ones((packets, 4), np.int64)
    rows[:, 0] = np.sort(rng.integers(0, cycles, packets)) // 40 * 40 + rng.integers(0, 30, packets)
    rows[:, 1] = rng.integers(0, tiles, packets)
    hot = rng.random(packets) < 2 / tiles
    rows[:, 2] = np.where(hot, tiles - 1, rng.integers(0, tiles, packets))
    return Trace(rows=rows)


class Sources:
    """What the kernel's sources do, in plain Python."""

    def __init__(self, trace, tiles):
        rows, first = trace.by_source(tiles)
        ends = [*first[1:], len(rows)]
        self.waiting = [deque(rows[a : b - 1]) for a, b in zip(first, ends, strict=True)]

    def pushes(self, model):
        found = {}
        for tile, packets in enumerate(self.waiting):
            if packets and packets[0][0] <= model.now and model.room(tile):
                found[tile] = Flit(0, int(packets.popleft()[1]))
        return found


def lanes_of(run, t):
    """(tile, parity) of the flits in the lanes at the start of cycle t, None where there is none;
    those that longer links bring then included."""
    d = run.network
    words = d.lanes.reshape(2, run.arch.tiles, -1)[t & 1].copy()
    for ring in d.rings.reshape(-1, k.RING_WIDTH):
        for number in range(ring[k.RING_FIRST], ring[k.RING_LAST]):
            place = d.links.reshape(-1, k.LINK_WIDTH)[
                ring[k.RING_AT] + (number & ring[k.RING_MASK])
            ]
            if place[k.LINK_DUE] == t:
                words.reshape(-1)[place[k.LINK_WHERE]] = place[k.LINK_FLIT]
    return [
        [(w >> k.TO_SHIFT & k.TO_MASK, w >> 1 & 1) if w else None for w in row.tolist()]
        for row in words
    ]


@pytest.mark.parametrize("bits", [3, None])
@pytest.mark.parametrize(
    "text",
    [
        "mesh:2x2", "mesh:3x3", "mesh:5x4", "torus:3x3", "torus:5x4", "ring:5", "line:6",
        "mesh:3x2x2", "torus:3x2x2x2", "line:1", "line1,line4", "line2@board(latency=7,cpf=1)",
        "line3@package(latency=3,cpf=1),ring3", "ring4@board(latency=9,cpf=1),line3",
    ],
)  # fmt: skip
def test_every_cycle_is_the_rules(text, bits):
    arch = replace(PRESETS["edge"].on(text), router=RouterParams(kind="deflection"))
    tiles, cycles = arch.tiles, 500
    trace = drawn(tiles, int(0.45 * tiles * cycles), cycles, seed=len(text))
    run, model = TrafficMachine.recorded(arch, trace), DeflectionModel(arch.topology, bits=bits)
    run.network.counts[k.EPOCH_BITS] = model.bits
    sources, delivered, old = Sources(trace, tiles), [], 0
    t = -1
    while t < cycles or any(sources.waiting) or model.flits:
        t += 1
        delivered.append(len(model.step(sources.pushes(model))[0]))
        run.run_until(t)
        wanted = [[f and (f.to, model.epoch(f)) for f in lanes] for lanes in model.lanes]
        assert lanes_of(run, t + 1) == wanted, t
        queues = run.network.queues.reshape(tiles, -1)[:, k.D_COUNT]
        assert queues.tolist() == [len(queue) for queue in model.queues], t
        assert run.sources.settings[traffic.DELIVERED_N] == sum(delivered[: t + 1 - SINK_CYCLES])
        parity = t + 1 >> model.bits & 1
        old += sum(f is not None and f[1] != parity for lanes in wanted for f in lanes)
    run.run_until(t + SINK_CYCLES)
    assert run.network.counts[k.LONGEST] == model.longest
    assert bits is not None or model.longest <= most_cycles(arch.topology)
    assert sum(delivered) == len(trace.rows) == run.measured().packets
    assert run.sources.free[0] == len(run.sources.free) - 1
    assert old > 100 or bits is None or text == "line:1"


def test_hops_are_those_over_links_and_to_tiles():
    arch = replace(PRESETS["edge"].on("line:4"), router=RouterParams(kind="deflection"))
    run = TrafficMachine.recorded(arch, Trace(rows=np.array([[5, 0, 3, 1], [9, 1, 1, 1]])))
    run.run_until(c.LAST_CYCLE)
    found = run.measured()
    assert (found.flit_hops, found.packets) == (4 + 1, 2)
    assert found.latency == ((1 + 3 + SINK_CYCLES) + (1 + SINK_CYCLES)) / 2
