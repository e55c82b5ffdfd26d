"""The sequencer's rhythm: when instructions issue, what they see, when they post."""

from amaranth.sim import Simulator
from test_load import program

from tokenpath.hw.arch.isa import Engine, Instr, Op
from tokenpath.hw.arch.program import StepRule
from tokenpath.hw.clock import period
from tokenpath.hw.load import images
from tokenpath.hw.sequencer import START_CYCLES, Sequencer


def play(instructions, slot=0, enough=lambda cycle: True, rules=(), steps=1):
    """(cycle of issue, cycle of end, m, post) of each instruction; a PUT lasts ``m`` cycles."""
    (image,) = images(program(instructions, rules))
    rows = image.code[Engine.NETWORK]
    dut = Sequencer(engine=Engine.NETWORK, words=16)
    found = []

    async def step(ctx):
        ctx.set(dut.go, 1)
        running, left, cycle = None, 0, -START_CYCLES
        while cycle < 1 or not ctx.get(dut.idle):
            ctx.set(dut.enough, enough(cycle))
            length = ctx.get(dut.operands.m) if ctx.get(dut.operands.op) == Op.PUT else 0
            ctx.set(dut.instant, length == 0)
            ctx.set(dut.done, left == 1)
            if ctx.get(dut.issue):
                running = cycle, length, ctx.get(dut.need)
            if ctx.get(dut.over):
                found.append((running[0], cycle, running[1], ctx.get(dut.post)))
            left = length if ctx.get(dut.issue) else left - 1
            await ctx.tick()
            ctx.set(dut.go, 0)
            cycle += 1
        found.append(cycle)

    async def bench(ctx):
        ctx.set(dut.load, 1)
        for address, row in enumerate(rows):
            ctx.set(dut.load_address, address)
            ctx.set(dut.load_row, row)
            await ctx.tick()
        ctx.set(dut.load, 0)
        ctx.set(dut.length, len(rows))
        ctx.set(dut.slots[0], slot)
        assert ctx.get(dut.idle)
        for _ in range(steps):
            await step(ctx)

    simulator = Simulator(dut)
    simulator.add_clock(period())
    simulator.add_testbench(bench)
    simulator.run()
    return found


def test_instant_instructions_issue_back_to_back_from_cycle_0() -> None:
    code = [Instr(op=Op.SYNC, post=p) for p in (1, 2, 3, 4)]
    assert play(code) == [(0, 0, 0, 1), (1, 1, 0, 2), (2, 2, 0, 3), (3, 3, 0, 4), 4]


def test_a_duration_of_d_ends_in_t_plus_d_and_the_next_issues_behind() -> None:
    code = [Instr(op=Op.PUT, m=3, post=1), Instr(op=Op.PUT, m=1), Instr(op=Op.SYNC, post=2)]
    assert play(code) == [(0, 3, 3, 1), (4, 5, 1, 0), (6, 6, 0, 2), 7]


def test_operands_are_register_plus_immediate() -> None:
    rules = [StepRule(register=2, kind="token_row", span=9)]
    code = [Instr(op=Op.PUT, m=(3, 2)), Instr(op=Op.PUT, m=(1, 2)), Instr(op=Op.PUT, m=2)]
    assert play(code, slot=-1, rules=rules) == [(0, 2, 2, 0), (3, 3, 0, 0), (4, 6, 2, 0), 7]


def test_an_instruction_waits_until_its_semaphore_holds_enough() -> None:
    code = [Instr(op=Op.SYNC, wait=1), Instr(op=Op.SYNC), Instr(op=Op.PUT, m=1)]
    at = {0: False, 1: False, 4: False}
    assert play(code, enough=lambda c: at.get(c, True)) == [
        (2, 2, 0, 0), (3, 3, 0, 0), (5, 6, 1, 0), 7,
    ]  # fmt: skip


def test_every_step_is_the_same_and_no_code_is_no_work() -> None:
    code = [Instr(op=Op.PUT, m=1), Instr(op=Op.SYNC)]
    assert play(code, steps=2) == [(0, 1, 1, 0), (2, 2, 0, 0), 3] * 2
    assert play([]) == [1]
