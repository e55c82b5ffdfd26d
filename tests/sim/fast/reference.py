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
from tokenpath.hw.arch.isa import COLUMN, OPERAND_FIELDS, STREAM_OPS, Engine, Op
from tokenpath.hw.arch.program import Program

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
        self.vcs, self.extra = self.arch.vcs, self.arch.router.stages - 1
        self.now = 0
        self.calendar: defaultdict[int, list[Callable[[], None]]] = defaultdict(list)
        self.pending = 0  # entries of the calendar that a step has to wait for
        self.lock: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.in_next: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.out_next: defaultdict[tuple[int, int], int] = defaultdict(int)
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
            (*src, vc): self.arch.router.buffer_flits(self.tier[src])
            for src in self.came_from.values() for vc in range(self.vcs)
        }  # fmt: skip
        for tile in self.tiles:
            tile.pc, tile.working = [0, 0, 0], [False] * 3
            tile.fifo.clear()
            tile.room = self.arch.stream_depth
            tile.send_credits = [self.arch.router.depth] * self.arch.router.vcs
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
            if not found:
                return False
            tile.send_vc = found[0]
        return tile.send_credits[tile.send_vc] > 0

    def _send(self, tile: Tile) -> None:
        flit, vc = tile.to_send[0].popleft(), tile.send_vc
        if flit.head:
            tile.send_vc_next = vc + 1
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
        buffer = self.buffers[node, port, vc]
        if not buffer:
            return None
        if buffer[0].head:
            o, w = self.topology.next_hop(node, buffer[0].to)
            wanted = [(o, w) for w in self._allowed(node, o, w) if (node, o, w) not in self.lock]
        else:
            wanted = [
                (o, w)
                for (n, o, w), owner in self.lock.items()
                if n == node and owner == (port, vc)
            ]
        if not wanted or self.now < self.link_free[node, wanted[0][0]]:
            return None
        local = wanted[0][0] == 0 and node < self.topology.tiles
        return next((x for x in wanted if local or self.credits[node, *x] > 0), None)

    def _allowed(self, node: int, output: int, dateline: int) -> list[int]:
        """VCs that a packet may take on an output; ``dateline``: the topology's class."""
        router = self.arch.router
        if router.kind == "wormhole":
            return [dateline]
        ring = output > 0 and self.topology.dims[self.topology.port_dim(node, output)].is_ring
        half = router.vcs // 2
        return list(range(half * dateline, half * (dateline + 1)) if ring else range(router.vcs))

    def _grants(self) -> Iterator[tuple[int, int, int, int, int]]:
        """(node, input port, VC, output port, output VC) of all flits that move in this cycle."""
        for node in range(self.topology.nodes):
            ports = self.topology.ports(node)
            picks: dict[int, tuple[int, int, int]] = {}  # by input port: vc, o, w
            for port in range(ports):
                for k in range(self.vcs):
                    vc = (self.in_next[node, port] + k) % self.vcs
                    wanted = self._request(node, port, vc)
                    if wanted is not None:
                        picks[port] = (vc, *wanted)
                        break
            for output in range(ports):
                for k in range(ports):
                    port = (self.out_next[node, output] + k) % ports
                    if port in picks and picks[port][1] == output:
                        yield node, port, picks[port][0], output, picks[port][2]
                        break

    def _move(self, node: int, port: int, vc: int, o: int, w: int) -> None:
        flit = self.buffers[node, port, vc].popleft()
        self.in_next[node, port] = (vc + 1) % self.vcs
        self.out_next[node, o] = (port + 1) % self.topology.ports(node)
        if flit.head:
            self.lock[node, o, w] = (port, vc)
        if flit.tail:
            del self.lock[node, o, w]
        self._return_credit(node, port, vc)
        if o == 0 and node < self.topology.tiles:
            self._later(self.now + timing.SINK_CYCLES + self.extra, lambda: self._deliver(flit))
            return
        tier = self.tier[node, o]
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
