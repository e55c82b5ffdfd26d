"""Routers side by side: every pair in order, the token's cycles those of the fast simulator."""

from dataclasses import replace

import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.routers import compare
from tokenpath.sim.fast import FastMachine
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import plan
from tokenpath.sw.model import load


def test_every_router_on_every_topology_and_the_tokens_cycles() -> None:
    spec, arch, steps = load("mathformer-add"), Arch.load("tiny"), []
    kinds = [RouterParams.parse(text) for text in ("wormhole-d2", "vc2-d2-s2")]
    nets = ["mesh:2x2", "torus:3x1"]
    found = list(compare(spec, arch, nets, kinds, position=3, advance=steps.append))
    assert [(row.topology, row.router) for row in found] == [
        (str(arch.on(net).topology), str(kind)) for net in nets for kind in kinds
    ]
    assert len(steps) == 4
    for row, kind in zip(found[:2], kinds, strict=True):
        machine = replace(arch.on("mesh:2x2"), router=kind)
        program = lower(plan(spec.shape, machine), spec, values=False)
        assert row.cycles == FastMachine(program, values=False).step(0, 3).cycles
        assert row.tokens_per_s == pytest.approx(machine.clock_hz / row.cycles)
        assert 0 < row.interconnect < row.cycles
    assert found[0].zero_load < found[1].zero_load
    assert found[0].cycles < found[1].cycles


def test_routers_that_a_topology_cannot_have_are_refused() -> None:
    spec, arch = load("mathformer-add"), Arch.load("tiny")
    with pytest.raises(InputError, match="can't be halved at a ring's dateline"):
        list(compare(spec, arch, ["ring:4"], [RouterParams.parse("vc3-d2")]))


def test_what_does_not_fit_is_refused_before_anything_is_measured() -> None:
    spec, arch, measured = load("mathformer-add"), Arch.load("tiny"), []
    kinds = [RouterParams.parse(text) for text in ("wormhole-d2", "vc2-d2-odd_even")]
    with pytest.raises(InputError, match="routing odd_even has no dateline for a ring"):
        list(compare(spec, arch, ["mesh:2x2", "torus:3x3"], kinds, advance=measured.append))
    assert not measured


def test_a_router_that_no_program_runs_on_has_traffic_only() -> None:
    spec, arch = load("mathformer-add"), Arch.load("tiny")
    kinds = [RouterParams.parse(text) for text in ("deflection", "wormhole-d2")]
    one, other = compare(spec, arch, ["mesh:2x2"], kinds, position=3)
    assert (one.router, one.cycles, one.interconnect, one.tokens_per_s) == (
        "deflection", None, None, None,
    )  # fmt: skip
    assert 0 < one.saturation <= 1
    assert one.zero_load == pytest.approx(other.zero_load, rel=0.05)
    machine = replace(arch, router=kinds[0])
    with pytest.raises(InputError, match="programs need whole packets"):
        lower(plan(spec.shape, machine), spec, values=False)
    program = lower(plan(spec.shape, arch), spec, values=False)
    with pytest.raises(InputError, match="programs need whole packets"):
        FastMachine(replace(program, arch=machine), values=False)
