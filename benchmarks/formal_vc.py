"""What is proved of a virtual-channel router between well-behaved neighbours."""

from dataclasses import dataclass
from types import SimpleNamespace

from amaranth.hdl import Cat, Mux, Signal, Value

from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.arch.ways import Way, set_bits

from .formal_blocks import implies, ranks, total
from .formal_lanes import Channel, Lane
from .formal_matcher import first_diagonal
from .formal_neighbours import Held, RouterProof
from .formal_prover import Setting


class _VcLane(Lane):
    """A queue of the router; its buffer keeps the tail with the way. ``vc``: that which its first
    packet has at its output, a bit, 0 if it has none; ``now``: the way of that packet.
    """

    FIELDS = ("data", "way", "tail", "head")
    IN_ROWS, IN_TAGS = 1, 2
    vc: Value

    @property
    def present(self) -> Value:
        """It has a first packet."""
        return self.leaving | self.queue.there(0)

    @property
    def now(self) -> Value:
        return Mux(self.leaving, self.leaving_way, self.first("way"))


@dataclass
class _Channel:
    """An output channel: whether it is ``taken`` by a packet; the credits that are ``left``."""

    taken: Value
    left: Value


class _Proof(RouterProof):
    """A way has a bit for each class of VCs of each output that its input may turn to."""

    lane = _VcLane

    def __init__(
        self, hw: SimpleNamespace, s: Setting, params: RouterParams, topology: Topology, node: int
    ) -> None:  # fmt: skip
        size, depth = topology.ports(node), params.depth
        dut = hw.VcRouter(
            dims=topology.dims, flit_words=1, depths=[depth] * size, cycles=[1] * size,
            slots=[params.slots(depth, Lane.LONGEST_PACKET)] * size, params=params,
            hub=None if node < topology.tiles else topology.switch_of(node)[0],
        )  # fmt: skip
        self._channels: dict[Channel, _Channel] = {}
        super().__init__(s, dut, params, topology, node)
        for lane in self.lanes:
            self._has_its_vc(lane)
        self._moves()

    def ways(self, channel: Channel) -> list[Way]:
        found = []
        for turn in self.ports.turns(channel[0]):
            dim = self.ports.dim_of(turn)
            shape = None if dim is None else self.ports.dims[dim]
            for dateline in range(self.ports.datelines(turn)):
                found.append((turn, self.params.allowed(shape, dateline, channel[1])))
            if self._bubbles(turn) and dim == self.ports.dim_of(channel[0]):
                found[-1] = turn, 1 << channel[1]
        return found

    def _bubbles(self, port: int) -> bool:
        """Whether it is a ring's, which a packet enters only where room for another is left."""
        dim = self.ports.dim_of(port)
        return dim is not None and self.ports.dims[dim].is_ring and not self.params.dateline

    def _needs(self, lane: Lane, port: int) -> int:
        """The credits without which no head goes from a lane to an output."""
        same = self.ports.dim_of(lane.channel[0]) == self.ports.dim_of(port)
        return 2 if self._bubbles(port) and not same else 1

    def inputs(self, port: int) -> list[Lane]:
        lanes = super().inputs(port)
        for lane in lanes:
            lane.vc = self.s.peek(f"dut.held{lane.name}", self.params.vcs)
        return lanes

    def output(self, port: int) -> None:
        s, link, lanes = self.s, self.dut.output(port), self.turning(port)
        s.prove(f"vc_{port}", implies(link.valid, link.flit.vc < self.params.vcs))
        sources = self.carries(port, lanes, link.valid)
        gone = [self.later(f"way_{lane.name}", lane.first("way")) for lane in lanes]
        free = s.peek(f"dut.free{port}", self.params.vcs)
        for w in range(self.params.vcs):
            name, here = f"{port}_{w}", link.flit.vc == w
            sent = s.named(f"sent_{name}", link.valid & here)
            sent_by = [source & here for source in sources]
            s.prove(f"on_its_vcs_{name}", *(
                implies(source, lane.along(way, port, w))
                for lane, way, source in zip(lanes, gone, sent_by, strict=True)
            ))  # fmt: skip
            held = Held(s, name, flit=link.flit, sent=sent, sources=sent_by)
            left = self.credits(port, w, held)
            s.prove(f"heads_have_credits_{name}", *(
                implies(source & link.flit.head, left + self.late >= self._needs(lane, port))
                for lane, source in zip(lanes, sent_by, strict=True)
            ))  # fmt: skip
            if port and self._bubbles(port):
                twice = s.peek(f"dut.credits{name}.twice")
                s.invariant(f"two_credits_{name}", twice == (left > 1))
            taken = self._taken(port, w, held, left)
            s.invariant(f"free_{name}", free[w] == ~taken)
            self._channels[port, w] = _Channel(taken, left)
            self.possible(port, w, left != 0)
        self._foreseen(port)

    def _taken(self, port: int, w: int, held: Held, left: Value) -> Value:
        """Invariants: an output channel is taken by at most one packet, and busy with its flits."""
        s, claims = self.s, []
        by = held.holder & held.busy.replicate(len(held.holder))
        if self.late:  # the flit on the link has left already
            by = held.holder_after & held.busy_after.replicate(len(by))
        for i, lane in enumerate(self.turning(port)):
            pair, to_here = f"{lane.name}_{port}_{w}", lane.along(lane.now, port)
            claims.append(s.named(f"claims_{pair}", lane.present & lane.vc[w] & to_here))
            s.invariant(
                f"holds_{pair}",
                by[i] == (claims[-1] & lane.leaving),
                implies(claims[-1], lane.along(lane.now, port, w)),
            )
            if self.packets:  # what a head took its VC for is still there
                new = claims[-1] & ~lane.leaving
                s.invariant(f"room_for_{pair}", implies(new, left >= self._needs(lane, port)))
        s.invariant(f"one_claims_{port}_{w}", total(claims) <= 1)
        return s.named(f"taken_{port}_{w}", Cat(claims).any())

    def _able(self, port: int, w: int, needs: int = 1) -> Value:
        """Whether a head that needs so many credits could take the channel."""
        channel = self._channels[port, w]
        return ~channel.taken & (channel.left >= needs)

    def _foreseen(self, port: int) -> None:
        """Invariants: what is known a cycle ahead of an output's VCs."""
        if not self.params.knows_ahead:
            return
        masks = {vcs for lane in self.lanes for turn, vcs in lane.ways if turn == port}
        for i, vcs in enumerate(sorted(masks)):
            could = self.s.peek(f"dut.could{port}_{i}")
            able = Cat(self._able(port, w) for w in set_bits(vcs)).any()
            self.s.invariant(f"foreseen_{port}_{i}", could == able)

    def _has_its_vc(self, lane: Lane) -> None:
        """Invariants: a packet has a VC from the cycle after its head gets one to its tail."""
        s, has = self.s, lane.vc.any()
        s.invariant(f"one_vc_{lane.name}", total(list(lane.vc)) <= 1,
                    implies(has, lane.present), implies(lane.leaving, has))  # fmt: skip
        if self.params.stages == 3:
            s.invariant(f"new_{lane.name}", s.peek(f"dut.new{lane.name}") == (has & ~lane.leaving))
        else:
            s.invariant(f"from_its_head_{lane.name}", has == lane.leaving)
        if self.params.knows_ahead:
            self._ready(lane)

    def _ready(self, lane: Lane) -> None:
        """Invariants: what is known a cycle ahead of a packet that has a VC."""
        s, has = self.s, lane.vc.any()
        way = s.peek(f"dut.held_way{lane.name}", len(lane.ways))
        can = [
            lane.along(way, port, w) & lane.vc[w] & (channel.left != 0 if port else 1)
            for (port, w), channel in self._channels.items()
            if port in self.ports.turns(lane.channel[0])
        ]
        s.invariant(f"holds_its_vc_{lane.name}", s.peek(f"dut.holds{lane.name}") == has)
        s.invariant(f"held_way_{lane.name}", implies(has, way == lane.leaving_way))
        ready = s.peek(f"dut.ready{lane.name}")
        s.invariant(f"ready_{lane.name}", implies(has, ready == Cat(can).any()))

    def _moves(self) -> None:
        """If any flit can leave, one does; with 3 stages, if a head can take a VC, one does."""
        s = self.s
        self._orders()
        heads, others, given, whole = [], [], [], bool(self.packets)
        for lane in self.lanes:
            head = lane.queue.there(0) & ~lane.vc.any()
            heads += [
                head & lane.wants(port, w) & self._able(port, w, self._needs(lane, port))
                for port, w in self._channels
            ]
            others += [
                lane.queue.there(0) & lane.wants(port) & lane.vc[w] & ((channel.left != 0) | whole)
                for (port, w), channel in self._channels.items()
            ]
            before = Signal(name=f"had_vc_{lane.name}")
            s.m.d.sync += before.eq(lane.vc.any() & ~lane.leaving)
            given.append(lane.vc.any() & ~lane.leaving & ~before)
        left = Cat(lane.queue.pop for lane in self.lanes).any()
        if self.params.stages == 3:
            could = Signal()
            s.m.d.sync += could.eq(Cat(heads).any())
            s.prove("a_vc_is_taken", implies(could, Cat(given).any()))
            heads = []
        s.prove("what_can_move_moves", implies(Cat(heads, others).any(), left))

    def _orders(self) -> None:
        """Invariants: the arbiters' registers are orders."""
        ports, kind = self.ports, self.params.allocator
        vcs = dict.fromkeys(ports.inputs, self.params.vcs)
        turns = {port: len(ports.turns(port)) for port in ports.inputs}
        sources = {
            port: sum(port in ports.turns(i) for i in ports.inputs) for port in ports.outputs
        }
        found = {"pick{}.": vcs}
        if self.params.stages == 3:
            found |= {"head_pick{}.": vcs, "giver{}.": sources}
        if kind == "input_first":
            found["arbiter{}."] = sources
        if kind == "output_first":
            found |= {"matcher.input{}_": turns, "matcher.output{}_": sources}
        if kind == "wavefront":
            first_diagonal(self.s, "dut.matcher.", ports.inputs[-1] + 1)
        for name, counts in found.items():
            for port, count in counts.items():
                ranks(self.s, f"dut.{name.format(port)}", count)


def vc_router(hw: SimpleNamespace, s: Setting, *, router: str, topology: str, node: int) -> None:
    """No flit is lost, made up or changed; each leaves once, on its packet's route and on a VC that
    it allows; packets aren't mixed within a VC; credits neither over- nor underflow; a packet with
    bubbles enters a ring only where room for another is left; if any flit can leave, one does."""
    _Proof(hw, s, RouterParams.parse(router), Topology.parse(topology), node)
