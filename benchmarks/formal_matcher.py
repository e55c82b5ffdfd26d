"""What is proved of the matcher of inputs and outputs."""

from collections.abc import Callable
from copy import deepcopy
from itertools import product
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Signal, Value

from tokenpath.hw.arch.allocation import Allocator

from .formal_blocks import at_most_one, implies, pointer, ranks
from .formal_prover import Setting

Same = Callable[[Allocator], Value]
"""Whether the registers say what an Allocator knows."""


def matcher(
    hw: SimpleNamespace, s: Setting, *, ports: int, kind: str, iterations: int = 1,
    arbiter: str = "round_robin",
) -> None:  # fmt: skip
    """A matching of the requests, at most one for each input and output, not empty if there is a
    request; by wavefront, or with as many iterations as ports, none could be added. By wavefront a
    request waits for at most ``ports`` - 1 cycles. Of 2 ports, and by wavefront of 3, each cycle is
    that of `hw/arch/allocation.py`."""
    pairs = list(product(range(ports), repeat=2))
    s.m.submodules.dut = dut = hw.Matcher(
        ports=ports, pairs=pairs, kind=kind, iterations=iterations,
        arbiter="pairs" if arbiter == "round_robin" else arbiter,
    )  # fmt: skip
    s.drive(dut.requests.as_value())
    rows = [[dut.match[i][o] for o in range(ports)] for i in range(ports)]
    columns = [list(column) for column in zip(*rows, strict=True)]
    for i in range(ports):
        s.prove(f"one_of_input_{i}", at_most_one(rows[i]))
        s.prove(f"one_of_output_{i}", at_most_one(columns[i]))
    asked, matched = dut.requests.as_value(), dut.match.as_value()
    s.prove("of_the_requests", (matched & ~asked) == 0)
    s.prove("not_empty", asked.any() == matched.any())
    if kind == "wavefront" or iterations >= ports:
        s.prove("none_could_be_added", *(
            implies(dut.requests[i][o], Cat(rows[i]).any() | Cat(columns[o]).any())
            for i, o in pairs
        ))  # fmt: skip
    s.cover("all", Cat(Cat(row).any() for row in rows).all())
    same = _by_diagonal(s, dut, ports) if kind == "wavefront" else _by_orders(s, ports)
    if ports == 2 or (ports == 3 and kind == "wavefront"):
        shape = {"ports": ports, "vcs": ports, "iterations": iterations}
        _is_the_rule(s, dut, Allocator(kind=kind, arbiter=arbiter, **shape), same)


def first_diagonal(s: Setting, path: str, ports: int) -> list[Value]:
    """Bit d: diagonal d is not before the first one; the last one never is."""
    behind = pointer(s, f"{path}behind", ports)[:-1]
    s.invariant("last_diagonal", behind[-1])
    return behind


def _by_diagonal(s: Setting, dut: Any, ports: int) -> Same:
    """Prove that a request is first after ``ports`` - 1 cycles at the latest."""
    behind = first_diagonal(s, "dut.", ports)
    for i, o in product(range(ports), repeat=2):
        waited = Signal(range(ports + 1), name=f"waited{i}_{o}")
        waits = s.named(f"waits{i}_{o}", dut.requests[i][o] & ~dut.match[i][o])
        s.m.d.sync += waited.eq(0)
        with s.m.If(waits & (waited < ports)):
            s.m.d.sync += waited.eq(waited + 1)
        s.prove(f"fair_{i}_{o}", waited < ports)
        d = (i + o) % ports
        s.invariant(f"comes_{i}_{o}", *(
            implies(_is_at(behind, first), waited + (d - first) % ports < ports)
            for first in range(ports)
        ))  # fmt: skip
        s.cover(f"longest_{i}_{o}", waited == ports - 1)
    return lambda rule: _is_at(behind, rule.diagonal)


def _is_at(behind: list[Value], first: int) -> Value:
    return behind[first] & (~behind[first - 1] if first else 1)


def _by_orders(s: Setting, ports: int) -> Same:
    ranked = {
        side: [ranks(s, f"dut.{side}{port}_", ports) for port in range(ports)]
        for side in ("input", "output")
    }

    def same(rule: Allocator) -> Value:
        pairs = [*zip(ranked["input"], rule.inputs, strict=True),
                 *zip(ranked["output"], rule.outputs, strict=True)]  # fmt: skip
        return Cat(
            before[j][k] == (arbiter.order.index(j) < arbiter.order.index(k))
            for before, arbiter in pairs for j in range(ports) for k in range(ports) if j != k
        ).all()  # fmt: skip

    return same


def _is_the_rule(s: Setting, dut: Any, rule: Allocator, same: Same) -> None:
    """Prove that each match is that of a table of ``rule``, state by state."""
    ports = rule.ports
    pairs = list(product(range(ports), repeat=2))
    states, seen, found = [rule], {_key(rule): 0}, {}
    for number, state in enumerate(states):  # which grows
        for bits in range(1 << len(pairs)):
            after = deepcopy(state)
            granted = after.cycle((i, o, o) for k, (i, o) in enumerate(pairs) if bits >> k & 1)
            match = sum(1 << pairs.index((i, o)) for i, _, o in granted)
            if _key(after) not in seen:
                seen[_key(after)] = len(states)
                states.append(after)
            found[number, bits] = match, seen[_key(after)]
    state, following = Signal(range(len(states)), name="state"), Signal(range(len(states)))
    expected = Signal(len(pairs), name="expected")
    s.m.d.sync += state.eq(following)
    at = Cat(dut.requests.as_value(), state)
    with s.m.Switch(at):
        for (number, bits), (match, after) in found.items():
            with s.m.Case(number << len(pairs) | bits):
                s.m.d.comb += [expected.eq(match), following.eq(after)]
    s.prove("the_rules", dut.match.as_value() == expected)
    s.invariant("state", state < len(states))
    s.invariant("same_state", *(implies(state == n, same(one)) for n, one in enumerate(states)))


def _key(rule: Allocator) -> object:
    return rule.diagonal, *(tuple(one.order) for one in (*rule.inputs, *rule.outputs))
