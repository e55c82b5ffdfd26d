"""Traffic: latencies pinned to the formula, nothing lost, and what is measured."""

from dataclasses import replace

import numpy as np
import pytest

from tokenpath.hw.arch.deflection import most_cycles
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.timing import SINK_CYCLES
from tokenpath.sim.fast import columns as c
from tokenpath.sim.fast import traffic as k
from tokenpath.sim.fast.deflection import LONGEST
from tokenpath.sim.fast.network_tables import credits_of, queue_rows
from tokenpath.sim.traffic import (
    Effort,
    Load,
    TrafficMachine,
    _mean,
    point,
    replay,
    saturation,
    zero_load,
)
from tokenpath.sim.traffic_patterns import Pattern
from tokenpath.sim.traffic_trace import Trace


def machine(text="mesh:4x4", **router):
    arch = PRESETS["edge"].on(text)
    return replace(arch, router=RouterParams(**({"kind": "vc", "depth": 4} | router)))


def load(arch, rate, pattern="uniform", **changes):
    return Load(pattern=Pattern.parse(pattern, arch.topology), rate=rate, **changes)


def knee(arch, traffic, effort):
    return saturation(arch, traffic, zero_load(arch, traffic, effort), effort)


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("flits", [1, 5])
@pytest.mark.parametrize("latency", [1, 3])
def test_a_packet_alone_takes_what_its_hops_take(stages, flits, latency):
    """In t + 1 at its router, a grant and the link for each hop, and the sink."""
    line = f"line5@die(latency={latency},cpf=1)"
    arch = machine(line, stages=stages, vcs=2, depth=8)
    traffic = load(arch, 0.004, "hotspot:4", sizes={flits: 1.0})
    run = TrafficMachine.synthetic(arch, traffic, warmup=0, batch=4000, batches=1)
    sources = run.sources.sources.reshape(-1, k.T_WIDTH)
    sources[:, k.T_NEXT] = [100, 10**9, 10**9, 10**9, 10**9]
    run.sources.settings[k.GAP] = -(10**6) << 32
    run.engines.g[c.HEAP_N] = 0
    run._start()
    found = run.measure()
    hops = 5
    wanted = 1 + (hops - 1) * (latency + stages - 1) + SINK_CYCLES + stages - 1 + flits - 1
    assert (found.latency, found.packets, found.missing) == (wanted, 1, 0)
    assert found.flit_hops == hops * flits


def under_way(network):
    """What is on the links: of an empty network credits, which nobody waits for."""
    return sum(
        int(batch[c.H_END] - batch[c.H_BEGIN])
        for queue in queue_rows(network)
        for i in range(queue[c.U_FIRST], queue[c.U_LAST])
        for batch in [network.queues[queue[c.U_BATCHES] + (i & queue[c.U_MASK]) * c.H_WIDTH :]]
    )


@pytest.mark.parametrize("text", ["mesh:4x4", "torus:4x4", "flat:9", "switch:5", "tiered:2x3x2"])
@pytest.mark.parametrize("router", [{"kind": "wormhole"}, {"vcs": 4}, {"vcs": 2, "stages": 2}])
def test_past_saturation_the_network_drains_and_nothing_is_lost(text, router):
    arch = machine(text, **{"depth": 1, **router})
    traffic = load(arch, 0.9, sizes={1: 0.5, 4: 0.5})
    run = TrafficMachine.synthetic(arch, traffic, warmup=0, batch=300, batches=2)
    run.run_until(600)
    settings = run.sources.settings
    assert settings[k.DELIVERED_N] < settings[k.MADE_N]
    run.run_until(100_000)
    assert settings[k.DELIVERED_N] == settings[k.MADE_N] > 0
    assert run.measured().missing == 0
    assert run.network.counts[: c.INJECTING_N + 1].tolist() == [0, 0]
    outputs = run.network.outputs.reshape(-1, c.O_WIDTH)
    credits = credits_of(run.network, arch.vcs)[outputs[:, c.O_DOWN] >= 0]
    assert credits.sum() + under_way(run.network) == run.network.room.sum()
    assert run.sources.free[0] == len(run.sources.free) - 1


def test_a_run_is_the_same_again_and_another_seed_is_another():
    arch = machine(vcs=2)
    runs = [
        TrafficMachine.synthetic(arch, load(arch, 0.2, seed=seed), warmup=100, batch=100).measure()
        for seed in (7, 7, 8)
    ]
    assert runs[0] == runs[1] != runs[2]


def test_offered_load_and_lengths_are_those_asked_for():
    arch = machine(vcs=4, depth=8)
    traffic = load(arch, 0.3, sizes={1: 0.75, 5: 0.25})
    found = TrafficMachine.synthetic(arch, traffic, warmup=1000, batch=2000).measure()
    assert found.offered == pytest.approx(0.3, rel=0.02)
    assert found.accepted == pytest.approx(0.3, rel=0.02)
    assert found.stable


def test_an_overloaded_network_tells_no_stable_latency():
    arch = machine(vcs=2)
    found = point(arch, load(arch, 1.0, "transpose"))
    assert not found.stable
    assert found.accepted == pytest.approx(0.625, abs=0.01)  # 4 to themselves, 12 at a half


