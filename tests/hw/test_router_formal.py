"""A piece of ``python -m benchmarks formal``: small arbiters, matchers, buffers, links, routers."""

import sys
from importlib.util import find_spec

import pytest
from amaranth.hdl import Signal

from benchmarks.faults import Fault
from benchmarks.formal import MODULES, NEEDED, counterexample, hardware, planted, prove
from benchmarks.formal_cases import CASES, FAULTS, Case
from benchmarks.formal_prover import Setting, Solver

MISSING = [package for module, package in NEEDED.items() if not find_spec(module)]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}: extra formal"),
    pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable"),
]

QUICK = [
    "arbiter round_robin of 1", "arbiter round_robin of 5", "arbiter matrix of 3",
    "buffer of 1 VC, depth 1", "buffer of 1 VC, depth 3", "buffer of 2 VC, depth 2",
    "link of latency 2", "link of latency 6", "router 0 of full:2, depth 2",
    "router 1 of line:3, depth 1", "router 3 of switch:3, depth 2", "router 1 of ring:3, depth 1",
    "arbiter pairs of 4", "matcher wavefront of 2, iterations 1, round_robin",
    "matcher output_first of 2, iterations 2, matrix", "vc_router vc2-d1, 0 of full:2",
    "vc_router vc2-d2-s2, 0 of full:2", "vc_router vc2-d1-s3, 1 of line:3",
    "vc_router vc2-d1, 1 of ring:3", "deflection_router 1 of ring:3",
    "deflection_router 3 of mesh:2x2",
]  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
def test_it_is_proved_and_not_of_nothing(name):
    proof = prove(next(case for case in CASES if case.name == name))
    assert proof.answer == "proved"
    assert proof.properties >= 3


@pytest.mark.parametrize(
    ("name", "on", "violated"),
    [
        ("two grants", "arbiter", "one_grant"),
        ("the pointer isn't moved when a packet ends", "arbiter", "fair"),
        ("the pointer isn't moved when a packet ends", "router", "fair"),
        ("the winner isn't put last", "arbiter", "fair"),
        ("a credit is dropped when one is taken", "buffer", "none_lost_or_made_up"),
        ("the buffer's end doesn't wrap", "buffer", "order"),
        ("credits aren't returned", "router", "credit_for_each"),
        ("the tail doesn't release the channel", "router", "not_idle"),
        ("a packet doesn't hold its channel", "router", "not_interleaved"),
        ("a flit is sent without a credit", "router", "sends_with_credit"),
        ("a line's wrong turn", "router", "one_flit_for_one"),
        ("an input is matched twice", "matcher", "one_of_input"),
        ("every iteration of iSLIP moves its pointers", "matcher", "the_rules"),
        ("a packet doesn't hold its VC", "vc_router", "not_interleaved"),
        ("flits behind the head lose their way", "vc_router", "one_flit_for_one"),
        ("a flit is sent without a credit", "vc_router", "sends_with_credit"),
        ("credits aren't returned", "vc_router", "credit_for_each"),
        ("a VC that a head takes stays free", "vc_router", "not_interleaved"),
        ("a ring's wrong VC", "vc_router", "on_its_vcs"),
        ("a flit loses its epoch", "deflection_router", "none_lost"),
        ("an old flit isn't delivered first", "deflection_router", "delivers"),
        ("an old flit doesn't come first", "deflection_router", "an_old_one_gets_nearer"),
    ],
)
def test_a_fault_gives_a_counterexample(name, on, violated):
    fault, case = next(
        (fault, case) for fault, case in FAULTS if fault.name == name and case.name.startswith(on)
    )
    found = counterexample(case, fault)
    assert found is not None
    assert any(one.startswith(violated) for one in found.violated), found


def test_every_fault_fits_its_source_and_leaves_nothing_behind():
    hardware()  # loads all of them
    before = {name: sys.modules[f"tokenpath.hw.{name}"] for name in MODULES}
    for fault, _ in FAULTS:
        with planted(fault) as hw:
            assert hw.Router is not before["router"].Router
    assert before == {name: sys.modules[f"tokenpath.hw.{name}"] for name in MODULES}


def test_a_fault_whose_text_is_gone_is_refused():
    with (
        pytest.raises(ValueError, match="has 0 of 'no such text'"),
        planted(Fault("gone", "router", "no such text", "")),
    ):
        pass


def counter(s, most):
    """Counts up to 3 cycles with ``up``; what is said of it holds up to ``most``."""
    up, count = s.free("up"), Signal(3)
    with s.m.If(up & (count < 3)):
        s.m.d.sync += count.eq(count + 1)
    s.prove("small", count <= most)
    return count


@pytest.mark.parametrize(("most", "violated_after"), [(3, None), (2, 4), (1, 3)])
def test_a_counterexample_is_the_shortest(most, violated_after):
    s = Setting()
    counter(s, most)
    solver = Solver(s)
    found = solver.counterexample(8)
    assert (found and found.cycles) == violated_after
    assert solver.holds_by_induction() == (violated_after is None)


def test_what_never_happens_is_told():
    def never(hw, s):
        s.cover("seven", counter(s, 3) == 7)

    assert prove(Case("arbiter", never, 4)).answer == "never happens: seven"


def test_a_property_that_is_violated_is_told_by_name():
    def too_large(hw, s):
        counter(s, 2)

    assert prove(Case("arbiter", too_large, 4)).answer == "violated: ['small']"


def test_an_invariant_is_not_part_of_a_counterexample():
    def wrong_invariant(hw, s):
        s.invariant("never_three", counter(s, 3) != 3)

    assert prove(Case("arbiter", wrong_invariant, 4)).answer == "induction fails"
    assert counterexample(Case("arbiter", wrong_invariant, 4)) is None
