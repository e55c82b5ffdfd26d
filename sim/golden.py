"""Golden executor: what the instructions mean.

Untimed, obvious, slow; every other executor is judged by it.

A machine is its tiles' memories, and an engine runs one instruction at a time. With a seed the
engines run in a random legal order: a correctly synchronised program gives the same values in
every order.
"""

import random
from collections import deque

import numpy as np

from tokenpath.hw.arch import numeric
from tokenpath.hw.arch.isa import COLUMN, OPERAND_FIELDS, SEMAPHORES, STREAM_OPS, Engine, Op, PutOp
from tokenpath.hw.arch.program import Program

from .run import Run, Step, drive
from .vector import VectorUnit


class Tile:
    """Memories, registers, semaphores and queues of one tile."""

    def __init__(self, program: Program, index: int) -> None:
        arch = program.arch
        self.index = index
        self.vector = np.zeros(arch.vector_words, np.int64)
        shared, own = np.asarray(program.vector_shared), np.asarray(program.vector_tile)[index]
        self.vector[: len(shared)] = shared
        self.vector[len(shared) : len(shared) + len(own)] = own
        beats, blocks = program.store_beats_used, arch.blocks_per_beat
        self.elements = np.zeros((beats, arch.lanes), np.int64)
        self.scales = np.full((beats, blocks), numeric.ZERO_EXPONENT, np.int64)
        if program.elements is not None and program.scales is not None:
            self.elements[:] = np.asarray(program.elements)[index]
            self.scales[:] = np.asarray(program.scales)[index]
        self.operand = np.zeros((arch.queries * arch.operand_beats, arch.lanes), np.int64)
        self.operand_scales = np.zeros((arch.queries * arch.operand_beats, blocks), np.int64)
        self.append = np.zeros((arch.append_beats, arch.lanes), np.int64)
        self.append_scales = np.zeros((arch.append_beats, blocks), np.int64)
        self.scores = np.zeros((arch.queries, arch.score_rows), np.int64)
        self.registers = np.asarray(program.registers)[index].astype(np.int64)
        self.descriptors = np.asarray(program.descriptors)[index]
        self.semaphores = [0] * SEMAPHORES
        self.stream: deque[tuple[np.ndarray, np.ndarray]] = deque()
        self.pc = [0, 0, 0]


