"""Latency against load: synthetic traffic on an architecture's routers, measured as the field does.

A run warms up, measures batches of equal length, and drains: all packets made while measuring are
waited for. Their latencies are averaged over packets; the confidence interval is that of the means
of the batches (method of batch means).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import Arch
from tokenpath.sim.fast import columns as c
from tokenpath.sim.fast import deflection, deflection_tables, network_tables, tables
from tokenpath.sim.fast import traffic as k
from tokenpath.sim.fast.events import ID_BITS
from tokenpath.sim.fast.state import I64, addresses
from tokenpath.sim.traffic_patterns import Pattern
from tokenpath.sim.traffic_trace import Trace

STUDENT = 2.262
"""Two-sided 95 % quantile of Student's t with 9 degrees of freedom: ten batches."""


ZERO_LOAD = 0.002
"""Flits a node and cycle at which no packet meets another, nearly."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """Traffic: ``rate`` flits a node and cycle, packets of ``sizes`` (flits: weight)."""

    pattern: Pattern
    rate: float
    sizes: dict[int, float] = field(default_factory=lambda: {1: 1.0})
    seed: int = 1

    @property
    def mean_flits(self) -> float:
        """Flits of a packet, on average."""
        total = sum(self.sizes.values())
        return sum(flits * weight for flits, weight in self.sizes.items()) / total


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One point: loads in flits a node and cycle, latencies in cycles.

    ``interval`` is the half width of the 95 % confidence interval of the latency. ``flit_hops``
    counts flits over routers of the whole run; ``missing`` packets were made while measuring and
    never came home.
    """

    offered: float
    accepted: float
    latency: float
    interval: float
    longest: int
    packets: int
    missing: int
    cycles: int
    flit_hops: int

    @property
    def keeps_up(self) -> bool:
        """Whether the network took what it was offered, but for one in twenty."""
        return self.accepted > 0.95 * self.offered

    @property
    def stable(self) -> bool:
        """Whether the latency is that of all packets of a network that keeps up."""
        return self.keeps_up and self.missing == 0


