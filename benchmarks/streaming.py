"""How much of the memory port's peak DOT and AXPY use, from the hardware's own counters.

One tile of the preset edge (a beat of 32 elements and its scale a cycle) under Verilator. *Port*:
beats read over the cycles between the first and the last read, that is beats and waits for room.
*Whole*: beats over all cycles of a step with nothing but this operation, from the issue of the
STREAM to the last word in vector memory. *In a row*: the same for eight operations back to back,
as in the layers of a model. The gate is 95 % of the peak over 256 rows and more, for one query.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tokenpath.hw.arch.isa import Instr, Op
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Program
from tokenpath.sim.drawn import program
from tokenpath.sim.fast import FastMachine
from tokenpath.sim.run import Step
from tokenpath.sim.verilated import VerilatedMachine

from .common import markdown

ROWS, HEAD_DIMS, IN_A_ROW, GATE = (256, 1024), (64, 128), 8, 0.95


@dataclass(frozen=True)
class Stream:
    """``count`` times an operation over ``rows`` rows of ``head_dim`` elements."""

    op: Op
    queries: int
    head_dim: int
    rows: int
    count: int = 1

    def program(self, arch: Arch) -> Program:
        """Nothing but this, on one tile; each result goes behind the one before."""
        named: dict[str, Any] = {"n": self.rows, "m": self.head_dim, "y": 12}
        if self.op != Op.DOT:
            named["q"] = self.queries
        words = self.rows if self.op == Op.DOT else self.queries * self.head_dim
        if self.op == Op.AXPY:
            named |= {"src": words, "aux": words + self.queries}
        beats = self.rows * arch.row_beats(self.head_dim)
        memory = [Instr(op=Op.STREAM, src=0, n=self.rows, m=self.head_dim)] * self.count
        compute = [Instr(op=self.op, dst=0, **named)] * self.count
        return program(arch, [(memory, compute, ())], store_beats_used=beats)


@dataclass(frozen=True)
class Reached:
    """``port`` and ``whole``: shares of the peak; ``cycles`` of the step."""

    port: float
    whole: float
    cycles: int

    @classmethod
    def of(cls, step: Step) -> "Reached":
        """From the counters of a step on one tile."""
        beats, full = (int(step.counters[name][0]) for name in ("beats_read", "full_cycles"))
        return cls(beats / (beats + full), beats / step.cycles, step.cycles)


def run(stream: Stream, arch: Arch, machine: Any = VerilatedMachine) -> Reached:
    """One step in hardware; the fast simulator has to agree on its cycles."""
    drawn = stream.program(arch)
    drawn.check()
    step, timed = machine(drawn).step(0, 0), FastMachine(drawn, values=False).step(0, 0)
    if step.cycles != timed.cycles:
        raise AssertionError(f"{stream}: {step.cycles} cycles in hardware, {timed.cycles} in fast")
    return Reached.of(step)


def streams(arch: Arch) -> list[Stream]:
    """What is measured."""
    kinds = [(Op.DOT, 1), (Op.AXPY, 1), (Op.SCORE, arch.queries), (Op.AXPY, arch.queries)]
    return [Stream(*kind, m, n) for kind in kinds for m in HEAD_DIMS for n in ROWS]


def measure(options: Sequence[str] = ()) -> str:
    """The table, as Markdown. Raises AssertionError below the gate."""
    arch = Arch.load("edge").on("line:1")
    rows, missed = [], []
    for stream in streams(arch):
        one = run(stream, arch)
        many = run(Stream(stream.op, stream.queries, stream.head_dim, stream.rows, IN_A_ROW), arch)
        shares = [one.port, one.whole, many.whole]
        if stream.queries == 1 and min(shares) < GATE:
            missed.append(str(stream))
        name = [stream.op.name, stream.queries, stream.head_dim, stream.rows]
        rows.append([*name, f"{one.cycles:,}", *(f"{share:.1%}" for share in shares)])
    columns = ["operation", "queries", "head_dim", "rows", "cycles", "port", "whole", "in a row"]
    assert not missed, missed
    return f"{markdown(columns, rows)}\n{LIMIT}\n"


LIMIT = """\
With one query every figure is above 95 %. With four, the whole of an AXPY over 256 rows is not:
its 4 x head_dim sums drain through the write port of vector memory, vlanes words a cycle, while the
next STREAM waits (queries x head_dim / vlanes cycles against rows x head_dim / lanes beats: 6 % at
256 rows, whatever the head_dim; 1.6 % at 1,024). A second set of accumulators would hide it."""
