"""Cycle counts of routers, links and network interfaces, pinned exactly."""

from dataclasses import replace

import numpy as np
import pytest
from programs import TINY, instruction_times, put

from tokenpath.hw.arch.isa import Instr, Op
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.sim.drawn import program
from tokenpath.sim.fast import FastMachine, columns


@pytest.mark.parametrize("hops", range(4))
def test_a_put_takes_a_cycle_a_hop(hops):
    # issue, 2 of fetch, into the router, a cycle a router, 2 to sink; 3 flits of 2 words
    machine, step = put([(hops, 0, 4, 0)], TINY.on("line:4"), waits=[hops])
    delivered = 3 + 1 + hops + 2 + 2
    assert instruction_times(machine)[hops, 1, 0] == (delivered, delivered + 1)
    assert instruction_times(machine)[0, 2, 0] == (0, 6)  # the last flit leaves in 5
    assert step.cycles == delivered + 1
    assert step.network == {"inject": 2, "hop": 1 + hops + 2, "serialisation": 2, "contention": 0}
    assert step.counters["injected_flits"].tolist() == [3, 0, 0, 0]


def test_a_put_without_descriptors_takes_its_issue_cycle():
    assert put([], TINY)[1].cycles == 1


def test_an_empty_put_is_a_packet_that_only_posts():
    _, step = put([(1, 0, 0, 0)], TINY, waits=[1])
    assert step.cycles == 3 + 1 + 1 + 2 + 1
    assert step.counters["injected_flits"].tolist() == [1, 0, 0, 0]


def test_a_long_put_is_cut_into_packets_and_posts_once():
    machine, step = put([(1, 0, 30, 0)], TINY, waits=[1])  # 14 + 14 + 2 words: 8 + 8 + 2 flits
    assert step.counters["injected_flits"].tolist() == [18, 0, 0, 0]
    assert instruction_times(machine)[0, 2, 0] == (0, 3 + 18)
    assert instruction_times(machine)[1, 1, 0][0] == 3 + 1 + 1 + 2 + 17


def test_each_descriptor_is_fetched_behind_the_last_flit_of_the_one_before():
    machine, _ = put([(1, 0, 4, 0), (1, 0, 0, 0), (2, 0, 4, 0)], TINY)
    assert instruction_times(machine)[0, 2, 0] == (0, 3 + 3 + 2 + 1 + 2 + 3)


def test_a_buffer_of_one_flit_halves_the_rate():
    arch = replace(TINY.on("line:3"), router=RouterParams(depth=1))
    machine, step = put([(2, 0, 10, 0)], arch, waits=[2])  # 6 flits
    assert instruction_times(machine)[0, 2, 0] == (0, 3 + 2 * 5 + 1)
    assert step.cycles == 3 + 1 + 2 + 2 + 2 * 5 + 1


def test_a_link_pays_its_latency_and_its_cycles_per_flit():
    arch = TINY.on("line2@board(latency=20,cpf=3)")
    machine, step = put([(1, 0, 8, 0)], arch, waits=[1])  # 5 flits
    assert instruction_times(machine)[1, 1, 0][0] == 3 + 1 + 20 + 2 + 3 * 4
    assert step.network == {"inject": 2, "hop": 23, "serialisation": 12, "contention": 0}


def test_the_buffer_of_a_long_link_covers_its_credit_loop():
    arch = replace(TINY.on("line2@rack(latency=40,cpf=1)"), router=RouterParams(depth=2))
    _, step = put([(1, 0, 14, 0)] * 20, arch, waits=[1])  # 160 flits, 20 descriptors
    assert step.counters["link_flits"].tolist() == [160, 0]
    assert step.cycles == 3 + 160 + 2 * 19 + 40 + 2  # nothing but fetches between the flits


def test_two_senders_share_an_output_in_turn():
    # tiles 0 and 2 send packets of 3 flits to tile 1 at once; whole packets, port 1 (from tile
    # 2) first: it is asked
    # for from pointer 0 on, and tile 2's flits come in on port 1, tile 0's on port 2
    arch = TINY.on("line:3")
    table = np.zeros((3, 2, 4), np.int32)
    table[0] = table[2] = [(1, 0, 4, 0)] * 2
    queues = [([], [], [Instr(op=Op.PUT, m=2, y=1 + t)]) for t in range(3)]
    queues[1] = ([Instr(op=Op.SYNC, wait=1)], [Instr(op=Op.SYNC, wait=3)], [])
    machine = FastMachine(program(arch, queues, descriptors=table), values=False)
    machine.step(0, 0)
    times = instruction_times(machine)
    assert times[1, 1, 0][0] == 3 + 1 + 1 + 2 + 2
    assert times[1, 0, 0][0] == times[1, 1, 0][0] + 3


def test_pointers_of_the_arbiters_persist_from_step_to_step():
    arch = TINY.on("line:3")
    table = np.zeros((3, 1, 4), np.int32)
    table[0] = table[2] = (1, 0, 4, 0)
    queues = [([], [], [Instr(op=Op.PUT, m=1, y=1 + t)]) for t in range(3)]
    queues[1] = ([Instr(op=Op.SYNC, wait=1)], [Instr(op=Op.SYNC, wait=3)], [])
    machine = FastMachine(program(arch, queues, descriptors=table), values=False)
    winners = []
    for position in range(3):
        machine.step(0, position)
        times = instruction_times(machine)
        winners.append(times[1, 1, 0][0] < times[1, 0, 0][0])
    assert winners == [
        True,
        True,
        True,
    ]  # behind the loser, whose packet went last, the winner is next again
    assert machine.network.outputs.reshape(-1, columns.O_WIDTH)[3, columns.O_NEXT] % 3 == 0


def test_more_packets_than_the_pool_holds_make_it_grow():
    arch = TINY.on("full2@rack(latency=2000,cpf=1)")
    machine, step = put([(1, 0, 0, 0)] * 1500, arch)
    assert len(machine.engines.packets) == 1024 * columns.K_WIDTH
    arch = TINY.on("full2@rack(latency=6000,cpf=1)")
    machine, step = put([(1, 0, 0, 0)] * 3000, arch)
    assert len(machine.engines.packets) == 2048 * columns.K_WIDTH
    assert step.cycles == 3 + 3 * 2999 + 1 + 6000 + 2