class Machine:
    """All tiles of a program between steps.

    ``seed`` draws the order of the engines; None runs them in turn.
    """

    def __init__(self, program: Program, seed: int | None = None) -> None:
        self.program = program
        self.arch = program.arch
        self.random = random.Random(seed) if seed is not None else None
        self.tiles = [Tile(program, i) for i in range(program.tiles)]
        self.units = [VectorUnit(self.arch, tile) for tile in self.tiles]
        self.overflows = 0

    def step(self, token: int, position: int) -> Step:
        """Run one decode step to its end.

        Raises RuntimeError when the program deadlocks.
        """
        for index, register, value in self.program.step_registers(position, token):
            self.tiles[index].registers[register] = value
        for tile in self.tiles:
            tile.pc = [0, 0, 0]
        before = self._counts()
        self._run()
        after = self._counts()
        logits = self._logits()
        result = self.tiles[self.program.result_tile].vector[self.program.result_at + 1]
        return Step(
            position=position,
            token=token,
            logits=logits,
            best=int(result),
            saturations=after[0] - before[0],
            overflows=after[1] - before[1],
        )

    def _counts(self) -> tuple[int, int]:
        return (
            sum(unit.saturations for unit in self.units),
            self.overflows + sum(unit.overflows for unit in self.units),
        )

    def _logits(self) -> np.ndarray:
        program = self.program
        logits = np.zeros(program.vocab, np.int32)
        for tile, first, words in zip(
            self.tiles, program.logit_first, program.logit_words, strict=True
        ):
            logits[first : first + words] = tile.vector[
                program.logits_at : program.logits_at + words
            ]
        return logits

    def _run(self) -> None:
        """Execute until every queue is empty; an engine that must wait is tried again later."""
        waiting = [
            (t, e) for t in self.tiles for e in Engine if self.program.instructions(t.index, e)
        ]
        while waiting:
            if self.random:
                self.random.shuffle(waiting)
            ran = [self._advance(tile, engine) for tile, engine in waiting]
            if not any(ran):
                tile, engine = min(waiting, key=lambda pair: pair[0].index)
                raise RuntimeError(
                    f"deadlock: tile {tile.index} {engine.name.lower()} waits at "
                    f"instruction {tile.pc[engine]}"
                )
            waiting = [
                (t, e) for t, e in waiting if t.pc[e] < len(self.program.instructions(t.index, e))
            ]

    def _advance(self, tile: Tile, engine: Engine) -> int:
        """Run instructions of one engine while they can go, with a seed at most a few; how many
        ran."""
        code = self.program.instructions(tile.index, engine)
        budget = self.random.randint(1, 4) if self.random else len(code)
        ran = 0
        while (
            tile.pc[engine] < len(code)
            and ran < budget
            and self._execute(tile, code[tile.pc[engine]])
        ):
            tile.pc[engine] += 1
            ran += 1
        return ran

    def _execute(self, tile: Tile, row: tuple[int, ...]) -> bool:
        """Execute one instruction if its semaphore and its stream allow; False if it must
        wait."""
        i = {name: row[COLUMN[name]] for name in ("op", "wait", "post", "q", "x", "y")}
        for name in OPERAND_FIELDS:
            i[name] = row[COLUMN[name]] + int(tile.registers[row[COLUMN[f"{name}_reg"]]])
        op = Op(i["op"])
        if i["wait"] and tile.semaphores[i["wait"]] < i["wait_n"]:
            return False
        if op in STREAM_OPS and len(tile.stream) < i["n"] * self.arch.row_beats(i["m"]):
            return False
        if i["wait"]:
            tile.semaphores[i["wait"]] -= i["wait_n"]
        match op:
            case Op.SYNC:
                pass
            case Op.STREAM:
                for beat in range(i["src"], i["src"] + i["n"] * self.arch.row_beats(i["m"])):
                    tile.stream.append((tile.elements[beat].copy(), tile.scales[beat].copy()))
            case Op.APPEND:
                to, source, beats = i["dst"], i["src"], i["n"]
                tile.elements[to : to + beats] = tile.append[source : source + beats]
                tile.scales[to : to + beats] = tile.append_scales[source : source + beats]
            case Op.PUT:
                self._put(tile, i)
            case _:
                self.units[tile.index].execute(op, i)
        if i["post"]:
            tile.semaphores[i["post"]] += 1
        return True

    def _put(self, tile: Tile, i: dict[str, int]) -> None:
        for to, source, words, target in tile.descriptors[i["aux"] : i["aux"] + i["m"]].tolist():
            data = tile.vector[i["src"] + source : i["src"] + source + words]
            there = self.tiles[to]
            at = slice(i["dst"] + target, i["dst"] + target + words)
            if i["x"] == PutOp.STORE:
                there.vector[at] = data
            elif i["x"] == PutOp.MAX:
                there.vector[at] = np.maximum(there.vector[at], data)
            else:
                total = there.vector[at] + data
                there.vector[at] = numeric.wrap(total)
                self.overflows += int(np.count_nonzero(there.vector[at] != total))
            if i["y"]:
                there.semaphores[i["y"]] += 1


def run(program: Program, prompt: list[int], tokens: int, seed: int | None = None) -> Run:
    """Feed ``prompt``, then generate ``tokens`` greedy tokens; one Step for each token fed."""
    result = Run(executor="golden", arch_fingerprint=program.arch.fingerprint, prompt=list(prompt))
    return drive(Machine(program, seed), result, tokens)
