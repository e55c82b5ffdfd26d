"""What is proved of a router between well-behaved neighbours."""

from dataclasses import dataclass
from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Mux, Signal, Value
from amaranth.utils import ceil_log2

from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.flit import destination

from .formal_blocks import Queue, Tagged, at_most_one, implies, storage, total
from .formal_prover import Setting

WORD = 32  # flits of one word: a router looks at nothing else of a flit
Channel = tuple[int, int]  # a port and a virtual channel of its link


def arrivals(topology: Topology, node: int) -> dict[Channel, dict[int, Channel]]:
    """For each input channel of ``node``: destinations that arrive there, and where each goes."""
    found: dict[Channel, dict[int, Channel]] = {}
    for source in range(topology.tiles):
        for to in range(topology.tiles):
            at, port, vc = source, 0, 0
            while True:
                out, out_vc = topology.next_hop(at, to)
                if at == node:
                    found.setdefault((port, vc), {})[to] = (out, out_vc)
                if at == to:
                    break
                there = topology.neighbour(at, out)
                assert there is not None
                (at, port), vc = there, out_vc
    return found


@dataclass
class _Lane:
    """An input queue: what enters, what is in it, and what leaves."""

    channel: Channel
    name: str
    ways: list[Channel]  # bits of a way
    queue: Queue
    tagged: Tagged
    entering: Signal  # a packet's tail is still to come in
    entering_way: Signal
    leaving: Signal  # a packet's tail is still to go out
    leaving_way: Signal

    def part(self, entry: Value, part: str) -> Value:
        """data, tail, way or head of an entry."""
        end = WORD + 1 + len(self.ways)
        places = {"data": slice(0, WORD), "tail": slice(WORD, WORD + 1),
                  "way": slice(WORD + 1, end), "head": slice(end, end + 1)}  # fmt: skip
        return entry[places[part]]

    def first(self, part: str) -> Value:
        """The same of the first entry."""
        return self.part(self.queue.entries[0], part)

    def takes(self, channel: Channel) -> Value:
        """Its first flit is for that output channel; whether there is one or not."""
        return self.first("way")[self.ways.index(channel)]


