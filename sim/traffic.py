"""Latency against load: synthetic traffic on an architecture's routers, measured as the field does.

A run warms up, measures batches of equal length, and drains: all packets made while measuring are
waited for. Their latencies are averaged over packets; the confidence interval is that of the means
of the batches (method of batch means).
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import Arch
from tokenpath.sim.fast import columns as c
from tokenpath.sim.fast import tables
from tokenpath.sim.fast import traffic as k
from tokenpath.sim.fast.events import ID_BITS
from tokenpath.sim.fast.state import I64, addresses
from tokenpath.sim.traffic_patterns import Pattern

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
    """An architecture's routers with sources and sinks; runs once."""

    def __init__(
        self, arch: Arch, load: Load, *, warmup: int, batch: int, batches: int = 10
    ) -> None:
        if not 0 < load.rate <= load.mean_flits:
            raise InputError(
                f"load {load.rate} flits a node and cycle is outside 0..{load.mean_flits:g}: a "
                "node makes at most a packet a cycle"
            )
        self.arch, self.load, self.batch = arch, load, batch
        self.measure_until = warmup + batch * batches
        self.network = tables.network(arch)
        packets = int(self.network.room.sum()) + 2 * arch.tiles
        self.engines = tables.only_network(arch, self.network, packets)
        self.sources = self._sources(packets, warmup, batch, batches)
        self._start()

    def _sources(self, packets: int, warmup: int, batch: int, batches: int) -> k.Sources:
        tiles, load = self.arch.tiles, self.load
        settings = np.zeros(k.SETTINGS, np.int64)
        chance = load.rate / load.mean_flits
        values = {
            k.PATTERN: load.pattern.kind,
            k.SIZES: len(load.sizes),
            k.GAP: 0 if chance >= 1 else round(2**32 / math.log1p(-chance)),
            k.UNTIL: self.measure_until,
            k.BATCH: batch,
            k.BATCHES: batches,
            k.FROM: warmup,
        }
        settings[list(values)] = list(values.values())
        sources = np.zeros((tiles, k.T_WIDTH), np.int64)
        generator = np.random.default_rng(load.seed)
        sources[:, k.T_RANDOM] = generator.integers(1, 2**63 - 1, tiles)
        first = generator.geometric(chance, tiles) - 1 if chance < 1 else 0
        sources[:, k.T_NEXT] = first
        weights = np.cumsum(list(load.sizes.values())) / sum(load.sizes.values())
        sizes = np.stack([np.round(weights * 2**32), list(load.sizes)], axis=1).astype(np.int64)
        return k.Sources(
            settings=settings,
            sources=sources.reshape(-1),
            packets=np.zeros(packets * k.M_WIDTH, np.int64),
            free=np.concatenate([[packets], np.arange(packets)]),
            table=load.pattern.table,
            sizes=sizes.reshape(-1),
            trace=np.zeros(4, np.int64),
            batches=np.zeros(batches * k.A_WIDTH, np.int64),
        )

    def _start(self) -> None:
        """Every source waits for its first packet."""
        due = self.sources.sources.reshape(-1, k.T_WIDTH)[:, k.T_NEXT]
        waiting = np.flatnonzero(due < self.measure_until)
        keys = np.sort(due[waiting] << ID_BITS | 4 * waiting)  # sorted: a heap
        self.engines.heap[: len(keys)] = keys
        self.engines.g[c.HEAP_N] = len(keys)

    def run_until(self, last: int) -> None:
        """Simulate up to and including cycle ``last``."""
        k.simulate_traffic(
            addresses(self.engines), addresses(self.network), addresses(self.sources), last
        )

    def measure(self) -> Measured:
        """Warm up, measure, and drain, unless the network takes less than it is offered: then
        what is left at the sources would never come to an end.
        """
        self.run_until(self.measure_until)
        if self.measured().keeps_up:
            self.run_until(2 * self.measure_until + 10_000)
        return self.measured()

    def measured(self) -> Measured:
        """What the batches say."""
        rows = self.sources.batches.reshape(-1, k.A_WIDTH)
        made, packets = int(rows[:, k.A_MADE].sum()), int(rows[:, k.A_PACKETS].sum())
        nodes = self.arch.tiles * self.batch * len(rows)
        accepted = rows[:, k.A_FLITS].sum() / nodes
        mean, interval = _mean(rows)
        offered = made * self.load.mean_flits / nodes
        outputs = self.network.outputs.reshape(-1, c.O_WIDTH)[: self.engines.constants[c.NI_PORT0]]
        return Measured(
            offered=offered, accepted=float(accepted), latency=mean, interval=interval,
            longest=int(rows[:, k.A_MOST].max()), packets=packets, missing=made - packets,
            cycles=self.measure_until, flit_hops=int(outputs[:, c.O_COUNT].sum()),
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
        found = TrafficMachine(arch, load, warmup=effort.warmup, batch=batch).measure()
        exact = found.interval <= effort.precision * found.latency
        if exact or not found.stable or 2 * batch > effort.most:
            return found
        batch *= 2


def saturation(arch: Arch, load: Load, effort: Effort = Effort(), step: float = 0.005) -> float:
    """The highest load, a multiple of ``step``, at which the mean latency is below three times
    that without load: the knee of the curve, by bisection. ``load.rate`` plays no part.
    """
    limit = 3 * point(arch, replace(load, rate=ZERO_LOAD), effort).latency
    low, high = 0, int(load.mean_flits / step)
    while high - low > 1:
        middle = (low + high) // 2
        found = point(arch, replace(load, rate=middle * step), effort)
        if found.stable and found.latency < limit:
            low = middle
        else:
            high = middle
    return round(low * step, 9)
