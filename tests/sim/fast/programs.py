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
    descriptors = np.ascontiguousarray(
        changes.pop("descriptors", np.zeros((tiles, 1, 4))), np.int32
    )
    registers = np.ascontiguousarray(
        changes.pop("registers", np.zeros((tiles, REGISTERS))), np.int32
    )
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
SCRATCH = (
    1500  # words that only the compute engine uses; constants, which only puts read, behind them
)


class Writer:
    """Writes instructions in one global order; each waits only for posts of earlier ones, so
    nothing can deadlock.

    A STREAM longer than the space in the FIFO closes its memory engine until the operation on it
    is written.
    """

    def __init__(self, arch: Arch, rng: random.Random, *, values: bool = False) -> None:
        self.arch, self.rng, self.values = arch, rng, values
        self.stored: defaultdict[int, int] = defaultdict(int)
        self.scored: dict[int, int] = {}  # rows of the last SCORE
        self.queues: list[tuple[list[Instr], list[Instr], list[Instr]]] = [
            ([], [], []) for _ in range(arch.tiles)
        ]
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
        self.queues[tile][engine].append(
            Instr(op=op, **self.waiting(tile, engine), post=post, **operands)
        )
        self.posted[tile, post] += bool(post)

    def closed(self, tile: int) -> bool:
        return any(blocks for *_, blocks in self.open[tile])

    def stream(self, tile: int) -> None:
        """A STREAM; the operation on it comes later."""
        rng, arch = self.rng, self.arch
        n, m = (
            rng.choice([self.scored.get(tile, 4), 0, 1, 2, 3, 5, rng.randint(1, 40)]),
            rng.randint(1, 3 * arch.lanes),
        )
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

    def place(self, tile: int) -> Any:
        """An address in the part of scratch that only the compute engine uses; room for 1000 words
        behind it.
        """
        return self.operand(tile, self.rng.randint(0, SCRATCH - 1000))

    def consume(self, tile: int) -> None:
        """The operation on the oldest open STREAM."""
        rng, place = self.rng, self.place
        _, n, m, _ = self.open[tile].pop(0)
        ops = [Op.DOT, Op.SCORE, Op.LOAD]
        scored = self.scored.get(tile, 0)
        fits = self.arch.row_beats(m) <= self.arch.accumulator_beats
        if fits and (n == scored or not self.values):
            ops += [Op.AXPY] * 3
        op = rng.choice(ops)
        named: dict[str, Any] = {"dst": place(tile)}
        if op in (Op.SCORE, Op.AXPY):
            named |= {"q": rng.randint(1, self.arch.queries), "bux": 100, "y": 8}
        if op in (Op.DOT, Op.SCORE):
            named |= {"src": self.operand(tile, rng.randint(0, 8)), "y": 4}
        if op == Op.SCORE:
            named |= {"q": self.arch.queries, "dst": self.operand(tile, SCRATCH + 100)}
            self.scored[tile] = n
        if op == Op.AXPY:
            named |= {"src": self.operand(tile, SCRATCH + 100), "aux": place(tile)}
        if op != Op.SCORE:
            named["x"] = rng.randint(0, 16)
        if self.open[tile]:
            self.corners["streams ahead"] += 1
        self.write(tile, Engine.COMPUTE, op, n=self.operand(tile, n), m=m, **named)

    def vector(self, tile: int) -> None:
        rng = self.rng
        ops = [Op.SYNC, Op.SUM, Op.MAX, Op.SILU, Op.QUANT, Op.ARGMAX, Op.ARGPAIR, Op.ROPE]
        op = rng.choice(ops if self.values else [*ops, Op.RMS, Op.MERGE, Op.DIV])
        operands: dict[str, Any] = {}
        if op != Op.SYNC:
            operands = {"dst": self.place(tile), "src": self.place(tile)}
        if op in (Op.SUM, Op.MAX):
            operands |= {"aux": rng.randint(0, 40), "bux": self.place(tile)}
        if op in (Op.SILU, Op.ARGMAX, Op.ROPE):
            operands["aux"] = self.place(tile)
        if op in (Op.SILU, Op.QUANT):
            operands["x"] = rng.randint(4, 16)
        if op == Op.QUANT:
            operands["dst"] = 0
        if op != Op.SYNC:
            n = rng.randint(1 if op in (Op.ARGPAIR, Op.QUANT) else 0, 15) * 2
            operands["n"] = self.operand(tile, n)
        if op not in (Op.SYNC, Op.SILU, Op.ARGMAX, Op.ARGPAIR):
            operands["m"] = rng.randint(1, self.arch.queries)
        if op in (Op.SUM, Op.MAX, Op.RMS, Op.MERGE, Op.DIV):
            operands["q"] = rng.randint(0, 1)
        self.write(tile, Engine.COMPUTE, op, **operands)

    def put(self, tile: int, targets: list[int], words: int) -> None:
        """One PUT with a descriptor for each target."""
        rng, arch, rows = self.rng, self.arch, self.descriptors[tile]
        aux = len(rows)
        full = any(self.stored[to] + words * len(targets) > 1600 for to in targets)
        op = rng.choice([PutOp.ADD, PutOp.MAX] if full else list(PutOp))
        rows += [[to, rng.randint(0, 50), words, self.inbox(to, op, words)] for to in targets]
        semaphore = rng.choice([0, *range(1, 3 * SLOTS + 1)])
        self.corners["put over packets"] += words > arch.max_packet_words
        self.corners["put to itself"] += tile in targets
        self.corners["empty put"] += words == 0
        self.write(
            tile, Engine.NETWORK, Op.PUT, src=self.operand(tile, SCRATCH),
            dst=self.operand(tile, arch.scratch_words), aux=self.operand(tile, aux),
            m=self.operand(tile, len(targets)), x=int(op), y=semaphore,
        )  # fmt: skip
        for to in targets:
            self.posted[to, semaphore] += bool(semaphore)

    def inbox(self, to: int, op: PutOp, words: int) -> int:
        """Where a put may write at a receiver: sums and maxima anywhere in their part, stores
        where nobody else does.
        """
        if op != PutOp.STORE:
            return self.rng.randint(0, 50) + (0 if op == PutOp.ADD else 200)
        self.stored[to] += words
        return 400 + self.stored[to] - words

    def event(self) -> None:
        """One more piece of program on some tile."""
        rng, tiles = self.rng, self.arch.tiles
        tile = rng.randrange(tiles)
        words = rng.choice(
            [0, 1, rng.randint(1, 20), rng.randint(1, 3 * self.arch.max_packet_words)]
        )
        match rng.choice(
            [
                "stream",
                "stream",
                "consume",
                "consume",
                "vector",
                "put",
                "put",
                "all to one",
                "ring",
                "memory",
            ]
        ):
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
                    self.write(
                        tile,
                        Engine.MEMORY,
                        Op.APPEND,
                        dst=1000,
                        n=self.operand(tile, rng.randint(0, 8)),
                    )
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
        return program(
            self.arch, self.queues, descriptors=table, registers=self.registers, **changes
        )


