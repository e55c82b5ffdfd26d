"""The values of a step, replayed in the order of issue: time never depends on them."""

# ruff: noqa: F403, F405
from tokenpath.sim.compiled import unlocked

from .columns import *
from .jit import inner
from .state import I64, Engines, engines_at
from .values import append, compute, deliver, inject, values_at


@inner
def resolve(s: Engines, tile: int, row: int, ops: I64) -> None:
    """Operands of an instruction with its registers: op, dst, src, aux, bux, n, m, q, x, y."""
    code, registers = s.code, tile * s.constants[REGISTERS]
    ops[0] = code[row + OP]
    ops[1] = code[row + DST] + s.registers[registers + code[row + DST + 1]]
    ops[2] = code[row + SRC] + s.registers[registers + code[row + SRC + 1]]
    ops[3] = code[row + AUX] + s.registers[registers + code[row + AUX + 1]]
    ops[4] = code[row + BUX] + s.registers[registers + code[row + BUX + 1]]
    ops[5] = code[row + N] + s.registers[registers + code[row + N + 1]]
    ops[6] = code[row + M] + s.registers[registers + code[row + M + 1]]
    ops[7] = code[row + Q]
    ops[8] = code[row + X]
    ops[9] = code[row + Y]


@unlocked
def replay(engines: I64, values: I64) -> None:
    """Do what the log says and empty it, without the GIL.

    Takes the addresses of the arrays of Engines and Values. Raises IndexError when an instruction
    leaves a memory of its tile.
    """
    s, v = engines_at(engines), values_at(values)
    log = s.log
    for index in range(s.g[LOG_N]):
        at = index * L_WIDTH
        kind, tile, a = log[at] & 3, log[at] >> 2, log[at + 1]
        if kind == L_COMPUTE:
            resolve(s, tile, a * CODE_WIDTH, v.ops)
            compute(v, tile, log[at + 2])
        elif kind == L_APPEND:
            resolve(s, tile, a * CODE_WIDTH, v.ops)
            append(v, tile, v.ops[1], v.ops[2], v.ops[5])
        elif kind == L_INJECT:
            inject(v, tile, log[at + 2], log[at + 3] & 255, a * s.constants[MAX_WORDS])
        else:
            words, op = log[at + 3] >> 8, log[at + 3] & 255
            deliver(v, a * s.constants[MAX_WORDS], words, tile, log[at + 2], op)
    s.g[LOG_N] = 0
