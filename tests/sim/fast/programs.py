"""Programs for tests: by hand, and random ones shaped like real ones, which can't deadlock."""

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenpath.hw.arch.isa import REGISTERS, Engine, Instr, Op, PutOp
from tokenpath.hw.arch.params import PRESETS, Arch
from tokenpath.hw.arch.program import Code, Program

Queues = tuple[Sequence[Instr], Sequence[Instr], Sequence[Instr]]


def program(arch: Arch, queues: Sequence[Queues], **changes: Any) -> Program:
    """A program with one class of code a tile (or one for all), without weights unless given."""
    tiles = arch.tiles
    code = tuple(
        Code(
            engines=tuple(tuple(i.columns() for i in queue) for queue in each),  # type: ignore[arg-type]
            labels=tuple(tuple(f"{i.op.name.lower()}" for i in queue) for queue in each),  # type: ignore[arg-type]
        )
        for each in queues
    )
    descriptors = np.ascontiguousarray(changes.pop("descriptors", np.zeros((tiles, 1, 4))), np.int32)
    registers = np.ascontiguousarray(changes.pop("registers", np.zeros((tiles, REGISTERS))), np.int32)
    fields: dict[str, Any] = {
        "arch": arch,
        "code": code,
        "tile_code": tuple(range(tiles)) if len(queues) == tiles else (0,) * tiles,
        "registers": memoryview(registers),
        "descriptors": memoryview(descriptors),
        "vector_shared": memoryview(np.zeros(0, np.int32)),
        "vector_tile": memoryview(np.zeros((tiles, 1), np.int32)),
        "elements": None,
        "scales": None,
        "store_beats_used": arch.store_beats,
        "rules": (),
        "shards_of": (-1,) * tiles,
        "shards": 1,
        "page": 1,
        "context": 1,
        "vocab": 1,
        "logits_at": 0,
        "logit_words": (0,) * tiles,
        "logit_first": (0,) * tiles,
        "result_tile": 0,
        "result_at": 0,
    }
    return Program(**(fields | changes))


TINY = PRESETS["tiny"]
SLOTS = 3  # semaphores an engine


