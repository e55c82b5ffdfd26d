"""What tests of the fast simulator share: a machine, times of instructions."""

from typing import Any

import numpy as np

from tokenpath.hw.arch.isa import Engine, Instr, Op
from tokenpath.hw.arch.params import PRESETS
from tokenpath.sim.drawn import program
from tokenpath.sim.fast import FastMachine, columns

TINY = PRESETS["tiny"]


def instruction_times(machine: Any) -> dict[tuple[int, int, int], tuple[int, int]]:
    """(issue, end) of each (tile, engine, instruction) of a FastMachine's last step, from its
    records.
    """
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


def put(descriptors, arch, waits=(), tile=0):
    """The machine and step of one PUT from ``tile``, with waits on semaphore 5 by tile."""
    table = np.zeros((arch.tiles, max(1, len(descriptors)), 4), np.int32)
    table[tile, : len(descriptors)] = np.array(descriptors, np.int32).reshape(-1, 4)
    queues = [
        ([], [Instr(op=Op.SYNC, wait=5)] if t in waits else [], []) for t in range(arch.tiles)
    ]
    queues[tile][2].append(Instr(op=Op.PUT, m=len(descriptors), y=5))
    machine = FastMachine(program(arch, queues, descriptors=table), values=False)
    step = machine.step(0, 0)
    assert sum(step.ledger.values()) == step.cycles
    assert sum(step.network.values()) == step.ledger["interconnect"]
    return machine, step
