"""Router microarchitectures side by side: synthetic traffic, and a token's decoding."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tokenpath.hw.arch.params import Arch, RouterParams
from tokenpath.sim.fast import FastMachine
from tokenpath.sim.traffic import ZERO_LOAD, Effort, Load, point, saturation
from tokenpath.sim.traffic_patterns import Pattern
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import plan
from tokenpath.sw.model import ModelSpec

QUICK = Effort(warmup=1000, batch=500, most=2000)
"""Effort of the synthetic points."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One router on one topology.

    ``zero_load`` latency in cycles and ``saturation`` in flits a node and cycle, uniform traffic of
    single flits; ``cycles`` of a token on the model, and ``interconnect`` those of its critical
    path that are the network's.
    """

    topology: str
    router: str
    zero_load: float
    saturation: float
    cycles: int
    interconnect: int
    tokens_per_s: float


def compare(
    spec: ModelSpec,
    arch: Arch,
    topologies: Sequence[str],
    routers: Sequence[RouterParams],
    *,
    position: int | None = None,
    context: int | None = None,
    advance: Callable[[float], None] = lambda amount: None,
) -> Iterator[Compared]:
    """Every router on every topology, one after the other.

    The token is at ``position``, or the last that the context holds. Raises InputError for what
    doesn't fit together.
    """
    machines = [
        replace(arch.on(topology), router=router) for topology in topologies for router in routers
    ]
    for machine in machines:
        uniform = Pattern.parse("uniform", machine.topology)
        load = Load(pattern=uniform, rate=ZERO_LOAD)
        mapping = plan(spec.shape, machine, context=context)
        program = lower(mapping, spec, values=False)
        last = mapping.context - 1 if position is None else position
        step = FastMachine(program, values=False).step(0, last)
        yield Compared(
            topology=str(machine.topology),
            router=str(machine.router),
            zero_load=point(machine, load, QUICK).latency,
            saturation=saturation(machine, load, QUICK, step=0.01),
            cycles=step.cycles,
            interconnect=step.ledger["interconnect"],
            tokens_per_s=machine.clock_hz / step.cycles,
        )
        advance(1)