class Writer:
    """Writes instructions in one global order; each waits only for posts of earlier ones, so nothing can deadlock.

    A STREAM longer than the space in the FIFO closes its memory engine until the operation on it is written.
    """

    def __init__(self, arch: Arch, rng: random.Random) -> None:
        self.arch, self.rng = arch, rng
        self.queues: list[tuple[list[Instr], list[Instr], list[Instr]]] = [([], [], []) for _ in range(arch.tiles)]
        self.posted: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.open: list[list[tuple[int, int, int, bool]]] = [[] for _ in range(arch.tiles)]
        self.descriptors: list[list[list[int]]] = [[] for _ in range(arch.tiles)]
        self.registers = np.zeros((arch.tiles, REGISTERS), np.int32)
        self.registers[:, 1:9] = [[rng.randint(0, 5) for _ in range(8)] for _ in range(arch.tiles)]
        self.corners: defaultdict[str, int] = defaultdict(int)

    def operand(self, tile: int, value: int) -> Any:
        """A value as an immediate or as a register and an immediate."""
        if self.rng.random() < 0.7:
            return value
        register = self.rng.randint(1, 8)
        return value - int(self.registers[tile, register]), register

    def waiting(self, tile: int, engine: int) -> dict[str, Any]:
        """Sometimes a wait for posts that are sure to come."""
        semaphore = 1 + engine * SLOTS + self.rng.randrange(SLOTS)
        there = self.posted[tile, semaphore]
        if not there or self.rng.random() < 0.3:
            return {}
        n = there if self.rng.random() < 0.5 else self.rng.randint(1, there)
        self.posted[tile, semaphore] -= n
        return {"wait": semaphore, "wait_n": self.operand(tile, n)}

    def post(self) -> int:
        """Sometimes a semaphore of the same tile, any engine."""
        return 1 + self.rng.randrange(3 * SLOTS) if self.rng.random() < 0.6 else 0

    def write(self, tile: int, engine: Engine, op: Op, **operands: Any) -> None:
        """An instruction whose post counts at once."""
        post = self.post()
        self.queues[tile][engine].append(Instr(op=op, **self.waiting(tile, engine), post=post, **operands))
        self.posted[tile, post] += bool(post)

    def closed(self, tile: int) -> bool:
        return any(blocks for *_, blocks in self.open[tile])

    def stream(self, tile: int) -> None:
        """A STREAM; the operation on it comes later."""
        rng, arch = self.rng, self.arch
        n, m = rng.choice([0, 1, 2, 3, 5, rng.randint(1, 40)]), rng.randint(1, 3 * arch.lanes)
        beats = n * arch.row_beats(m)
        blocks = sum(b for b, *_ in self.open[tile]) + beats > arch.stream_depth
        self.corners["long stream" if blocks else "short stream"] += 1
        post = 0 if blocks else self.post()
        self.queues[tile][0].append(
            Instr(
                op=Op.STREAM, **self.waiting(tile, 0), post=post, src=rng.randint(0, 500),
                n=self.operand(tile, n), m=self.operand(tile, m),
            )
        )  # fmt: skip
        self.posted[tile, post] += bool(post)
        self.open[tile].append((beats, n, m, blocks))

    def consume(self, tile: int) -> None:
        """The operation on the oldest open STREAM."""
        _, n, m, _ = self.open[tile].pop(0)
        op = self.rng.choice([Op.DOT, Op.SCORE, Op.AXPY, Op.LOAD])
        named = {"q": self.rng.randint(1, self.arch.queries)} if op in (Op.SCORE, Op.AXPY) else {}
        if self.open[tile]:
            self.corners["streams ahead"] += 1
        self.write(tile, Engine.COMPUTE, op, n=self.operand(tile, n), m=m, **named)

    def vector(self, tile: int) -> None:
        rng = self.rng
        op = rng.choice([Op.SYNC, Op.SUM, Op.RMS, Op.SILU, Op.QUANT, Op.ARGMAX, Op.ARGPAIR, Op.MERGE, Op.ROPE, Op.DIV])
        operands: dict[str, Any] = {}
        if op != Op.SYNC:
            operands["n"] = self.operand(tile, rng.randint(0, 30))
        if op not in (Op.SYNC, Op.SILU, Op.ARGMAX, Op.ARGPAIR):
            operands["m"] = rng.randint(1, 3)
        if op in (Op.SUM, Op.RMS, Op.MERGE, Op.DIV):
            operands["q"] = rng.randint(0, 1)
        self.write(tile, Engine.COMPUTE, op, **operands)

    def put(self, tile: int, targets: list[int], words: int) -> None:
        """One PUT with a descriptor for each target."""
        rng, arch, rows = self.rng, self.arch, self.descriptors[tile]
        aux = len(rows)
        rows += [[to, rng.randint(0, 50), words, rng.randint(0, 50)] for to in targets]
        semaphore = rng.choice([0, *range(1, 3 * SLOTS + 1)])
        self.corners["put over packets"] += words > arch.max_packet_words
        self.corners["put to itself"] += tile in targets
        self.corners["empty put"] += words == 0
        self.write(
            tile, Engine.NETWORK, Op.PUT, src=0, dst=arch.scratch_words, aux=self.operand(tile, aux),
            m=len(targets), x=rng.choice([int(p) for p in PutOp]), y=semaphore,
        )  # fmt: skip
        for to in targets:
            self.posted[to, semaphore] += bool(semaphore)

    def event(self) -> None:
        """One more piece of program on some tile."""
        rng, tiles = self.rng, self.arch.tiles
        tile = rng.randrange(tiles)
        words = rng.choice([0, 1, rng.randint(1, 20), rng.randint(1, 3 * self.arch.max_packet_words)])
        match rng.choice(["stream", "stream", "consume", "consume", "vector", "put", "put", "all to one", "ring", "memory"]):
            case "stream" if not self.closed(tile):
                self.stream(tile)
            case "consume" if self.open[tile]:
                self.consume(tile)
            case "put":
                self.put(tile, [rng.randrange(tiles) for _ in range(rng.randint(0, 4))], words)
            case "all to one":
                for source in range(tiles):
                    self.put(source, [tile], words)
                self.corners["all to one"] += 1
            case "ring":
                for source in range(tiles):
                    self.put(source, [(source + 1) % tiles], words)
            case "memory" if not self.closed(tile):
                if rng.random() < 0.5:
                    self.write(tile, Engine.MEMORY, Op.SYNC)
                else:
                    self.write(tile, Engine.MEMORY, Op.APPEND, dst=1000, n=self.operand(tile, rng.randint(0, 9)))
            case _:
                self.vector(tile)

    def program(self, **changes: Any) -> Program:
        for tile in range(self.arch.tiles):
            while self.open[tile]:
                self.consume(tile)
        most = max(1, *map(len, self.descriptors))
        table = np.zeros((self.arch.tiles, most, 4), np.int32)
        for tile, rows in enumerate(self.descriptors):
            table[tile, : len(rows)] = np.array(rows, np.int32).reshape(-1, 4)
        return program(self.arch, self.queues, descriptors=table, registers=self.registers, **changes)


def random_program(arch: Arch, rng: random.Random, events: int) -> tuple[Program, dict[str, int]]:
    """A program of so many pieces, and the corners that it has."""
    writer = Writer(arch, rng)
    for _ in range(events):
        writer.event()
    return writer.program(), writer.corners
