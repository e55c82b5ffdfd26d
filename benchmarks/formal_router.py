"""What is proved of a wormhole router between well-behaved neighbours."""

from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Signal, Value

from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.arch.ways import Way

from .formal_blocks import implies, pointer, total
from .formal_lanes import Channel, Lane
from .formal_neighbours import Held, RouterProof
from .formal_prover import Setting


class _Proof(RouterProof):
    """A way has a bit for each output channel."""

    def __init__(
        self, hw: SimpleNamespace, s: Setting, topology: Topology, node: int, depth: int
    ) -> None:  # fmt: skip
        size = topology.ports(node)
        dut = hw.Router(
            dims=topology.dims, flit_words=1, depths=[depth] * size, cycles=[1] * size,
            hub=None if node < topology.tiles else topology.switch_of(node)[0],
        )  # fmt: skip
        super().__init__(s, dut, RouterParams(depth=depth), topology, node)

    def ways(self, channel: Channel) -> list[Way]:
        return [(turn, 1 << vc) for turn in self.ports.turns(channel[0])
                for vc in range(self.ports.lanes(turn))]  # fmt: skip

    def output(self, port: int) -> None:
        s, link, count = self.s, self.dut.output(port), self.ports.lanes(port)
        inputs = self.turning(port)
        s.prove(f"vc_{port}", implies(link.valid, link.flit.vc < count))
        places = len({lane.channel[0] for lane in inputs})
        behind = pointer(s, f"dut.arbiter{port}.behind", places - 1)
        for w in range(count):
            name = f"{port}_{w}"
            sent = s.named(f"sent_{name}", link.valid & (link.flit.vc == w))
            sources = self.carries(port, inputs, sent, w)
            held = Held(s, name, flit=link.flit, sent=sent, sources=sources)
            room = self.credits(port, w, held) != 0
            self.possible(port, w, room)
            self._owned(inputs, (port, w), held)
            if count == 1 and all(self.ports.lanes(lane.channel[0]) == 1 for lane in inputs):
                self._served(port, inputs, room, held, behind)
            if count == 1:
                self._stays_first(port, inputs, held, behind)

    def _owned(self, inputs: list[Lane], channel: Channel, held: Held) -> None:
        """Invariants: who holds an output channel, by packets and by the router's registers."""
        s, name = self.s, f"{channel[0]}_{channel[1]}"
        s.invariant(f"free_{name}", s.peek(f"dut.free{name}") == ~held.busy)
        for i, lane in enumerate(inputs):
            on_the_way = lane.leaving & lane.along(lane.leaving_way, *channel)
            own = s.peek(f"dut.owner{name}_{lane.name}")
            s.invariant(f"holds_{lane.name}_{name}", (held.busy & held.holder[i]) == on_the_way,
                        implies(held.busy, own == held.holder[i]))  # fmt: skip

    def _stays_first(
        self, port: int, inputs: list[Lane], held: Held, behind: list[Value]
    ) -> None:  # fmt: skip
        """Invariant: the input that holds the output is its arbiter's first."""
        numbers = sorted({lane.channel[0] for lane in inputs})
        self.s.invariant(f"who_stays_is_first_{port}", *(
            implies(held.busy & held.holder[k], behind[i] & ~(behind[i - 1] if i else Const(0, 1)))
            for k, lane in enumerate(inputs) for i in [numbers.index(lane.channel[0])]
        ))  # fmt: skip

    def _served(
        self, port: int, inputs: list[Lane], room: Value, held: Held, behind: list[Value]
    ) -> None:  # fmt: skip
        """With one VC: no idle output, and a packet waits for one of each other input at most."""
        s, count = self.s, len(inputs)
        link = self.dut.output(port)
        wants = [s.named(f"wants{port}_{lane.name}", lane.queue.there(0) & lane.wants(port, 0))
                 for lane in inputs]  # fmt: skip
        ready = [want & room & (~held.busy | held.holder[i]) for i, want in enumerate(wants)]
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


def router(hw: SimpleNamespace, s: Setting, *, topology: str, node: int, depth: int) -> None:
    """No flit is lost, made up or changed; each leaves once, on its packet's route; packets aren't
    mixed within a VC; credits neither over- nor underflow; with one VC a packet waits for at most
    one of each other input, and an output doesn't idle."""
    _Proof(hw, s, Topology.parse(topology), node, depth)
