"""What tests of the fast simulator share: a machine, times of instructions."""

from typing import Any

from tokenpath.hw.arch.isa import Engine
from tokenpath.hw.arch.params import PRESETS

TINY = PRESETS["tiny"]


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
