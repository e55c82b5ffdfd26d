"""The order that is claimed, against executions that share nothing with how it was found."""

import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tokenpath.hw.arch.control import Control, Node
from tokenpath.hw.arch.happens import Order
from tokenpath.hw.arch.isa import Engine, Instr, Op
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import Program

MakeProgram = Callable[..., Program]


def owner(semaphore: int) -> Engine:
    """The engine that may wait for a semaphore, so that only one does."""
    return Engine(semaphore % 3)


class Draw:
    """Draws a program that runs to its end, by running it while it is being written."""

    def __init__(self, rng: random.Random, tiles: int, length: int, semaphores: int) -> None:
        self.rng, self.tiles, self.semaphores = rng, tiles, semaphores
        self.codes: list[Any] = [([], [], []) for _ in range(tiles)]
        self.descriptors: list[list[tuple[int, int, int, int]]] = [[] for _ in range(tiles)]
        self.have: dict[tuple[int, int], int] = {}
        for _ in range(length):
            self.add(rng.randrange(tiles), rng.choice([*Engine, None]))

    def add(self, tile: int, engine: Engine | None) -> None:
        if engine is None:  # a STREAM and who takes it
            rows = self.rng.randint(0, 2)
            self.emit(tile, Engine.MEMORY, Instr(op=Op.STREAM, n=rows, m=8))
            self.emit(tile, Engine.COMPUTE, Instr(op=Op.LOAD, n=rows, m=8))
        elif engine == Engine.NETWORK and self.rng.random() < 0.7:
            self.put(tile)
        else:
            self.emit(tile, engine, Instr(op=Op.SYNC))

    def put(self, tile: int) -> None:
        count, table = self.rng.randint(0, 3), self.descriptors[tile]
        first, y = len(table), self.rng.randint(0, self.semaphores)
        table.extend((self.rng.randrange(self.tiles), 0, 0, 0) for _ in range(count))
        self.emit(tile, Engine.NETWORK, Instr(op=Op.PUT, aux=first, m=count, y=y))
        for to, *_ in table[first:] if y else ():
            self.have[to, y] = self.have.get((to, y), 0) + 1

    def emit(self, tile: int, engine: Engine, instruction: Instr) -> None:
        mine = [s for s in range(1, self.semaphores + 1) if owner(s) == engine]
        ready = [s for s in mine if self.have.get((tile, s), 0)]
        if ready and self.rng.random() < 0.7:
            wait = self.rng.choice(ready)
            count = self.rng.randint(0, self.have[tile, wait])
            self.have[tile, wait] -= count
            instruction = replace(instruction, wait=wait, wait_n=count)
        post = self.rng.choice([0, self.rng.randint(1, self.semaphores)])
        if post:
            self.have[tile, post] = self.have.get((tile, post), 0) + 1
        self.codes[tile][engine].append(replace(instruction, post=post))


class Reach:
    """How far a step comes if one tick of an engine, or one arrival, never happens.

    Whatever can happen, happens: what has been issued in the end needs nothing of what is missing.
    """

    def __init__(
        self, control: Control, tick: tuple[int, int] = (-1, 0), arrival: tuple[int, ...] = ()
    ) -> None:
        self.nodes, self.missing, self.lost = control.nodes, tick, arrival
        self.issued: set[Node] = set()
        self.pc, self.ticks = [0] * len(self.nodes), [0] * len(self.nodes)
        self.have: Counter[tuple[int, int]] = Counter()
        self.flying: dict[tuple[int, int], deque[int]] = {}
        self.landed: Counter[tuple[int, int]] = Counter()
        while any(self.advance(agent) for agent in range(len(self.nodes))) or self.arrive():
            pass

    def advance(self, agent: int) -> bool:
        if self.pc[agent] == len(self.nodes[agent]):
            return False
        node = self.nodes[agent][self.pc[agent]]
        if node not in self.issued:
            return self.issue(node)
        waits = node.op == Op.LOAD and node.stream and self.pc[3 * node.tile] <= node.stream.index
        if waits or (agent, self.ticks[agent] + 1) == self.missing:
            return False
        if node.puts:
            to = node.puts[self.ticks[agent] - node.first][0]
            self.flying.setdefault((node.tile, to), deque()).append(node.operands["y"])
        self.ticks[agent] += 1
        if self.ticks[agent] == node.first + node.ticks:
            self.pc[agent] += 1
            self.have[node.tile, node.post] += 1
        return True

    def issue(self, node: Node) -> bool:
        count = node.operands["wait_n"] if node.wait else 0
        if self.have[node.tile, node.wait] < count:
            return False
        self.have[node.tile, node.wait] -= count
        self.issued.add(node)
        return True

    def arrive(self) -> bool:
        for pair, queue in self.flying.items():
            if queue and (*pair, self.landed[pair]) != self.lost:
                self.landed[pair] += 1
                self.have[pair[1], queue.popleft()] += 1
                return True
        return False


@settings(max_examples=60)
@example(141, 1, 17, 3)  # needs three rounds
@example(1203, 1, 23, 3)  # needs four
@example(66, 1, 8, 6)  # a tick is known before the arrival that it sent
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(2, 30), st.sampled_from([3, 6]))
def test_order_is_exactly_what_every_execution_keeps(
    hand_made: MakeProgram, seed: int, tiles: int, length: int, semaphores: int
) -> None:
    draw = Draw(random.Random(seed), tiles, length, semaphores)
    arch = PRESETS["tiny"].on(f"line:{tiles}")
    control = Control(hand_made(arch, draw.codes, descriptors=draw.descriptors), 0, 0)
    nodes = [node for queue in control.nodes for node in queue]
    assert Reach(control).issued == set(nodes)
    order = Order(control)
    for before in nodes:
        for tick in range(before.first + 1, before.first + before.ticks + 1):
            reached = Reach(control, tick=(before.agent, tick)).issued
            claimed = {node for node in nodes if order.ended(before.agent, tick, node)}
            assert claimed == set(nodes) - reached
        for put, arrival in zip(before.puts, before.arrivals, strict=True):
            reached = Reach(control, arrival=(before.tile, put[0], arrival.marks[1][1] - 1)).issued
            assert {n for n in nodes if order.arrived(arrival, n)} == set(nodes) - reached


def test_drawn_programs_have_choices(hand_made: MakeProgram) -> None:
    """Several posters of a semaphore, more posts than are waited for, waits for several."""
    seen: Counter[str] = Counter()
    for seed in range(40):
        draw = Draw(random.Random(seed), 1 + seed % 3, 30, 6)
        arch = PRESETS["tiny"].on(f"line:{1 + seed % 3}")
        control = Control(hand_made(arch, draw.codes, descriptors=draw.descriptors), 0, 0)
        Order(control)
        for wait in control.waits:
            seen["posters"] += len([count for count in wait.before.values() if count]) > 1
            seen["choice"] += sum(wait.before.values()) > wait.total > 0
            seen["several"] += wait.node.operands["wait_n"] > 1
        seen["streams"] += any(node.stream for queue in control.nodes for node in queue)
    assert all(seen[what] >= 10 for what in ("posters", "choice", "several", "streams")), seen