class _Proof:
    def __init__(
        self, hw: SimpleNamespace, s: Setting, topology: Topology, node: int, depth: int
    ) -> None:  # fmt: skip
        self.s, self.depth, self.node = s, depth, node
        hub = None if node < topology.tiles else topology.switch_of(node)[0]
        ports = hw.Ports(dims=topology.dims, hub=hub)
        size = ports.inputs[-1] + 1
        s.m.submodules.dut = self.dut = hw.Router(
            dims=topology.dims, flit_words=1, depths=[depth] * size, cycles=[1] * size, hub=hub
        )
        self.ports, self.local = ports, hub is None
        self.sizes = [dim.size for dim in topology.dims]
        if self.local:
            s.m.d.comb += self.dut.position.eq(destination(self.sizes, node))
        self.bits = len(self.dut.position)
        self.arrivals = arrivals(topology, node)
        self.lanes = [lane for port in ports.inputs for lane in self._input(port)]
        self.flits_in = [self.dut.input(port).valid for port in ports.inputs]
        self.flits_out = [self.dut.output(port).valid for port in ports.outputs]
        for port in ports.outputs:
            self._output(port)
        self._conserved()

    def _input(self, port: int) -> list[_Lane]:
        """A neighbour that keeps to its credits and doesn't mix packets, and the queues."""
        s, lanes = self.s, self.ports.lanes(port)
        link = self.dut.input(port)
        flit = link.flit
        s.drive(link.valid, flit.data[0], flit.head, flit.tail, flit.vc)
        s.assume(flit.vc < lanes)
        pops = s.peek(f"dut.buffer{port}.pop", lanes)
        ways = [
            (turn, vc) for turn in self.ports.turns(port) for vc in range(self.ports.lanes(turn))
        ]
        tags = s.peek(f"dut.buffer{port}.tags", lanes * len(ways))
        s.prove(f"one_of_its_queues_{port}", at_most_one(list(pops)))
        made = []
        for v in range(lanes):
            push = s.named(f"push_{port}_{v}", link.valid & (flit.vc == v))
            tag = tags[v * len(ways) : (v + 1) * len(ways)]
            made.append(self._lane((port, v), ways, push, pops[v], tag))
        return made

    def _lane(
        self, channel: Channel, ways: list[Channel], push: Value, pop: Value, tag: Value
    ) -> _Lane:  # fmt: skip
        s, (port, v) = self.s, channel
        name, link = f"{port}_{v}", self.dut.input(port)
        flit = link.flit
        entering = Signal(name=f"entering_{name}")
        kept = Signal(len(ways), name=f"entering_way_{name}")
        slots = Signal(range(self.depth + 2), name=f"slots_{name}", init=self.depth)
        s.m.d.sync += slots.eq(slots - push + link.credit[v])
        routes = {
            destination(self.sizes, to): 1 << ways.index(out)
            for to, out in self.arrivals.get(channel, {}).items()
        }
        there = flit.data[0][: self.bits]
        s.assume(implies(push, slots != 0))
        s.assume(implies(push, flit.head == ~entering))
        s.assume(implies(push & flit.head, Cat(there == to for to in routes).any()))
        routed: Value = Const(0, len(ways))
        for to, bit in routes.items():
            routed = Mux(there == to, bit, routed)
        way = s.named(f"spec_way_{name}", Mux(flit.head, routed, kept)[: len(ways)])
        with s.m.If(push):
            s.m.d.sync += [entering.eq(~flit.tail), kept.eq(way)]
        entry = s.named(f"new_{name}", Cat(flit.data[0], flit.tail, way, flit.head))
        queue = Queue(s, name, depth=self.depth, push=push, pop=pop, entry=entry)
        tagged = Tagged(s, name, queue, entry)
        leaving = Signal(name=f"leaving_{name}")
        leaving_way = Signal(len(ways), name=f"leaving_way_{name}")
        lane = _Lane(channel, name, ways, queue, tagged, entering, kept, leaving, leaving_way)
        with s.m.If(pop):
            s.m.d.sync += [leaving.eq(~lane.first("tail")), leaving_way.eq(lane.first("way"))]
        s.prove(f"takes_what_is_there_{name}", implies(pop, queue.fill != 0))
        s.prove(f"credit_for_each_{name}", link.credit[v] == pop, slots + queue.fill == self.depth)
        if routes:
            s.cover(f"full_and_leaves_{name}", tagged.leaves & (queue.fill == self.depth))
        storage(s, name, f"dut.buffer{port}", queue, v=v, vcs=self.ports.lanes(port), tags=tag,
                data=slice(0, WORD + 1), tag=slice(WORD + 1, WORD + 1 + len(ways)))  # fmt: skip
        self._framing(lane, set(routes.values()))
        return lane

    def _framing(self, lane: _Lane, legal: set[int]) -> None:
        """Invariants: packets are whole, on one way each, from the queue's entrance to its exit."""
        s, queue, entries = self.s, lane.queue, lane.queue.entries

        def known(way: Value) -> Value:
            return Cat(way == one for one in sorted(legal)).any()

        for i, one in enumerate(entries):
            last = queue.fill == i + 1
            tail, way = lane.part(one, "tail"), lane.part(one, "way")
            s.invariant(f"way{i}_{lane.name}", implies(queue.there(i), known(way)))
            s.invariant(f"end{i}_{lane.name}", implies(last, lane.entering == ~tail),
                        implies(last & lane.entering, lane.entering_way == way))  # fmt: skip
            if i + 1 < len(entries):
                head, following = (lane.part(entries[i + 1], part) for part in ("head", "way"))
                more = queue.there(i + 1)
                s.invariant(f"chain{i}_{lane.name}", implies(more, head == tail),
                            implies(more & ~tail, following == way))  # fmt: skip
        s.invariant(
            f"exit_{lane.name}",
            implies(queue.there(0), lane.first("head") == ~lane.leaving),
            implies(queue.there(0) & lane.leaving, lane.first("way") == lane.leaving_way),
            implies(~queue.there(0), lane.entering == lane.leaving),
            implies(~queue.there(0) & lane.leaving, lane.entering_way == lane.leaving_way),
            implies(lane.leaving, known(lane.leaving_way)),
        )
        port, v = lane.channel
        kept = s.peek(f"dut.way{port}_{v}", len(lane.ways))
        s.invariant(f"kept_way_{lane.name}", implies(lane.entering, kept == lane.entering_way))

    def _output(self, port: int) -> None:
        s, link, count = self.s, self.dut.output(port), self.ports.lanes(port)
        inputs = [lane for lane in self.lanes if (port, 0) in lane.ways]
        s.prove(f"vc_{port}", implies(link.valid, link.flit.vc < count))
        pointer = self._pointer(port, inputs)
        for w in range(count):
            name, flit = f"{port}_{w}", link.flit
            sent = s.named(f"sent_{name}", link.valid & (flit.vc == w))
            sources = [
                s.named(f"from_{lane.name}_to_{name}", lane.queue.pop & lane.takes((port, w)))
                for lane in inputs
            ]
            busy, holder = Signal(name=f"busy_{name}"), Signal(len(inputs), name=f"holder_{name}")
            with s.m.If(sent):
                s.m.d.sync += [busy.eq(~flit.tail), holder.eq(Cat(sources))]
            s.prove(f"one_flit_for_one_{name}", sent == total(sources))
            for lane, leaves in zip(inputs, sources, strict=True):
                shown = [(flit.data[0], "data"), (flit.tail, "tail"), (flit.head, "head")]
                s.prove(f"unchanged_{lane.name}_{name}", *(
                    implies(leaves, value == lane.first(part)) for value, part in shown
                ))  # fmt: skip
                marked = lane.tagged.entry
                goes = lane.tagged.leaves & lane.part(marked, "way")[lane.ways.index((port, w))]
                s.prove(f"by_its_route_{lane.name}_{name}", implies(goes, sent), *(
                    implies(goes, value == lane.part(marked, part)) for value, part in shown
                ))  # fmt: skip
            s.prove(f"not_interleaved_{name}", implies(sent, flit.head == ~busy),
                    implies(sent & busy, Cat(sources) == holder))  # fmt: skip
            here = [lane for lane in inputs
                    if (port, w) in self.arrivals.get(lane.channel, {}).values()]  # fmt: skip
            if len(here) > 1:
                s.cover(f"two_want_{name}", total([
                    lane.queue.there(0) & lane.takes((port, w)) for lane in here]) > 1)  # fmt: skip
            room = self._credits(port, w, sent)
            self._held(inputs, (port, w), busy, holder)
            if count == 1 and all(self.ports.lanes(lane.channel[0]) == 1 for lane in inputs):
                self._served(port, inputs, room, busy, holder, pointer)
            if count == 1:
                self._stays_first(port, inputs, busy, holder, pointer)

    def _credits(self, port: int, w: int, sent: Value) -> Value:
        """A neighbour that gives a credit for a flit it has, and what the router knows of it."""
        if not port:
            return Const(1, 1)
        s, name = self.s, f"{port}_{w}"
        link = self.dut.output(port)
        there = Signal(range(self.depth + 2), name=f"there_{name}")
        back = s.free(f"back_{name}")
        s.m.d.comb += link.credit[w].eq(back)
        s.assume(implies(back, there != 0))
        s.m.d.sync += there.eq(there + sent - back)
        count = s.peek(f"dut.credits{name}.count", self.depth.bit_length())
        s.prove(f"sends_with_credit_{name}", implies(sent, there < self.depth))
        s.prove(f"credits_{name}", count + there == self.depth)
        s.invariant(f"any_credit_{name}", s.peek(f"dut.credits{name}.any") == (count != 0))
        if any((port, w) in ways.values() for ways in self.arrivals.values()):
            s.cover(f"no_credit_{name}", there == self.depth)
        return there < self.depth

    def _held(
        self, inputs: list[_Lane], channel: Channel, busy: Value, holder: Value
    ) -> None:  # fmt: skip
        """Invariants: who holds an output channel, by packets and by the router's registers."""
        s, name = self.s, f"{channel[0]}_{channel[1]}"
        s.invariant(f"free_{name}", s.peek(f"dut.free{name}") == ~busy)
        s.invariant(f"one_holder_{name}", implies(busy, total(list(holder)) == 1))
        for i, lane in enumerate(inputs):
            on_the_way = lane.leaving & lane.leaving_way[lane.ways.index(channel)]
            own = s.peek(f"dut.owner{name}_{lane.name}")
            s.invariant(f"holds_{lane.name}_{name}", (busy & holder[i]) == on_the_way,
                        implies(busy, own == holder[i]))  # fmt: skip

    def _pointer(self, port: int, inputs: list[_Lane]) -> list[Value]:
        """Bit i: the output's arbiter has its i-th input not before its pointer."""
        count = len({lane.channel[0] for lane in inputs})
        behind = list(self.s.peek(f"dut.arbiter{port}.behind", count - 1)) if count > 1 else []
        behind.append(Const(1, 1))
        self.s.invariant(f"pointer_{port}", *(
            implies(behind[i], behind[i + 1]) for i in range(count - 1)
        ))  # fmt: skip
        return behind

    def _stays_first(
        self, port: int, inputs: list[_Lane], busy: Value, holder: Value, behind: list[Value]
    ) -> None:
        """Invariant: the input that holds the output is its arbiter's first."""
        numbers = sorted({lane.channel[0] for lane in inputs})
        self.s.invariant(f"who_stays_is_first_{port}", *(
            implies(busy & holder[k], behind[i] & ~(behind[i - 1] if i else Const(0, 1)))
            for k, lane in enumerate(inputs) for i in [numbers.index(lane.channel[0])]
        ))  # fmt: skip

    def _served(
        self, port: int, inputs: list[_Lane], room: Value, busy: Value, holder: Value,
        behind: list[Value],
    ) -> None:  # fmt: skip
        """With one VC: no idle output, and a packet waits for one of each other input at most."""
        s, count = self.s, len(inputs)
        link = self.dut.output(port)
        wants = [s.named(f"wants{port}_{lane.name}", lane.queue.there(0) & lane.takes((port, 0)))
                 for lane in inputs]  # fmt: skip
        ready = [want & room & (~busy | holder[i]) for i, want in enumerate(wants)]
        s.prove(f"not_idle_{port}", link.valid == Cat(ready).any())
        for i, lane in enumerate(inputs):
            waited = Signal(range(count + 1), name=f"waited{port}_{lane.name}")
            served = lane.queue.pop | ~wants[i]
            with s.m.If(served):
                s.m.d.sync += waited.eq(0)
            with s.m.Elif(link.valid & link.flit.tail & (waited < count)):
                s.m.d.sync += waited.eq(waited + 1)
            before = [
                behind[j] & ~behind[i] if j > i else behind[j] == behind[i]
                for j in range(count) if j != i
            ]  # fmt: skip
            s.prove(f"fair_{port}_{lane.name}", waited < count)
            s.invariant(f"waited_or_ahead_{port}_{lane.name}",
                        implies(waited != 0, wants[i]), waited + total(before) < count)  # fmt: skip

    def _conserved(self) -> None:
        """Flits in minus flits out are those in the queues; what can move, moves."""
        s, most = self.s, self.depth * len(self.lanes)
        inside = Signal(ceil_log2(most + len(self.flits_in) + 1) + 1)
        s.m.d.sync += inside.eq(inside + total(self.flits_in) - total(self.flits_out))
        fill = total([lane.queue.fill for lane in self.lanes])
        s.prove("conserved", inside == fill)
        s.prove("one_out_for_one_taken", total(self.flits_out) == total(
            [lane.queue.pop for lane in self.lanes]))  # fmt: skip


def router(hw: SimpleNamespace, s: Setting, *, topology: str, node: int, depth: int) -> None:
    """No flit is lost, made up or changed; each leaves once, on its packet's route; packets aren't
    mixed within a VC; credits neither over- nor underflow; with one VC a packet waits for at most
    one of each other input, and an output doesn't idle."""
    _Proof(hw, s, Topology.parse(topology), node, depth)
