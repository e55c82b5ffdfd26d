"""Where a step's cycles went: small programs whose critical path is plain to see."""

from dataclasses import replace

import numpy as np
from programs import TINY

from tokenpath.hw.arch.isa import Instr, Op
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.sim.drawn import program
from tokenpath.sim.fast import FastMachine

LINE = TINY.on("line:4")
SILU = 13  # cycles of SILU over up to 4 words


def ledger(arch, queues, descriptors=None, trace=True):
    """The step of a program whose tiles without queues do nothing."""
    table = np.zeros((arch.tiles, 1, 4)) if descriptors is None else descriptors
    everyone = [queues.get(tile, ((), (), ())) for tile in range(arch.tiles)]
    machine = FastMachine(program(arch, everyone, descriptors=table), values=False, trace=trace)
    step = machine.step(0, 0)
    if trace:
        assert sum(step.ledger.values()) == step.cycles
        for layer, cycles in step.ledger.items():
            assert sum(stage[layer] for stage in step.stages.values()) == cycles
        assert sum(step.network.values()) == step.ledger["interconnect"]
    return step


def silu(**semaphores):
    return Instr(op=Op.SILU, n=4, **semaphores)


def test_without_a_trace_there_is_no_ledger():
    step = ledger(LINE, {0: ((), (silu(),), ())}, trace=False)
    assert (step.cycles, step.ledger, step.stages, step.network) == (14, {}, {}, {})


def test_the_path_runs_through_the_engine_that_posts_last():
    memory = [Instr(op=Op.APPEND, n=5, post=1), Instr(op=Op.APPEND, n=50)]
    compute = [silu(wait=2), silu(wait=1)]
    network = [Instr(op=Op.SYNC, post=2)]
    step = ledger(LINE, {0: (memory, [*compute, *[silu()] * 3], network)})
    # SYNC, its post, then the five SILUs; the APPENDs end earlier
    assert step.ledger == {"compute": 5 * SILU, "memory": 0, "interconnect": 0, "wait": 6}


def test_the_path_runs_through_a_packet_to_the_sender():
    table = np.zeros((4, 1, 4))
    table[0, 0] = (2, 0, 4, 0)
    put = Instr(op=Op.PUT, m=1, wait=1, y=5)
    queues = {0: ((), (silu(post=1),), (put,)), 2: ((), (silu(wait=5),), ())}
    step = ledger(LINE, queues, table)
    assert step.stages["silu"] == {"compute": 26, "memory": 0, "interconnect": 0, "wait": 2}
    assert step.stages["put"] == {"compute": 0, "memory": 0, "interconnect": 9, "wait": 1}
    assert step.network == {"inject": 2, "hop": 5, "serialisation": 2, "contention": 0}


def test_a_packet_that_nobody_waits_for_ends_the_path():
    table = np.zeros((4, 1, 4))
    table[0, 0] = (3, 0, 14, 0)
    step = ledger(LINE, {0: ((), (), (Instr(op=Op.PUT, m=1),))}, table)
    assert step.network == {"inject": 2, "hop": 6, "serialisation": 7, "contention": 0}
    assert step.cycles == 16


def test_a_put_behind_a_put_injects():
    table = np.zeros((4, 2, 4))
    table[0] = (1, 0, 4, 0)
    puts = [Instr(op=Op.PUT, m=2), Instr(op=Op.PUT, m=2)]
    step = ledger(LINE, {0: ((), (), puts)}, table)
    # 10 cycles of the first PUT; fetch, 3 flits and fetch of the second; then its last packet's way
    assert step.network == {"inject": 10 + 2 + 3 + 2, "hop": 4, "serialisation": 2, "contention": 0}
    assert step.ledger["wait"] == 2


def test_cycles_lost_to_other_packets_are_contention():
    table = np.zeros((4, 1, 4))
    table[:, 0] = (1, 0, 14, 0)
    queues = {tile: ((), (), (Instr(op=Op.PUT, m=1),)) for tile in (0, 2, 3)}
    alone = ledger(LINE, {3: queues[3]}, table)
    step = ledger(LINE, queues, table)
    assert alone.network == {"inject": 2, "hop": 5, "serialisation": 7, "contention": 0}
    assert step.network["contention"] == step.cycles - alone.cycles > 8


def test_the_flits_of_a_packet_follow_at_the_slowest_links_rate():
    arch = replace(TINY.on("line2@die,line2@board(latency=9,cpf=4)"), router=RouterParams(depth=4))
    table = np.zeros((4, 1, 4))
    table[0, 0] = (3, 0, 6, 0)  # 4 flits, over both links
    step = ledger(arch, {0: ((), (), (Instr(op=Op.PUT, m=1),))}, table)
    assert step.network == {"inject": 2, "hop": 13, "serialisation": 12, "contention": 0}


def rows(n):
    return Instr(op=Op.STREAM, n=n, m=8), Instr(op=Op.DOT, n=n, m=8)


def test_an_operation_that_waits_for_its_stream_is_followed_into_it():
    stream, dot = rows(10)
    slow = Instr(op=Op.APPEND, n=40, wait=1)
    step = ledger(LINE, {0: ((slow, stream), (silu(post=1), dot), ())})
    assert step.stages["silu"] == {"compute": 13, "memory": 0, "interconnect": 0, "wait": 1}
    assert step.stages["append"] == {"compute": 0, "memory": 40, "interconnect": 0, "wait": 1}
    assert step.stages["stream"] == {"compute": 0, "memory": 0, "interconnect": 0, "wait": 1}
    assert step.stages["dot"] == {"compute": 8, "memory": 2 + 10, "interconnect": 0, "wait": 0}


def test_a_stream_that_waits_for_room_is_followed_into_the_operation():
    stream, dot = rows(10)
    late = Instr(op=Op.APPEND, n=30)
    step = ledger(LINE, {0: ((stream, late), (silu(), dot), ())})
    # the STREAM's last read follows the sixth consumption of the DOT, which was held up by the SILU
    assert step.stages["silu"] == {"compute": 13, "memory": 0, "interconnect": 0, "wait": 1}
    assert step.stages["dot"] == {"compute": 0, "memory": 6, "interconnect": 0, "wait": 1}
    assert step.stages["stream"] == {"compute": 0, "memory": 1, "interconnect": 0, "wait": 0}
    assert step.stages["append"] == {"compute": 0, "memory": 30, "interconnect": 0, "wait": 1}


def test_a_stream_that_waits_for_its_first_read_is_followed_too():
    short, dot = rows(4)
    late = Instr(op=Op.APPEND, dst=100, n=60)
    step = ledger(LINE, {0: ((short, short, late), (silu(), dot, dot), ())})
    # the second STREAM's first read follows the first DOT's first beat; three more reads behind it
    assert step.stages["dot"] == {"compute": 0, "memory": 1, "interconnect": 0, "wait": 1}
    assert step.stages["stream"] == {"compute": 0, "memory": 4, "interconnect": 0, "wait": 0}


def test_prologue_and_epilogue_are_compute():
    stream = Instr(op=Op.STREAM, n=3, m=16)
    axpy = Instr(op=Op.AXPY, n=3, m=16, q=1)
    step = ledger(LINE, {0: ((stream,), (axpy,), ())})
    assert step.ledger == {"compute": 8 + 6 + 4 + 1, "memory": 6, "interconnect": 0, "wait": 1}
