"""The packets of a step as a trace: all of them, when and where to."""

import random

import numpy as np
from programs import TINY, put

from tokenpath.hw.arch.isa import Instr, Op
from tokenpath.sim.drawn import program, random_program
from tokenpath.sim.fast import FastMachine
from tokenpath.sim.traffic import replay
from tokenpath.sim.traffic_trace import Trace


def test_packets_are_recorded_with_the_cycle_of_their_first_flit():
    table = np.zeros((4, 2, 4), np.int32)
    table[0] = [(1, 0, 20, 0), (3, 0, 0, 0)]
    queues = [([], [], [Instr(op=Op.PUT, m=2 if tile == 0 else 0, y=5)]) for tile in range(4)]
    machine = FastMachine(program(TINY, queues, descriptors=table), values=False, record=True)
    machine.step(0, 0)
    # issue, 2 of fetch; 14 + 2 words in flits of 2 behind 2 words of header; 2 of fetch
    assert machine.packets.tolist() == [[3, 0, 1, 8], [11, 0, 1, 4], [17, 0, 3, 1]]
    machine.step(0, 1)
    assert len(machine.packets) == 3  # of the last step only


def test_recording_changes_neither_cycles_nor_values():
    compiled, _ = random_program(TINY, random.Random(5), 60)
    plain, recorded = FastMachine(compiled), FastMachine(compiled, record=True)
    for position in range(2):
        assert plain.step(0, position).cycles == recorded.step(0, position).cycles
        np.testing.assert_array_equal(plain.values.vector, recorded.values.vector)
        flits = recorded.counters()["injected_flits"]
        sources = recorded.packets[:, 1]
        assert np.bincount(sources, recorded.packets[:, 3], 4).tolist() == flits.tolist()
        assert (np.diff(recorded.packets[:, 0]) >= 0).all() and len(sources) > 20


def test_a_trace_of_one_packet_takes_as_long_as_in_the_program():
    machine, step = put([(3, 0, 8, 0)], TINY, waits=[3])
    recorded = FastMachine(machine.program, values=False, record=True)
    recorded.step(0, 0)
    measured, last = replay(TINY, Trace(rows=recorded.packets))
    assert measured.packets == 1 and last == step.cycles - 1
