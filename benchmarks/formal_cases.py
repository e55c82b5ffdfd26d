"""What ``python -m benchmarks formal`` proves, of which sizes, and the faults it plants."""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

from . import faults
from .faults import Fault
from .formal_blocks import arbiter, buffer, link
from .formal_deflection import deflection_router
from .formal_matcher import matcher
from .formal_prover import Setting
from .formal_router import router
from .formal_vc import vc_router


@dataclass(frozen=True)
class Case:
    """A component with its sizes: what ``build`` puts into a setting.

    What it covers is reached by cycle ``covered``; induction is over ``steps`` cycles.
    """

    name: str
    build: Callable[[SimpleNamespace, Setting], None]
    covered: int
    steps: int = 1

    @property
    def claim(self) -> str:
        """What is proved."""
        return " ".join((CLAIMS[self.name.split()[0]].__doc__ or "").split())


CLAIMS = {
    "arbiter": arbiter, "matcher": matcher, "buffer": buffer, "link": link, "router": router,
    "vc_router": vc_router, "deflection_router": deflection_router,
}  # fmt: skip


def _arbiter(kind: str, count: int) -> Case:
    return Case(f"arbiter {kind} of {count}",
                lambda hw, s: arbiter(hw, s, count=count, kind=kind), count + 1)  # fmt: skip


def _matcher(kind: str, ports: int, iterations: int = 1, order: str = "round_robin") -> Case:
    return Case(
        f"matcher {kind} of {ports}, iterations {iterations}, {order}",
        lambda hw, s: matcher(
            hw, s, ports=ports, kind=kind, iterations=iterations, arbiter=order
        ), 2 * ports,
    )  # fmt: skip


def _buffer(vcs: int, depth: int) -> Case:
    return Case(f"buffer of {vcs} VC, depth {depth}",
                lambda hw, s: buffer(hw, s, vcs=vcs, depth=depth), depth + 2)  # fmt: skip


def _link(latency: int) -> Case:
    return Case(f"link of latency {latency}",
                lambda hw, s: link(hw, s, latency=latency), latency, latency)  # fmt: skip


def _router(topology: str, node: int, depth: int) -> Case:
    return Case(f"router {node} of {topology}, depth {depth}",
                lambda hw, s: router(hw, s, topology=topology, node=node, depth=depth),
                depth + 3)  # fmt: skip


def _vc_router(params: str, topology: str, node: int) -> Case:
    depth = int(params.split("-")[1][1:])
    return Case(f"vc_router {params}, {node} of {topology}",
                lambda hw, s: vc_router(hw, s, router=params, topology=topology, node=node),
                depth + 5)  # fmt: skip


def _deflection(topology: str, node: int) -> Case:
    return Case(f"deflection_router {node} of {topology}",
                lambda hw, s: deflection_router(hw, s, topology=topology, node=node),
                7)  # fmt: skip


CASES = (
    *(_arbiter(kind, count) for kind in ("round_robin", "matrix", "pairs")
      for count in (1, 2, 3, 4, 5, 8)),
    *(_matcher("wavefront", ports) for ports in (1, 2, 3, 4, 5)),
    *(_matcher("output_first", ports, iterations, order)
      for order in ("round_robin", "matrix")
      for ports, iterations in [(2, 1), (2, 2), (3, 1), (3, 3), (5, 1), (5, 2)]),
    *(_buffer(vcs, depth) for vcs, depth in [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2),
                                             (2, 4)]),
    *(_link(latency) for latency in (1, 2, 5, 6, 8)),
    _router("full:2", 0, 1), _router("full:2", 0, 2),
    _router("line:3", 0, 2), _router("line:3", 1, 1), _router("line:3", 1, 2),
    _router("line:3", 1, 4), _router("full:3", 0, 2),
    _router("switch:3", 3, 1), _router("switch:3", 3, 2),
    _router("ring:3", 1, 1), _router("ring:3", 1, 2), _router("ring:5", 4, 1),
    _router("ring:5", 4, 2), _router("mesh:3x3", 4, 1), _router("mesh:3x3", 4, 2),
    _router("torus:3x3", 4, 1), _router("torus:3x3", 4, 2),
    _vc_router("vc1-d2", "line:3", 1),
    *(_vc_router(f"vc2-d{depth}{stages}", topology, node)
      for topology, node in [("full:2", 0), ("line:3", 1), ("ring:3", 1), ("mesh:2x2", 3)]
      for stages in ("", "-s2", "-s3") for depth in (1, 2)),
    _vc_router("vc4-d1", "full:2", 0), _vc_router("vc2-d1", "switch:3", 3),
    _vc_router("vc2-d2", "mesh:3x2", 1),
    *(_vc_router(f"vc2-d1{allocator}", "line:3", 1) for allocator in
      ("-matrix", "-output_first", "-islip2-matrix", "-wavefront", "-s3-output_first-matrix")),
    _vc_router("vc2-d2-ordered", "mesh:2x2", 3), _vc_router("vc2-d1-o1turn", "mesh:2x2", 3),
    *(_vc_router(f"{params}-cut_through", topology, node) for params, topology, node in [
        ("vc1-d2", "line:3", 1), ("vc2-d4", "full:2", 0), ("vc2-d2-s2", "line:3", 1),
        ("vc2-d2-s3", "line:3", 1)]),
    *(_vc_router(f"{params}-bubble", "ring:5", 1) for params in ("vc1-d4", "vc2-d4-s2")),
    *(_deflection(topology, node) for topology, node in [
        ("line:3", 0), ("line:3", 1), ("ring:3", 1), ("mesh:2x2", 3), ("mesh:3x3", 4),
        ("mesh:3x3", 1), ("torus:3x3", 4)]),
)  # fmt: skip

