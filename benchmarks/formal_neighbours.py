"""Proofs of routers: what a router between well-behaved neighbours has to do, of any kind."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Mux, Signal, Value
from amaranth.utils import ceil_log2

from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.arch.ways import Way, arrivals
from tokenpath.hw.flit import destination

from .formal_blocks import at_most_one, implies, total
from .formal_lanes import Channel, Lane
from .formal_prover import Setting


class Held:
    """An output channel, by the flits on its link: ``busy`` from a packet's head to its tail, which
    came from the lane ``holder``, a bit each of the inputs. ``sent``: one goes now, by ``sources``;
    ``busy_after`` and ``holder_after`` are those of the next cycle.
    """

    def __init__(
        self, s: Setting, name: str, *, flit: Any, sent: Value, sources: Sequence[Value]
    ) -> None:
        self.sent, self.busy = sent, Signal(name=f"busy_{name}")
        self.holder = Signal(len(sources), name=f"holder_{name}")
        self.busy_after = s.named(f"busy_after_{name}", Mux(sent, ~flit.tail, self.busy))
        after = Mux(sent, Cat(sources), self.holder)
        self.holder_after = s.named(f"holder_after_{name}", after)
        s.m.d.sync += [self.busy.eq(self.busy_after), self.holder.eq(self.holder_after)]
        s.prove(f"not_interleaved_{name}", implies(sent, flit.head == ~self.busy),
                implies(sent & self.busy, Cat(sources) == self.holder))  # fmt: skip
        s.invariant(f"one_holder_{name}", implies(self.busy, total(list(self.holder)) == 1))


class RouterProof:
    """A router, ``dut``, of ``params`` between neighbours that keep to the topology's routes."""

    lane = Lane

    def __init__(
        self, s: Setting, dut: Any, params: RouterParams, topology: Topology, node: int
    ) -> None:  # fmt: skip
        self.s, self.dut, self.ports, self.params = s, dut, dut.ports, params
        self.depth, self.late = params.depth, params.extra_cycles
        self.slots = params.slots(params.depth, Lane.LONGEST_PACKET)
        self.packets = self.slots if params.whole_packets else 0
        self._late: dict[str, Signal] = {}
        self._arrivals = arrivals(params, topology, node)
        s.m.submodules.dut = dut
        self.sizes = [dim.size for dim in topology.dims]
        if node < topology.tiles:
            s.m.d.comb += dut.position.eq(destination(self.sizes, node))
        self.lanes = [lane for port in self.ports.inputs for lane in self.inputs(port)]
        for port in self.ports.outputs:
            self.output(port)
        self._conserved()

    def ways(self, channel: Channel) -> list[Way]:
        """The bits of the ways of an input channel."""
        raise NotImplementedError

    def output(self, port: int) -> None:
        """Prove what is said of output ``port``."""
        raise NotImplementedError

    def turning(self, port: int) -> list[Lane]:
        """The lanes from which a packet may turn to output ``port``."""
        return [lane for lane in self.lanes if port in self.ports.turns(lane.channel[0])]

    def later(self, name: str, value: Value) -> Value:
        """What was ``value`` as the flit on the link left its queue."""
        if not self.late:
            return value
        if name not in self._late:
            self._late[name] = signal = Signal(len(value), name=f"late_{name}")
            self.s.m.d.sync += signal.eq(value)
        return self._late[name]

    def inputs(self, port: int) -> list[Lane]:
        """The lanes of input ``port``."""
        s, lanes, link = self.s, self.ports.lanes(port), self.dut.input(port)
        s.drive(link.valid, *(link.flit.data[0], link.flit.head, link.flit.tail, link.flit.vc))
        s.assume(link.flit.vc < lanes)
        pops = s.peek(f"dut.buffer{port}.pop", lanes)
        width = len(self.ways((port, 0))) + self.lane.IN_TAGS - 1
        tags = s.peek(f"dut.buffer{port}.tags", lanes * width)
        s.prove(f"one_of_its_queues_{port}", at_most_one(list(pops)))
        return [
            self.lane(
                s, (port, v), link=link, depth=self.depth, packets=self.packets, vcs=lanes,
                ways=self.ways((port, v)), routes=self._routes((port, v)), pop=pops[v],
                tag=tags.word_select(v, width), bits=len(self.dut.position),
            )
            for v in range(lanes)
        ]  # fmt: skip

    def _routes(self, channel: Channel) -> dict[int, int]:
        ways = list(enumerate(self.ways(channel)))
        return {
            destination(self.sizes, to): sum(1 << k for k, way in ways if way in there)
            for to, there in self._arrivals.get(channel, {}).items()
        }

    def carries(
        self, port: int, lanes: Sequence[Lane], sent: Value, vc: int | None = None
    ) -> list[Value]:
        """Prove that what is ``sent`` on an output, or its channel ``vc``, is what left a lane for
        it; for each lane whether it did."""
        s, flit = self.s, self.dut.output(port).flit
        name = f"{port}" if vc is None else f"{port}_{vc}"
        sources = []
        for lane in lanes:
            pair = f"{lane.name}_{name}"
            leaves = lane.queue.pop & lane.wants(port, vc)
            sources.append(s.named(f"from_{pair}", self.later(pair, leaves)))
        s.prove(f"one_flit_for_one_{name}", sent == total(sources))
        for lane, here in zip(lanes, sources, strict=True):
            pair, marked = f"{lane.name}_{name}", lane.tagged.entry
            shown = [(flit.data[0], "data"), (flit.tail, "tail"), (flit.head, "head")]
            gone = {part: self.later(f"{part}_{lane.name}", lane.first(part)) for _, part in shown}
            s.prove(f"unchanged_{pair}", *(implies(here, value == gone[part])
                                           for value, part in shown))  # fmt: skip
            to_here = lane.along(lane.part(marked, "way"), port, vc)
            goes = self.later(f"goes_{pair}", lane.tagged.leaves & to_here)
            s.prove(f"by_its_route_{pair}", implies(goes, sent), *(
                implies(goes, value == lane.part(marked, part)) for value, part in shown
            ))  # fmt: skip
        return sources

    def credits(self, port: int, w: int, held: Held) -> Value:
        """A neighbour that gives a credit for a flit it has, or for a whole packet, and what the
        router knows of it; how many credits there are for what would leave its queue now."""
        if not port:
            return Const(self.slots)
        s, name, most, tail = self.s, f"{port}_{w}", self.slots, self.dut.output(port).flit.tail
        there = Signal(range(most + 2), name=f"there_{name}")
        back = s.free(f"back_{name}")
        s.m.d.comb += self.dut.output(port).credit[w].eq(back)
        s.assume(implies(back, there != 0))
        s.m.d.sync += there.eq(there + (held.sent & (tail | (not self.packets))) - back)
        owed, takes, after = there, held.sent, there + held.sent
        if self.packets:
            takes = held.sent & ~held.busy
            owed, after = there + held.busy, there + (held.busy | held.sent)
        s.prove(f"sends_with_credit_{name}", implies(takes, owed < most))
        owed = after if self.late else owed
        count = s.peek(f"dut.credits{name}.count", most.bit_length())
        s.prove(f"credits_{name}", count + owed == most)
        s.invariant(f"any_credit_{name}", s.peek(f"dut.credits{name}.any") == (count != 0))
        return s.named(f"left_{name}", (most - owed)[: len(there)])

    def possible(self, port: int, w: int, room: Value) -> None:
        """Cover: two queues want this channel; it has no credit."""
        here = [lane for lane in self.lanes if lane.leads(port, w)]
        if len(here) > 1:
            self.s.cover(f"two_want_{port}_{w}", total([
                lane.queue.there(0) & lane.wants(port, w) for lane in here]) > 1)  # fmt: skip
        if port and here:
            self.s.cover(f"no_credit_{port}_{w}", ~room)

    def _conserved(self) -> None:
        """Flits in minus flits out are those in the queues, or on their way to a link."""
        s, most = self.s, (self.depth + self.late) * len(self.lanes)
        flits_in = [self.dut.input(port).valid for port in self.ports.inputs]
        flits_out = [self.dut.output(port).valid for port in self.ports.outputs]
        inside = Signal(ceil_log2(most + len(flits_in) + 1) + 1)
        s.m.d.sync += inside.eq(inside + total(flits_in) - total(flits_out))
        fill = total([lane.queue.fill for lane in self.lanes])
        s.prove("conserved", inside == fill + (total(flits_out) if self.late else 0))
        popped = [self.later(f"pop_{lane.name}", lane.queue.pop) for lane in self.lanes]
        s.prove("one_out_for_one_taken", total(flits_out) == total(popped))