class TrafficMachine:
    """An architecture's routers with sources and sinks; runs once. See ``synthetic`` and
    ``recorded``.
    """

    def __init__(self, arch: Arch, sources: k.Sources, mean_flits: float) -> None:
        self.arch, self.sources, self.mean_flits = arch, sources, mean_flits
        self.measure_until = int(sources.settings[k.UNTIL])
        self.network: Any
        if arch.router.kind == "deflection":
            self.network = deflection_tables.network(arch)
            self.engines = deflection_tables.engines(arch)
            packets = len(self.engines.destinations)
        else:
            self.network = network_tables.network(arch)
            packets = int(self.network.room.sum()) + 2 * arch.tiles
            self.engines = tables.only_network(arch, self.network, packets)
        self.sources = sources._replace(
            packets=np.zeros(packets * k.M_WIDTH, np.int64),
            free=np.concatenate([[packets], np.arange(packets)]),
            recorded=np.zeros(packets, np.int64),
        )
        self._start()

    @classmethod
    def synthetic(
        cls, arch: Arch, load: Load, *, warmup: int, batch: int, batches: int = 10
    ) -> "TrafficMachine":
        """Random sources, which stop behind the last batch. Raises InputError for a load that no
        source can make.
        """
        if not 0 < load.rate <= load.mean_flits:
            raise InputError(
                f"load {load.rate} flits a node and cycle is outside 0..{load.mean_flits:g}: a "
                "node makes at most a packet a cycle"
            )
        _check_lengths(arch, load.sizes)
        chance = load.rate / load.mean_flits
        values = {
            k.PATTERN: load.pattern.kind,
            k.SIZES: len(load.sizes),
            k.GAP: 0 if chance >= 1 else round(2**32 / math.log1p(-chance)),
        }
        generator = np.random.default_rng(load.seed)
        sources = np.zeros((arch.tiles, k.T_WIDTH), np.int64)
        sources[:, k.T_RANDOM] = generator.integers(1, 2**63 - 1, arch.tiles)
        first = generator.geometric(chance, arch.tiles) - 1 if chance < 1 else 0
        sources[:, k.T_NEXT] = first
        weights = np.cumsum(list(load.sizes.values())) / sum(load.sizes.values())
        sizes = np.stack([np.round(weights * 2**32), list(load.sizes)], axis=1).astype(np.int64)
        found = _sources(sources, values, warmup, batch, batches)
        found = found._replace(table=load.pattern.table, sizes=sizes.reshape(-1))
        return cls(arch, found, load.mean_flits)

    @classmethod
    def recorded(cls, arch: Arch, trace: Trace) -> "TrafficMachine":
        """Sources that make the packets of a trace, one batch in all. Raises InputError for a tile
        that the architecture doesn't have.
        """
        _check_lengths(arch, trace.rows[:, 3])
        rows, first = trace.by_source(arch.tiles)
        sources = np.zeros((arch.tiles, k.T_WIDTH), np.int64)
        sources[:, k.T_TRACE], sources[:, k.T_NEXT] = first, rows[first, 0]
        found = _sources(sources, {k.PATTERN: k.RECORDED}, 0, trace.last + 1, 1)
        mean = float(trace.rows[:, 3].mean())
        packets = np.column_stack([rows, np.zeros(len(rows), np.int64)])
        return cls(arch, found._replace(trace=packets.reshape(-1)), mean)

    def _start(self) -> None:
        """Every source waits for its first packet."""
        due = self.sources.sources.reshape(-1, k.T_WIDTH)[:, k.T_NEXT]
        waiting = np.flatnonzero(due < self.measure_until)
        keys = np.sort(due[waiting] << ID_BITS | 4 * waiting)  # sorted: a heap
        self.engines.heap[: len(keys)] = keys
        self.engines.g[c.HEAP_N] = len(keys)

    def run_until(self, last: int) -> None:
        """Simulate up to and including cycle ``last``."""
        simulate: Callable[[I64, I64, I64, int], int]
        if self.arch.router.kind == "deflection":
            simulate = deflection.simulate_deflection
        elif self.engines.constants[c.ANY]:
            simulate = k.simulate_traffic_any
        else:
            simulate = k.simulate_traffic
        simulate(addresses(self.engines), addresses(self.network), addresses(self.sources), last)

    @property
    def flit_hops(self) -> int:
        """Flits over routers so far."""
        if self.arch.router.kind == "deflection":
            return int(self.network.counts[deflection.HOPS])
        outputs = self.network.outputs.reshape(-1, c.O_WIDTH)[: self.engines.constants[c.NI_PORT0]]
        return int(outputs[:, c.O_COUNT].sum())

    def measure(self) -> Measured:
        """Warm up, measure, and drain, unless the network takes less than it is offered: then
        what is left at the sources would never come to an end.
        """
        self.run_until(self.measure_until)
        if self.measured().keeps_up:
            self.run_until(2 * self.measure_until + 10_000)
        return self.measured()

    def delivered(self) -> I64:
        """When each packet of a trace was delivered, by the rows of ``Trace.by_source``; 0: not."""
        return self.sources.trace.reshape(-1, k.D_WIDTH)[:, k.D_DELIVERED]

    def measured(self) -> Measured:
        """What the batches say."""
        rows = self.sources.batches.reshape(-1, k.A_WIDTH)
        made, packets = int(rows[:, k.A_MADE].sum()), int(rows[:, k.A_PACKETS].sum())
        nodes = self.arch.tiles * int(self.sources.settings[k.BATCH]) * len(rows)
        accepted = rows[:, k.A_FLITS].sum() / nodes
        mean, interval = _mean(rows)
        offered = made * self.mean_flits / nodes
        return Measured(
            offered=offered, accepted=float(accepted), latency=mean, interval=interval,
            longest=int(rows[:, k.A_MOST].max()), packets=packets, missing=made - packets,
            cycles=self.measure_until, flit_hops=self.flit_hops,
        )  # fmt: skip


