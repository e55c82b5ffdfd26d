"""The order that is claimed, against executions that share nothing with how it was found."""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
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


class Execution:
    """One execution in the finest steps there are; when each tick, issue and arrival happened."""

    def __init__(self, control: Control, rng: random.Random) -> None:
        self.nodes, self.rng = control.nodes, rng
        self.now = 0
        self.issued: dict[Node, int] = {}
        self.ended: dict[tuple[int, int], int] = {}
        self.arrived: dict[tuple[int, int, int], int] = {}
        self.pc, self.ticks = [0] * len(self.nodes), [0] * len(self.nodes)
        self.have: dict[tuple[int, int], int] = {}
        self.flying: dict[tuple[int, int], deque[int]] = {}
        self.landed: dict[tuple[int, int], int] = {}
        while actions := self.actions():
            self.now += 1
            rng.choice(actions)()

    def actions(self) -> list[Callable[[], None]]:
        found: list[Callable[[], None]] = []
        for agent, queue in enumerate(self.nodes):
            if self.pc[agent] == len(queue):
                continue
            node = queue[self.pc[agent]]
            if node not in self.issued:
                enough = self.have.get((node.tile, node.wait), 0) >= node.operands["wait_n"]
                if not node.wait or enough:
                    found.append(lambda node=node: self.issue(node))  # type: ignore[misc]
            elif not (node.op == Op.LOAD and node.stream and self.pending(node.stream)):
                found.append(lambda node=node: self.tick(node))  # type: ignore[misc]
        for pair, queue in self.flying.items():
            if queue:
                found.append(lambda pair=pair: self.arrive(pair))  # type: ignore[misc]
        return found

    def pending(self, node: Node) -> bool:
        return self.pc[node.agent] <= node.index

    def issue(self, node: Node) -> None:
        self.issued[node] = self.now
        if node.wait:
            left = self.have.get((node.tile, node.wait), 0) - node.operands["wait_n"]
            self.have[node.tile, node.wait] = left

    def tick(self, node: Node) -> None:
        agent, done = node.agent, self.ticks[node.agent] - node.first
        self.ticks[agent] += 1
        self.ended[agent, self.ticks[agent]] = self.now
        if node.puts:
            self.flying.setdefault((node.tile, node.puts[done][0]), deque()).append(node.operands["y"])
        if done + 1 == node.ticks:
            self.pc[agent] += 1
            self.post(node.tile, node.post)

    def arrive(self, pair: tuple[int, int]) -> None:
        count = self.landed.get(pair, 0)
        self.arrived[*pair, count] = self.now
        self.landed[pair] = count + 1
        self.post(pair[1], self.flying[pair].popleft())

    def post(self, tile: int, semaphore: int) -> None:
        if semaphore:
            self.have[tile, semaphore] = self.have.get((tile, semaphore), 0) + 1


def drawn(hand_made: MakeProgram, seed: int, tiles: int, length: int, semaphores: int) -> Control:
    draw = Draw(random.Random(seed), tiles, length, semaphores)
    arch = PRESETS["tiny"].on(f"line:{tiles}")
    codes = draw.codes if tiles > 1 else draw.codes
    return Control(hand_made(arch, codes, descriptors=draw.descriptors), 0, 0)
