"""A slow model of the array that ticks every cycle, written from the rules and not from sim/fast.

One beat, one flit, one credit at a time. All decisions of a cycle look at the state at its start;
whatever they cause is put into a calendar of later cycles. It computes no values.
``Reference(program).step()`` returns the step's cycles and leaves ``times[tile, engine,
instruction] = (issue, end)``, ``reads`` and ``link_flits``.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from tokenpath.hw.arch import timing
from tokenpath.hw.arch.allocation import Allocator
from tokenpath.hw.arch.isa import COLUMN, OPERAND_FIELDS, STREAM_OPS, Engine, Op
from tokenpath.hw.arch.program import Program
from tokenpath.hw.arch.ways import first_channels, ways

PATIENCE = 20_000


@dataclass
class Flit:
    to: int
    head: bool
    tail: bool
    semaphore: int


@dataclass
class Tile:
    index: int
    registers: list[int]
    semaphores: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    pc: list[int] = field(default_factory=lambda: [0, 0, 0])
    working: list[bool] = field(default_factory=lambda: [False] * 3)
    fifo: deque[int] = field(default_factory=deque)  # cycles in which its beats become available
    room: int = 0
    to_read: int = 0  # beats that the STREAM has still to read
    to_take: int = 0  # beats that the operation has still to consume
    take_from: int = 0
    interval: int = 1
    epilogue: int = 0
    unread: deque[int] = field(default_factory=deque)
    to_send: deque[deque[Flit]] = field(default_factory=deque)  # descriptors of the PUT
    send_from: int = 0
    send_credits: list[int] = field(default_factory=list)
    send_vc: int = 0
    send_vc_next: int = 0


class Reference:
    def __init__(self, program: Program) -> None:
        self.program, self.arch = program, program.arch
        self.topology = topology = program.arch.topology
        registers = np.asarray(program.registers).tolist()
        self.tiles = [Tile(i, [0, *registers[i][1:]]) for i in range(program.tiles)]
        self.router, self.vcs = self.arch.router, self.arch.vcs
        self.extra = min(self.router.stages, 2) - 1
        self.now = 0
        self.calendar: defaultdict[int, list[Callable[[], None]]] = defaultdict(list)
        self.pending = 0  # entries of the calendar that a step has to wait for
        self.lock: set[tuple[int, int, int]] = set()
        self.held: dict[tuple[int, int, int], tuple[int, int]] = {}
        ports = [topology.ports(node) for node in range(topology.nodes)]
        self.switch = [self._allocator(count, self.router.allocator) for count in ports]
        self.channels = [self._allocator(count, "input_first") for count in ports]
        self.buffers: dict[tuple[int, int, int], deque[Flit]] = {}
        self.came_from: dict[tuple[int, int], tuple[int, int]] = {}
        self.tier = {}
        for link in topology.links:
            self.tier[link.src, link.src_port] = link.tier
            self.came_from[link.dst, link.dst_port] = (link.src, link.src_port)
        for node in range(topology.nodes):
            for port in range(topology.ports(node)):
                for vc in range(self.vcs):
                    self.buffers[node, port, vc] = deque()

    def _allocator(self, ports: int, kind: str) -> Allocator:
        router = self.router
        return Allocator(
            ports=ports, vcs=self.vcs, kind=kind, arbiter=router.arbiter,
            iterations=router.iterations if kind == "output_first" else 1,
        )  # fmt: skip

    # --- a step ---

    def step(self, position: int = 0) -> int:
        """Run the program once on every tile, token 0 at ``position``; returns the cycles."""
        for index, register, value in self.program.step_registers(position, 0):
            self.tiles[index].registers[register] = value
        self.now = 0
        self.calendar.clear()
        self.times: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.link_flits: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.link_free: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.credits = {
            (*src, vc): self._slots(self.router.buffer_flits(self.tier[src]))
            for src in self.came_from.values() for vc in range(self.vcs)
        }  # fmt: skip
        for tile in self.tiles:
            tile.pc, tile.working = [0, 0, 0], [False] * 3
            tile.fifo.clear()
            tile.room = self.arch.stream_depth
            tile.send_credits = [self._slots(self.router.local_flits)] * self.router.vcs
        quiet = 0
        while True:
            due = self.calendar.pop(self.now, [])
            for action in due:
                action()
            if self._finished():
                return self.now
            quiet = 0 if due else quiet + 1
            if quiet > PATIENCE:
                raise RuntimeError("deadlock")
            self._tick()
            self.now += 1

    def _slots(self, flits: int) -> int:
        return self.router.slots(flits, self.arch.packet_flits)

    def _finished(self) -> bool:
        done = all(t.pc[e] == len(self._code(t, e)) for t in self.tiles for e in range(3))
        return done and self.pending == 0 and not any(self.buffers.values())

    def _code(self, tile: Tile, engine: int) -> tuple[tuple[int, ...], ...]:
        return self.program.instructions(tile.index, Engine(engine))

    def _later(self, cycle: int, action: Callable[[], None], *, awaited: bool = True) -> None:
        assert cycle > self.now

        def run() -> None:
            self.pending -= awaited
            action()

        self.pending += awaited
        self.calendar[cycle].append(run)

    def _tick(self) -> None:
        grants = list(self._grants())
        for tile in self.tiles:
            taken, read = self._can_take(tile), self._can_read(tile)
            sent = self._can_send(tile)
            for engine in range(3):
                self._try_issue(tile, engine)
            if taken:
                self._take(tile)
            if read:
                self._read(tile)
            if sent:
                self._send(tile)
        for grant in grants:
            self._move(*grant)

    # --- engines ---

    def _try_issue(self, tile: Tile, engine: int) -> None:
        code, pc = self._code(tile, engine), tile.pc[engine]
        if tile.working[engine] or pc == len(code):
            return
        row = dict(zip(COLUMN, code[pc], strict=True))
        i = {name: row[name] for name in ("op", "wait", "post", "q", "x", "y")}
        for name in OPERAND_FIELDS:
            i[name] = row[name] + tile.registers[row[f"{name}_reg"]]
        if i["wait"]:
            if tile.semaphores[i["wait"]] < i["wait_n"]:
                return
            tile.semaphores[i["wait"]] -= i["wait_n"]
        tile.working[engine] = True
        self.times[tile.index, engine, pc] = (self.now, -1)
        self._execute(tile, engine, Op(i["op"]), i)

    def _execute(self, tile: Tile, engine: int, op: Op, i: dict[str, int]) -> None:
        if op == Op.STREAM:
            tile.to_read = i["n"] * self.arch.row_beats(i["m"])
            if tile.to_read == 0:
                self._end(tile, engine, 0)
        elif op == Op.APPEND:
            self._end(tile, engine, i["n"])
        elif op == Op.PUT:
            self._put(tile, i)
        elif op in STREAM_OPS:
            self._start_taking(tile, op, i)
        else:
            cycles = timing.vector_cycles(
                op, i["n"], i["m"], i["q"], self.arch.vlanes, self.arch.numeric.block
            )
            self._end(tile, engine, cycles)

    def _end(self, tile: Tile, engine: int, cycles: int) -> None:
        """The engine's instruction occupies ``cycles`` behind this one."""
        pc = tile.pc[engine]
        post = self._code(tile, engine)[pc][COLUMN["post"]]

        def end() -> None:
            if post:
                tile.semaphores[post] += 1
            tile.pc[engine] += 1
            tile.working[engine] = False
            self.times[tile.index, engine, pc] = (self.times[tile.index, engine, pc][0], self.now)

        self._later(self.now + cycles + 1, end)

    def _start_taking(self, tile: Tile, op: Op, i: dict[str, int]) -> None:
        arch = self.arch
        tile.to_take = i["n"] * arch.row_beats(i["m"])
        prologue = timing.stream_prologue(op)
        tile.interval = timing.beat_interval(op, arch.lanes, arch.vlanes)
        tile.epilogue = timing.stream_epilogue(op, i["m"], i["q"], arch.vlanes)
        tile.take_from = self.now + 1 + prologue
        if tile.to_take == 0:
            self._end(tile, Engine.COMPUTE, prologue + tile.epilogue)

    def _can_take(self, tile: Tile) -> bool:
        return (
            tile.to_take > 0
            and self.now >= tile.take_from
            and bool(tile.fifo)
            and tile.fifo[0] <= self.now
        )

    def _take(self, tile: Tile) -> None:
        tile.fifo.popleft()
        tile.to_take -= 1
        tile.take_from = self.now + tile.interval

        def free() -> None:
            tile.room += 1

        self._later(self.now + 1, free)
        if tile.to_take == 0:
            self._end(tile, Engine.COMPUTE, tile.epilogue)

    def _can_read(self, tile: Tile) -> bool:
        return tile.to_read > 0 and tile.room > 0

    def _read(self, tile: Tile) -> None:
        tile.room -= 1
        tile.to_read -= 1
        tile.fifo.append(self.now + self.arch.store_latency)
        if tile.to_read == 0:
            self._end(tile, Engine.MEMORY, 0)

    # --- network interface ---

    def _put(self, tile: Tile, i: dict[str, int]) -> None:
        rows = np.asarray(self.program.descriptors)[tile.index][
            i["aux"] : i["aux"] + i["m"]
        ].tolist()
        if not rows:
            self._end(tile, Engine.NETWORK, 0)
        for to, _, words, _ in rows:
            tile.to_send.append(deque(self._flits(to, words, i["y"])))
        tile.send_from = self.now + 1 + timing.DESCRIPTOR_CYCLES

    def _flits(self, to: int, words: int, semaphore: int) -> Iterator[Flit]:
        most = self.arch.max_packet_words
        sizes = [most] * (words // most)
        if words % most or not words:
            sizes.append(words % most)
        for number, size in enumerate(sizes):
            count = -(-(size + timing.HEADER_WORDS) // self.arch.flit_words)
            for k in range(count):
                last = number == len(sizes) - 1
                yield Flit(to, k == 0, k == count - 1, semaphore if last else 0)

    def _can_send(self, tile: Tile) -> bool:
        if not tile.to_send or self.now < tile.send_from:
            return False
        if tile.to_send[0][0].head:
            lanes = len(tile.send_credits)
            order = [(tile.send_vc_next + k) % lanes for k in range(lanes)]
            found = [vc for vc in order if tile.send_credits[vc] > 0]
            if self.router.ordered:
                allowed = first_channels(self.router, self.topology, tile.to_send[0][0].to)
                found = [vc for vc in found if allowed >> vc & 1]
            if not found:
                return False
            tile.send_vc = found[0]
        elif self.router.whole_packets:
            return True
        return tile.send_credits[tile.send_vc] > 0

    def _send(self, tile: Tile) -> None:
        flit, vc = tile.to_send[0].popleft(), tile.send_vc
        if flit.head:
            tile.send_vc_next = vc + 1
        if flit.head or not self.router.whole_packets:
            tile.send_credits[vc] -= 1
        self._later(self.now + 1, lambda: self.buffers[tile.index, 0, vc].append(flit))
        if not tile.to_send[0]:
            tile.to_send.popleft()
            tile.send_from = self.now + 1 + timing.DESCRIPTOR_CYCLES
            if not tile.to_send:
                self._end(tile, Engine.NETWORK, 0)

    # --- routers ---

    def _request(self, node: int, port: int, vc: int) -> tuple[int, int] | None:
        """The output port and VC that the head flit of an input VC can have in this cycle."""
        buffer, held = self.buffers[node, port, vc], self.held.get((node, port, vc))
        if not buffer:
            return None
        if held is not None:
            ready = self.router.whole_packets or self._room(node, *held) > 0
            return held if ready and self._rested(node, held[0]) else None
        found = []
        for o, allowed in ways(self.router, self.topology, node, port, vc, buffer[0].to):
            need = 2 if self._enters_bubbles(node, port, o) else 1
            takes = [
                w for w in range(self.vcs) if allowed >> w & 1
                and (node, o, w) not in self.lock and self._room(node, o, w) >= need
            ]  # fmt: skip
            if takes and self._rested(node, o):
                credits = sum(self._room(node, o, w) for w in range(self.vcs))
                found.append((-credits, len(found), (o, takes[0])))
        return min(found)[2] if found else None

    def _room(self, node: int, o: int, w: int) -> float:
        local = o == 0 and node < self.topology.tiles
        return float("inf") if local else self.credits[node, o, w]

    def _rested(self, node: int, o: int) -> bool:
        return self.now >= self.link_free[node, o]

    def _enters_bubbles(self, node: int, port: int, o: int) -> bool:
        if self.router.switching != "bubble" or node >= self.topology.tiles or o == 0:
            return False
        dims = [self.topology.port_dim(node, p) if p else None for p in (port, o)]
        return self.topology.dims[dims[1]].is_ring and dims[0] != dims[1]

    def _grants(self) -> Iterator[tuple[int, int, int, int, int]]:
        """(node, input port, VC, output port, output VC) of all flits that move in this cycle."""
        for node in range(self.topology.nodes):
            asking = {
                (port, vc): wanted
                for port in range(self.topology.ports(node)) for vc in range(self.vcs)
                if (wanted := self._request(node, port, vc)) is not None
            }  # fmt: skip
            heads = {}
            if self.router.stages == 3:
                heads = {at: to for at, to in asking.items() if (node, *at) not in self.held}
            rest = {at: to for at, to in asking.items() if at not in heads}
            for port, vc, _ in self.channels[node].cycle((*at, o) for at, (o, _) in heads.items()):
                self._hold(node, port, vc, *heads[port, vc])
            for port, vc, o in self.switch[node].cycle((*at, o) for at, (o, _) in rest.items()):
                yield node, port, vc, o, rest[port, vc][1]

    def _hold(self, node: int, port: int, vc: int, o: int, w: int) -> None:
        self.held[node, port, vc] = (o, w)
        self.lock.add((node, o, w))

    def _move(self, node: int, port: int, vc: int, o: int, w: int) -> None:
        flit = self.buffers[node, port, vc].popleft()
        if flit.head:
            self._hold(node, port, vc, o, w)
        if flit.tail:
            del self.held[node, port, vc]
            self.lock.remove((node, o, w))
        if flit.tail or not self.router.whole_packets:
            self._return_credit(node, port, vc)
        if o == 0 and node < self.topology.tiles:
            self._later(self.now + timing.SINK_CYCLES + self.extra, lambda: self._deliver(flit))
            return
        tier = self.tier[node, o]
        if flit.head or not self.router.whole_packets:
            self.credits[node, o, w] -= 1
        self.link_free[node, o] = self.now + tier.cycles_per_flit
        self.link_flits[node, o] += 1
        there = self.topology.neighbour(node, o)
        assert there is not None
        arrival = self.now + tier.latency_cycles + self.extra
        self._later(arrival, lambda: self.buffers[*there, w].append(flit))

    def _return_credit(self, node: int, port: int, vc: int) -> None:
        if port == 0:
            tile = self.tiles[node]

            def back() -> None:
                tile.send_credits[vc] += 1

            self._later(self.now + 1, back, awaited=False)
            return
        sender = self.came_from[node, port]

        def back() -> None:
            self.credits[*sender, vc] += 1

        self._later(self.now + self.tier[sender].latency_cycles, back, awaited=False)

    def _deliver(self, flit: Flit) -> None:
        if flit.tail and flit.semaphore:
            self.tiles[flit.to].semaphores[flit.semaphore] += 1
