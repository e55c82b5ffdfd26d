"""Emitter: collects the instructions, registers, descriptors, semaphores and buffers of one
class of tiles."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import REGISTERS, SEMAPHORES, Engine, Instr, Op, Reg
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import StepRule

Operand = int | Reg
Descriptor = tuple[int, int, int, int]
Rows = tuple[tuple[Descriptor, ...], ...]


class Emitter:
    """One program text for all tiles; what differs from tile to tile becomes a register or a
    descriptor.

    Semaphores ``TO_NETWORK`` and ``TO_MEMORY`` hand results of the compute engine over, in
    order, ``TO_COMPUTE`` those of the network engine. Raises InputError when the machine runs
    out of something, naming it.
    """

    TO_NETWORK, TO_MEMORY, TO_COMPUTE = 1, 2, 3

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self.tiles = arch.tiles
        self.code: tuple[list[Instr], list[Instr], list[Instr]] = ([], [], [])
        self.labels: tuple[list[str], list[str], list[str]] = ([], [], [])
        self.rules: list[StepRule] = []
        self.columns: list[tuple[int, ...]] = [(0,) * self.tiles]
        self.tables: list[list[Descriptor]] = [[] for _ in range(self.tiles)]
        self._registers: dict[tuple[int, ...] | StepRule, int] = {}
        self._semaphores: dict[str, int] = {}
        self._runs: dict[int, tuple[Rows, int, Operand, Operand]] = {}
        self._waits: tuple[list[tuple[int, Operand]], ...] = ([], [], [])
        self._scratch, self._inbox = 0, arch.scratch_words
        self._label = ""

    # --- names and places ---

    @contextmanager
    def label(self, name: str) -> Iterator[None]:
        """Instructions emitted inside belong to the stage ``name`` of the model."""
        before, self._label = self._label, name
        yield
        self._label = before

    def scratch(self, words: int) -> int:
        """Address of ``words`` of scratch."""
        at, self._scratch = self._scratch, self._scratch + words
        if self._scratch > self.arch.scratch_words:
            raise InputError(
                f"the program needs more than {self.arch.scratch_words} words of scratch a tile; "
                "give an architecture with a larger scratch_words"
            )
        return at

    def inbox(self, words: int) -> int:
        """Address of ``words`` of the inbox, which only puts write."""
        at, self._inbox = self._inbox, self._inbox + words
        if self._inbox > self.arch.vector_words:
            raise InputError(
                f"the collectives need more than {self.arch.inbox_words} words of inbox a tile; "
                "give an architecture with a larger inbox_words, or --reduce direct"
            )
        return at

    def semaphore(self, name: str) -> int:
        """The semaphore called ``name``."""
        if name not in self._semaphores:
            number = self.TO_COMPUTE + 1 + len(self._semaphores)
            if number >= SEMAPHORES:
                raise InputError(
                    f"the program needs more than {SEMAPHORES} semaphores; give --reduce direct"
                )
            self._semaphores[name] = number
        return self._semaphores[name]

    def per_tile(self, values: Sequence[int], offset: int = 0) -> Operand:
        """Operand that is ``offset + values[tile]``: an immediate where all are equal, else a
        register."""
        key = tuple(values)
        if len(set(key)) == 1:
            return offset + key[0]
        if key not in self._registers:
            self._registers[key] = self._new_register(key)
        return offset, self._registers[key]

    def step_rule(
        self, kind: str, *, scale: int = 1, offset: int = 0, span: int = 0, span2: int = 1
    ) -> Operand:
        """Operand that follows from the position or the token of a step."""
        rule = StepRule(register=0, kind=kind, scale=scale, span=span, span2=span2)
        if rule not in self._registers:
            self._registers[rule] = self._new_register((0,) * self.tiles)
            self.rules.append(replace(rule, register=self._registers[rule]))
        return offset, self._registers[rule]

    def _new_register(self, column: tuple[int, ...]) -> int:
        if len(self.columns) >= REGISTERS:
            raise InputError(
                f"the program needs more than {REGISTERS} registers; give --reduce "
                f"direct or --split 2d"
            )
        self.columns.append(column)
        return len(self.columns) - 1

    def descriptors(self, rows: Rows) -> int:
        """Index of the first of a run of put descriptors, ``rows[tile]``, shorter runs filled
        up.

        Asked again for the same rows it gives the same index.
        """
        return self._run(rows)[1]

    def _run(self, rows: Rows) -> tuple[Rows, int, Operand, Operand]:
        """(rows, index, puts of each tile, arrivals at each tile); the rows are kept, and so
        their id."""
        if id(rows) not in self._runs:
            counts = [len(row) for row in rows]
            first, most = len(self.tables[0]), max(counts)
            if first + most > self.arch.descriptors:
                raise InputError(
                    f"the program needs more than {self.arch.descriptors} put descriptors a tile; "
                    "give an architecture with more descriptors"
                )
            arrivals = [0] * self.tiles
            for tile, (table, row) in enumerate(zip(self.tables, rows, strict=True)):
                table.extend([*row, *[(tile, 0, 0, 0)] * (most - len(row))])
                for to, *_ in row:
                    arrivals[to] += 1
            self._runs[id(rows)] = (rows, first, self.per_tile(counts), self.per_tile(arrivals))
        return self._runs[id(rows)]

    # --- code ---

    def wait(self, engine: Engine, semaphore: int, count: Operand = 1) -> None:
        """The next instruction of ``engine`` waits for ``count`` posts."""
        if count != 0:
            self._waits[engine].append((semaphore, count))

    def defer_waits(self) -> None:
        """What the compute engine would wait for next, the network engine waits for instead."""
        self._waits[Engine.NETWORK].extend(self._waits[Engine.COMPUTE])
        self._waits[Engine.COMPUTE].clear()

    @contextmanager
    def ahead_of_waits(self) -> Iterator[None]:
        """Instructions emitted inside go in front of what the compute engine waits for next."""
        waits = list(self._waits[Engine.COMPUTE])
        self._waits[Engine.COMPUTE].clear()
        yield
        self._waits[Engine.COMPUTE].extend(waits)

    def emit(self, engine: Engine, op: Op, **operands: Any) -> None:
        """Append an instruction; a second wait becomes a SYNC in front of it."""
        waits = self._waits[engine]
        while len(waits) > 1:
            semaphore, count = waits.pop(0)
            self._append(engine, Instr(op=Op.SYNC, wait=semaphore, wait_n=count))
        if waits:
            operands["wait"], operands["wait_n"] = waits.pop()
        self._append(engine, Instr(op=op, **operands))

    def _append(self, engine: Engine, instruction: Instr) -> None:
        self.code[engine].append(instruction)
        self.labels[engine].append(self._label)

    def compute(self, op: Op, **operands: Any) -> None:
        """Append an instruction of the compute engine."""
        self.emit(Engine.COMPUTE, op, **operands)

    def stream(self, op: Op, at: Operand, *, n: Operand, m: Operand, **operands: Any) -> None:
        """Stream ``n`` rows of ``m`` elements from store address ``at`` into a compute
        operation."""
        self.emit(Engine.MEMORY, Op.STREAM, src=at, n=n, m=m)
        self.emit(Engine.COMPUTE, op, n=n, m=m, **operands)

    def hand_over(self, engine: Engine, semaphore: int) -> None:
        """The last instruction of ``engine`` posts ``semaphore`` when it is done."""
        last = self.code[engine][-1]
        if last.post:
            self.emit(engine, Op.SYNC, post=semaphore)
        else:
            self.code[engine][-1] = replace(last, post=semaphore)

    def put(self, rows: Rows, *, src: Operand, dst: int, semaphore: int) -> Operand:
        """Put by descriptors; tiles with shorter runs send fewer.

        Returns each tile's arrivals.
        """
        _, first, counts, arrivals = self._run(rows)
        if counts != 0:
            self.emit(Engine.NETWORK, Op.PUT, src=src, dst=dst, aux=first, m=counts, y=semaphore)
        return arrivals