_LINE, _RING = _router("line:3", 1, 2), _router("ring:5", 4, 2)
_MOVES = "with m.If(self.advance & self.valid{}):\n            m.d.sync += behind"
_UNMOVED = Fault("the pointer isn't moved when a packet ends", "arbiter",
                 _MOVES.format(""), _MOVES.format(" & self.stay"))  # fmt: skip
_VC, _VC2, _VC3 = (_vc_router(f"vc2-d2{stages}", "line:3", 1) for stages in ("", "-s2", "-s3"))
_CUT = _vc_router("vc1-d2-cut_through", "line:3", 1)
_VC_RING = _vc_router("vc2-d1", "ring:3", 1)
_DEFLECTION = _deflection("mesh:3x3", 4)
_KNOWN = {fault.name: fault for fault in faults.FAULTS}
_UNHELD = Fault("a packet doesn't hold its VC", "vc_output",
                "Mux(tail, self.free | self.sent, self.free & ~self.sent)",
                "self.free | self.sent")  # fmt: skip
_BEHIND = Fault("flits behind the head lose their way", "vc_input",
                "way.eq(Mux(flit.head, Cat(found), one_of(here, ways)))",
                "way.eq(Cat(found))")  # fmt: skip
_FREED = Fault("a packet doesn't hold its channel", "router",
               "self.free[vc].eq(flit.tail)", "self.free[vc].eq(1)")  # fmt: skip
_UNPAID = Fault("a flit is sent without a credit", "router",
                "return self.open[vc] & (self.free[vc] | owner.own)",
                "return self.free[vc] | owner.own")  # fmt: skip
_WRONG_VC = Fault("a ring's wrong VC", "route",
                  "vcs = Const(sum(vc << i for", "vcs = Const(sum((1 - vc) << i for")  # fmt: skip