def _check_lengths(arch: Arch, flits: Iterable[int]) -> None:
    """Raises InputError where a packet would arrive in pieces, in any order, or would be longer
    than what a credit stands for.
    """
    longest = max(flits, default=1)
    if arch.router.whole_packets and longest > arch.packet_flits:
        raise InputError(
            f"a credit of router {arch.router} is room for a packet of {arch.packet_flits} flits, "
            f"not of {longest}: give shorter packets, another router, or a larger max_packet_words"
        )
    if arch.router.kind == "deflection" and longest > 1:
        raise InputError(
            f"a deflection router sends the flits of a packet of {longest} apart: give packets of "
            "one flit, or another router"
        )


def _sources(
    sources: I64, values: dict[int, int], warmup: int, batch: int, batches: int
) -> k.Sources:
    """Sources (tiles, columns) with their settings; everything else is empty."""
    settings, nothing = np.zeros(k.SETTINGS, np.int64), np.zeros(1, np.int64)
    values |= {k.UNTIL: warmup + batch * batches, k.BATCH: batch, k.BATCHES: batches}
    settings[list(values)] = list(values.values())
    settings[k.FROM] = warmup
    return k.Sources(
        settings=settings, sources=sources.reshape(-1), packets=nothing, free=nothing,
        table=nothing, sizes=nothing, trace=nothing, recorded=nothing,
        batches=np.zeros(batches * k.A_WIDTH, np.int64),
    )  # fmt: skip


def _mean(rows: I64) -> tuple[float, float]:
    """Mean latency over all packets, and the half width of its 95 % interval over batches."""
    packets: Any = rows[:, k.A_PACKETS]
    if packets.sum() == 0:
        return math.nan, math.nan
    means = rows[:, k.A_LATENCY] / np.maximum(packets, 1)
    spread = float(np.std(means, ddof=1)) if len(rows) > 1 else math.nan
    return float(rows[:, k.A_LATENCY].sum() / packets.sum()), STUDENT * spread / math.sqrt(
        len(rows)
    )


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How long a point is measured: batches are doubled until the interval is ``precision`` of the
    latency, but not beyond ``most`` cycles a batch.
    """

    warmup: int = 2000
    batch: int = 500
    most: int = 8000
    precision: float = 0.01


def point(arch: Arch, load: Load, effort: Effort = Effort()) -> Measured:
    """One point of a curve. Raises InputError for a load that no source can make."""
    batch = effort.batch
    while True:
        machine = TrafficMachine.synthetic(arch, load, warmup=effort.warmup, batch=batch)
        found = machine.measure()
        exact = found.interval <= effort.precision * found.latency
        if exact or not found.stable or 2 * batch > effort.most:
            return found
        batch *= 2


def zero_load(arch: Arch, load: Load, effort: Effort = Effort()) -> float:
    """Mean latency where no packet meets another, nearly. ``load.rate`` plays no part."""
    return point(arch, replace(load, rate=ZERO_LOAD), effort).latency


def saturation(
    arch: Arch, load: Load, without_load: float, effort: Effort = Effort(), step: float = 0.005
) -> float:
    """The highest load, a multiple of ``step``, at which the mean latency is below three times
    that ``without_load``: the knee of the curve, by bisection. ``load.rate`` plays no part.
    """
    limit = 3 * without_load
    low, high = 0, int(load.mean_flits / step)
    while high - low > 1:
        middle = (low + high) // 2
        found = point(arch, replace(load, rate=middle * step), effort)
        if found.stable and found.latency < limit:
            low = middle
        else:
            high = middle
    return round(low * step, 9)


def replay(arch: Arch, trace: Trace) -> tuple[Measured, int]:
    """What a trace's packets took on an architecture's routers, and the cycle of the last
    delivery.
    """
    machine = TrafficMachine.recorded(arch, trace)
    machine.run_until(c.LAST_CYCLE)  # it ends long before, when all packets are delivered
    return machine.measured(), int(machine.sources.settings[k.LAST])