def images(arch: Arch, rng: random.Random) -> dict[str, Any]:
    """Random memories to start with."""
    draw = np.random.default_rng(rng.randrange(1 << 32))
    tiles, beats = arch.tiles, arch.store_beats
    words = draw.integers(-(1 << 20), 1 << 20, (tiles, arch.scratch_words), dtype=np.int32)
    elements = draw.integers(-128, 128, (tiles, beats, arch.lanes), dtype=np.int8)
    exponents = draw.integers(-16, 1, (tiles, beats, arch.blocks_per_beat), dtype=np.int16)
    return {
        "vector_tile": memoryview(words),
        "elements": memoryview(elements),
        "scales": memoryview(exponents << 3),
    }


def random_program(
    arch: Arch, rng: random.Random, events: int, *, values: bool = False
) -> tuple[Program, dict[str, int]]:
    """A program of so many pieces, and the corners that it has. With ``values`` its memories are
    random, too.
    """
    writer = Writer(arch, rng, values=values)
    for _ in range(events):
        writer.event()
    return writer.program(**images(arch, rng) if values else {}), writer.corners


def instruction_times(machine: Any) -> dict[tuple[int, int, int], tuple[int, int]]:
    """(issue, end) of each (tile, engine, instruction) of a FastMachine's last step, from its
    records.
    """
    from tokenpath.sim.fast import columns

    records = machine.engines.records.reshape(-1, columns.R_WIDTH)
    times = {}
    for tile in range(machine.program.tiles):
        at = int(machine.engines.record0[tile])
        for engine in Engine:
            for index in range(len(machine.program.instructions(tile, engine))):
                times[tile, int(engine), index] = tuple(
                    records[at, [columns.R_ISSUED, columns.R_END]].tolist()
                )
                at += 1
    return times