FAULTS = (
    (Fault("two grants", "arbiter", "paths[i].append(side if i >= middle else ~side)",
           "paths[i].append(side if i >= middle else Const(1, 1))"), _arbiter("round_robin", 4)),
    (_UNMOVED, _arbiter("round_robin", 3)), (_UNMOVED, _LINE),
    (Fault("the winner isn't put last", "arbiter", "with m.If(served[j] | served[k]):",
           "with m.If((served[j] | served[k]) & stay):"), _arbiter("matrix", 3)),
    (Fault("a credit is dropped when one is taken", "credits",
           "with m.If(self.take & ~self.give)", "with m.If(self.take)"), _buffer(1, 2)),
    (Fault("one credit too many", "credits", "Signal(range(self.slots + 1), init=self.slots)",
           "Signal(range(self.slots + 2), init=self.slots + 1)"), _LINE),
    (Fault("a flit that comes as the last one goes is lost", "fifo",
           "self.filled[v].eq(more | push)", "self.filled[v].eq(more | (push & ~pop))"),
     _buffer(1, 2)),
    (Fault("the buffer's end doesn't wrap", "fifo",
           "return Mux(pointer == self.depth - 1, 0, following)", "return following"),
     _buffer(1, 3)),
    (Fault("the rows of all VCs are those of the first", "fifo",
           "return Cat(choose(pointers, vc), vc[: ceil_log2(self.vcs)])",
           "return choose(pointers, vc)"), _buffer(2, 2)),
    (Fault("a link drops a credit's cycle", "link",
           '_shifted(m, "credit", self.o.credit, delay)',
           '_shifted(m, "credit", self.o.credit, 0)'), _link(2)),
    (Fault("credits aren't returned", "router",
           "self.channel.credit.eq(self.buffer.pop)", "self.channel.credit.eq(0)"), _LINE),
    (Fault("the tail doesn't release the channel", "router",
           "self.free[vc].eq(flit.tail)", "self.free[vc].eq(0)"), _LINE),
    (_FREED, _LINE), (_FREED, _RING),
    (_UNPAID, _LINE), (_UNPAID, _RING),
    (Fault("a line's wrong turn", "route",
           "return d < x, Const(0, 1)", "return d > x, Const(0, 1)"), _LINE),
    (_WRONG_VC, _RING),
    (Fault("flits behind the head lose their way", "router",
           "way.eq(Mux(flit.head, Cat(found), choose(ways, flit.vc)))", "way.eq(Cat(found))"),
     _LINE),
    (Fault("every queue of an input is popped", "router",
           "self.buffer.pop.eq(Cat(granted & picked for picked in self.picked))",
           "self.buffer.pop.eq(Cat(granted for picked in self.picked))"), _RING),
    (_KNOWN["an output is matched twice"], _matcher("output_first", 3, 3)),
    (_KNOWN["every iteration of iSLIP moves its pointers"], _matcher("output_first", 2, 2)),
    (_KNOWN["the first diagonal is always the same"], _matcher("wavefront", 3)),
    (Fault("an input is matched twice", "matcher",
           "asked[i, o] & now & ~rows[i] & ~columns[o]", "asked[i, o] & now & ~columns[o]"),
     _matcher("wavefront", 3)),
    (_UNHELD, _VC), (_UNHELD, _VC2), (_BEHIND, _VC), (_BEHIND, _VC3),
    (Fault("the tail doesn't give its VC back", "vc_output",
           "Mux(tail, self.free | self.sent, self.free & ~self.sent)",
           "self.free & ~self.sent"), _VC),
    (Fault("a packet keeps its VC behind its tail", "vc_input",
           "holds.eq(~self.buffer.tags[v][-1])", "holds.eq(1)"), _VC),
    (Fault("a flit is sent without a credit", "vc_input", "ready.eq(stays)", "ready.eq(1)"), _VC),
    (Fault("a flit is sent without a credit", "vc_output",
           "self.open = self.room = Cat(", "self.open = Cat("), _VC3),
    (Fault("credits aren't returned", "vc_input",
           "Mux(self.tail, back, 0) if params.whole_packets else back",
           "Mux(self.tail, back, 0)"), _VC),
    (_KNOWN["a VC that a packet takes seems free in the next cycle"], _VC),
    *((_KNOWN[f"every flit of a packet {what}"], _CUT) for what in (
        "gives its room back", "takes room for one")),
    (_KNOWN["a packet enters a ring without a bubble"], _vc_router("vc1-d4-bubble", "ring:5", 1)),
    (_KNOWN["one credit counts as two"], _vc_router("vc1-d4-bubble", "ring:5", 1)),
    (Fault("a VC that a head takes stays free", "vc_output",
           "(self.free | Mux(tail, self.sent, 0)) & ~self.taken",
           "self.free | Mux(tail, self.sent, 0)"), _VC3),
    (_KNOWN["a head that has a VC asks for another"], _VC3),
    (_WRONG_VC, _VC_RING),
    *((_KNOWN[name], _DEFLECTION) for name in (
        "the lower of two young flits decides", "a tile's flit to itself is lost beside another")),
    (Fault("a tile's flit enters a full place", "deflection_router",
           "free.eq(Cat(~flit.full for flit in flits))", "free.eq(-1)"), _DEFLECTION),
    (Fault("an old flit isn't delivered first", "deflection_router",
           "Mux(old.any(), _first(old), _first(here))", "_first(here)"), _DEFLECTION),
    (Fault("an old flit doesn't come first", "deflection_router",
           "old[k] & (~old[i] | lower)", "old[k] & old[i] & lower"), _DEFLECTION),
    (Fault("a flit loses its epoch", "deflection_router",
           "own = Cat(parity, queue.data)", "own = Cat(~parity, queue.data)"), _DEFLECTION),
    (Fault("an order's last is first", "arbiter",
           "earlier.eq(~served[j:k].any())", "earlier.eq(served[j:k].any())"),
     _arbiter("pairs", 3)),
)  # fmt: skip
"""A fault, and the case whose properties it has to violate."""