def test_saturation_of_a_permutation_is_that_of_its_busiest_link():
    arch = machine("line:4", vcs=4, depth=8)
    assert knee(arch, load(arch, 0.1, "bitcomp"), Effort(batch=300)) == pytest.approx(0.5, abs=0.02)


def test_more_virtual_channels_carry_more():
    knees = [
        knee(machine("mesh:6x6", vcs=vcs), load(machine("mesh:6x6"), 0.1), Effort(batch=200))
        for vcs in (1, 4)
    ]
    assert knees[0] + 0.05 < knees[1]


def test_the_interval_is_that_of_the_means_of_batches():
    rows = np.zeros((10, k.A_WIDTH), np.int64)
    rows[:, k.A_PACKETS] = 2
    rows[:, k.A_LATENCY] = 2 * np.array([9, 11] * 5)
    mean, interval = _mean(rows)
    assert mean == 10
    assert interval == pytest.approx(2.262 * np.sqrt(10 / 9) / np.sqrt(10))


@pytest.mark.parametrize("rate", [0, -0.1, 1.5])
def test_a_load_that_no_source_can_make_is_refused(rate):
    arch = machine()
    with pytest.raises(InputError, match=f"load {rate} flits a node and cycle is outside"):
        TrafficMachine.synthetic(arch, load(arch, rate), warmup=0, batch=10)


def test_the_ring_of_a_buffer_may_begin_at_any_slot():
    arch = machine("line:3", vcs=2)
    runs = []
    for start in (0, 3):
        run = TrafficMachine.synthetic(arch, load(arch, 0.5), warmup=0, batch=100)
        rows = run.network.buffers.reshape(-1, c.LINE)  # buffers of one line each
        rows[:, c.B_HEAD] = np.minimum(start, rows[:, c.B_MASK])
        runs.append(run.measure())
        assert run.network.counts[: c.INJECTING_N + 1].tolist() == [0, 0]
    assert runs[0] == runs[1]
    assert runs[0].missing == 0


DEFLECTION = {"kind": "deflection"}


@pytest.mark.parametrize("text", ["mesh:4x4", "torus:4x4", "ring:6", "mesh:3x3x3"])
def test_a_deflection_network_drains_and_keeps_its_bound(text):
    arch = machine(text, **DEFLECTION)
    for pattern in ("uniform", f"hotspot:{arch.tiles - 1}@0.5"):
        traffic = load(arch, 1.0, pattern)
        run = TrafficMachine.synthetic(arch, traffic, warmup=0, batch=1500, batches=2)
        run.run_until(3000)
        settings = run.sources.settings
        assert settings[k.DELIVERED_N] < settings[k.MADE_N]
        run.run_until(300_000)
        assert settings[k.DELIVERED_N] == settings[k.MADE_N] > 0
        assert 0 < run.network.counts[LONGEST] <= most_cycles(arch.topology)
        assert run.sources.free[0] == len(run.sources.free) - 1
        assert not run.network.lanes.any()


def test_a_deflected_flit_alone_takes_what_its_hops_take():
    arch = machine("line5@die(latency=3,cpf=1)", **DEFLECTION)
    wormhole = machine("line5@die(latency=3,cpf=1)", kind="wormhole")
    rows = np.array([[100, 0, 4, 1], [300, 2, 2, 1], [400, 3, 1, 1]])
    (found, last), (other, other_last) = (replay(a, Trace(rows=rows)) for a in (arch, wormhole))
    assert replace(found, interval=0) == replace(other, interval=0)
    assert last == other_last == 400 + 1 + 2 * 3 + SINK_CYCLES
    assert found.longest == 1 + 4 * 3 + SINK_CYCLES


def test_deflection_carries_less_than_buffers_and_no_less_than_before():
    arch = machine("mesh:8x8", **DEFLECTION)
    effort = Effort(batch=300)
    assert knee(arch, load(arch, 0.1), effort) == pytest.approx(0.355, abs=0.01)
    assert zero_load(arch, load(arch, 0.1), effort) == pytest.approx(8.25, abs=0.1)


def test_packets_of_several_flits_are_refused_by_deflection():
    arch = machine("mesh:4x4", **DEFLECTION)
    message = "sends the flits of a packet of 5 apart: give packets of one flit, or another router"
    with pytest.raises(InputError, match=message):
        point(arch, load(arch, 0.1, sizes={1: 0.5, 5: 0.5}))
    with pytest.raises(InputError, match=message):
        replay(arch, Trace(rows=np.array([[0, 0, 1, 5]])))


def test_packets_longer_than_a_credit_are_refused():
    """They would run over the buffers, and over what is behind them in memory."""
    arch = replace(PRESETS["edge"].on("mesh:2x2"), max_packet_words=6).on(router="vc2-d8-bubble")
    assert arch.packet_flits == 2
    traffic = load(arch, 0.9, sizes={1: 0.5, 2: 0.5})
    run = TrafficMachine.synthetic(arch, traffic, warmup=0, batch=100)
    run.run_until(100_000)
    assert run.measured().missing == 0
    message = (
        "a credit of router vc2-d8-bubble is room for a packet of 2 flits, not of 3: give shorter "
        "packets, another router, or a larger max_packet_words"
    )
    with pytest.raises(InputError, match=message):
        point(arch, load(arch, 0.1, sizes={1: 0.5, 3: 0.5}))
    with pytest.raises(InputError, match=message):
        replay(arch, Trace(rows=np.array([[0, 0, 1, 3]])))
