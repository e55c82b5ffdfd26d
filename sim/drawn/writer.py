"""Writer: draws a program piece by piece."""

import random
from collections import Counter, defaultdict
from typing import Any

import numpy as np

from tokenpath.hw.arch.isa import REGISTERS, Engine, Instr, Op, PutOp
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Program

from .build import program
from .images import images
from .layout import ARRIVED, MOVED, QUANTED, READY, SLOTS, Layout
from .moving import Moving
from .operations import Draw
from .places import Places
from .puts import Puts
from .streams import Streams

EVENTS = (
    *("stream",) * 3, *("consume",) * 4, *("vector",) * 4, *("put",) * 3, "all to one", "burst",
    "ring", "append", "append", "take", "take", "release", "moving", "sync",
)  # fmt: skip


class Writer:
    """Writes instructions in one global order; each waits only for posts of earlier ones, so
    nothing can deadlock.

    A STREAM longer than the space in the FIFO closes its memory engine until the operation on it
    is written. Words that cross between engines or tiles are waited for.
    """

    def __init__(self, arch: Arch, rng: random.Random) -> None:
        self.arch, self.rng, self.layout = arch, rng, Layout.of(arch)
        self.queues: list[tuple[list[Instr], list[Instr], list[Instr]]] = [
            ([], [], []) for _ in range(arch.tiles)
        ]
        self.posted: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.descriptors: list[list[list[int]]] = [[] for _ in range(arch.tiles)]
        self.registers = np.zeros((arch.tiles, REGISTERS), np.int32)
        self.registers[:, 1:9] = [[rng.randint(0, 5) for _ in range(8)] for _ in range(arch.tiles)]
        self.corners: Counter[str] = Counter()
        self.places = [Places(self.layout, rng) for _ in range(arch.tiles)]
        self.moving = Moving(arch, rng)
        self.streams, self.puts = Streams(self), Puts(self)

    # --- operands and semaphores ---

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
        self.corners["wait for several"] += n > 1
        return {"wait": semaphore, "wait_n": self.operand(tile, n)}

    def post(self) -> int:
        """Sometimes a semaphore of the same tile, any engine."""
        return 1 + self.rng.randrange(3 * SLOTS) if self.rng.random() < 0.6 else 0

    def write(self, tile: int, engine: Engine, op: Op, **operands: Any) -> None:
        """An instruction whose post counts at once; it may wait and post unless told to."""
        if "wait" not in operands:
            operands |= self.waiting(tile, engine)
        post = operands.pop("post", None)
        post = self.post() if post is None else post
        self.queues[tile][engine].append(Instr(op=op, post=post, **operands))
        self.posted[tile, post] += bool(post)
        self.corners[op.name] += 1
        if operands.get("wait") and post:
            self.corners[f"{engine.name.lower()} waits and posts"] += 1

    def draw(self, tile: int, *, later: bool = False) -> Draw:
        """What draws operands for a tile, of an instruction that is written at once or later."""
        places = self.places[tile]
        target = places.private if later else places.target
        return Draw(self.arch, self.rng, places.known, target, places.work)

    # --- events ---

    def event(self) -> None:
        """One more piece of program on some tile."""
        tile = self.rng.randrange(self.arch.tiles)
        name = self.rng.choice(EVENTS)
        self.corners[name] += getattr(self, f"_{name.replace(' ', '_')}")(tile) is not False

    def _stream(self, tile: int) -> None:
        self.streams.open_one(tile)

    def _consume(self, tile: int) -> None:
        if not self.streams.consume(tile):
            self._vector(tile)

    def _vector(self, tile: int) -> None:
        op, i = self.draw(tile).vector()
        self.write(tile, Engine.COMPUTE, op, **self.loose(tile, i))

    def loose(self, tile: int, operands: dict[str, int]) -> dict[str, Any]:
        """Operands that may have registers get some."""
        plain = ("q", "x", "y")
        return {k: v if k in plain else self.operand(tile, v) for k, v in operands.items()}

    def _append(self, tile: int) -> bool:
        return self.streams.append(tile)

    def _sync(self, tile: int) -> None:
        engine = self.rng.choice(list(Engine))
        if engine != Engine.MEMORY or not self.streams.is_closed(tile):
            self.write(tile, engine, Op.SYNC)

    def _take(self, tile: int) -> bool:
        places = self.places[tile]
        if not places.arrivals:
            return False
        wait = {"wait": ARRIVED[places.takes], "wait_n": self.operand(tile, places.take())}
        self.write(tile, Engine.COMPUTE, Op.SYNC, **wait)
        return True

    def _release(self, tile: int) -> None:
        self.write(tile, Engine.COMPUTE, Op.SYNC, post=READY)
        self.places[tile].release()

    def _put(self, tile: int) -> None:
        tiles = self.arch.tiles
        targets = [self.rng.randrange(tiles) for _ in range(self.rng.randint(0, 4))]
        self.put(tile, targets, self._size())

    def _all_to_one(self, tile: int) -> None:
        words = self._size()
        for source in range(self.arch.tiles):
            self.put(source, [tile] * self.rng.choice((1, 1, 3)), words)

    def _burst(self, tile: int) -> None:
        """Back to back to one tile and to the same words."""
        source = self.rng.randrange(self.arch.tiles)
        self.put(source, [tile] * self.rng.randint(2, 5), self.rng.randint(1, 9))

    def _ring(self, tile: int) -> None:
        words, step = self._size(), self.rng.choice((1, 1, -1))
        for source in range(self.arch.tiles):
            self.put(source, [(source + step) % self.arch.tiles], words)

    def _moving(self, tile: int) -> bool:
        """A PUT of as many descriptors as a register of the step says, and the wait for them."""
        register, most = self.moving.count()
        source, words = self.rng.randrange(self.arch.tiles), self.rng.randint(1, 12)
        rows = self.descriptors[source]
        at = self.places[tile].inbox(words * most)
        if at < 0:
            return False
        first, base = len(rows), self.arch.scratch_words
        rows += [[tile, k, words, at - base + k * words] for k in range(most)]
        self.write(
            source, Engine.NETWORK, Op.PUT, src=0, dst=base, aux=first, m=(0, register),
            x=int(PutOp.STORE), y=MOVED,
        )  # fmt: skip
        self.write(tile, Engine.COMPUTE, Op.SYNC, wait=MOVED, wait_n=(0, register))
        return True

    # --- puts ---

    def _size(self) -> int:
        packet = self.arch.max_packet_words
        sizes = (0, 1, packet, packet + 1, self.rng.randint(1, 20), self.rng.randint(1, 40))
        return self.rng.choice(sizes)

    def put(self, tile: int, targets: list[int], words: int) -> None:
        """One PUT with a descriptor for each target."""
        self.puts.write(tile, targets, words)

    def ready(self, tile: int) -> dict[str, Any]:
        """The wait for what the compute engine has released."""
        places = self.places[tile]
        if not places.pending:
            return {}
        count, places.pending = places.pending, 0
        self.posted[tile, READY] -= count
        return {"wait": READY, "wait_n": self.operand(tile, count)}

    # --- the end ---

    def close(self) -> None:
        """Consume what is streamed, take what is posted: the step can be repeated."""
        for tile in range(self.arch.tiles):
            self.streams.close(tile)
        for tile, places in enumerate(self.places):
            if places.arrivals:
                self._take(tile)
            if places.pending:
                self.write(tile, Engine.NETWORK, Op.SYNC, **self.ready(tile), post=0)
        for tile, semaphore in sorted(self.posted):
            left = self.posted[tile, semaphore]
            if semaphore and left:
                engine = self.owner(semaphore)
                self.posted[tile, semaphore] = 0
                wait = {"wait": semaphore, "wait_n": left, "post": 0}
                self.write(tile, engine, Op.SYNC, **wait)

    def owner(self, semaphore: int) -> Engine:
        """The engine that waits for a semaphore."""
        if semaphore <= 3 * SLOTS:
            return Engine((semaphore - 1) // SLOTS)
        return {QUANTED: Engine.MEMORY, READY: Engine.NETWORK}.get(semaphore, Engine.COMPUTE)

    def program(self, **changes: Any) -> Program:
        """The program, closed; ``changes`` are fields of Program."""
        self.close()
        most = max(1, *map(len, self.descriptors), 1)
        table = np.zeros((self.arch.tiles, most, 4), np.int32)
        for tile, rows in enumerate(self.descriptors):
            table[tile, : len(rows)] = np.array(rows, np.int32).reshape(-1, 4)
        fields = self.moving.fields() | {"descriptors": table, "registers": self.registers}
        return program(self.arch, self.queues, **(fields | changes))


def random_program(
    arch: Arch, rng: random.Random, events: int, *, values: bool = True
) -> tuple[Program, Counter[str]]:
    """A program of so many pieces, and the corners that it has; without values, for timing.

    With fewer pieces it is the front of the same program on the same memories.
    """
    memories = random.Random(rng.random())
    writer = Writer(arch, rng)
    for _ in range(events):
        writer.event()
    drawn = writer.program(**images(arch, memories) if values else {})
    return drawn, writer.corners
