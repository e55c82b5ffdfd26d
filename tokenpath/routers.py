"""Router microarchitectures side by side: synthetic traffic, and a token's decoding."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.pipeline import position_of
from tokenpath.sim.fast import FastMachine
from tokenpath.sim.traffic import ZERO_LOAD, Effort, Load, saturation, zero_load
from tokenpath.sim.traffic_patterns import Pattern
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import plan
from tokenpath.sw.model import ModelSpec

if TYPE_CHECKING:
    from tokenpath.cost.flow import Cost

QUICK = Effort(warmup=1000, batch=500, most=2000)
"""Effort of the synthetic points."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One router on one topology.

    ``zero_load`` latency in cycles and ``saturation`` in flits a node and cycle, uniform traffic of
    single flits; ``cycles`` of a token on the model, and ``interconnect`` those of its critical
    path that are the network's, None for a router that no program runs on. ``cost`` is that of the
    router of a tile in the middle, where it was asked for.
    """

    topology: str
    router: str
    zero_load: float
    saturation: float
    cycles: int | None = None
    interconnect: int | None = None
    tokens_per_s: float | None = None
    cost: "Cost | None" = None


def compare(
    spec: ModelSpec,
    arch: Arch,
    topologies: Sequence[str],
    routers: Sequence[RouterParams],
    *,
    position: int | None = None,
    context: int | None = None,
    cost: Callable[[Arch], "Cost"] | None = None,
    advance: Callable[[float], None] = lambda amount: None,
) -> Iterator[Compared]:
    """Every router on every topology, one after the other.

    The token is at ``position``, or the last that the context holds. ``cost`` measures a machine's
    router. Raises InputError for what doesn't fit together, before anything is measured.
    """
    nets = [arch.on(topology) for topology in topologies]
    machines = [[net.on(router=router) for router in routers] for net in nets]
    mappings = [plan(spec.shape, net, context=context) for net in nets]
    for net, mapping, on_net in zip(nets, mappings, machines, strict=True):
        program = lower(mapping, spec, values=False)  # the same for every router
        last = position_of(program, position)
        load = Load(pattern=Pattern.parse("uniform", net.topology), rate=ZERO_LOAD)
        for machine in on_net:
            latency = zero_load(machine, load, QUICK)
            found = Compared(
                topology=str(net.topology),
                router=str(machine.router),
                zero_load=latency,
                saturation=saturation(machine, load, latency, QUICK, step=0.01),
                cost=cost(machine) if cost else None,
            )
            if machine.router.kind != "deflection":
                step = FastMachine(replace(program, arch=machine), values=False).step(0, last)
                found = replace(
                    found, cycles=step.cycles, interconnect=step.ledger["interconnect"],
                    tokens_per_s=machine.clock_hz / step.cycles,
                )  # fmt: skip
            yield found
            advance(1)
