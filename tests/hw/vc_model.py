"""A virtual-channel router by the pure rules of hw/arch, plain Python, cycle by cycle."""

from collections import deque
from typing import Any

from tokenpath.hw.arch.allocation import Allocator
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.arch.ways import set_bits, ways

Channel = tuple[int, int]


class VcModel:
    """Flits are (data, head, tail); ``to_of(data)`` is the tile that a head goes to.

    ``credits`` are ``slots[port]`` for each VC; ``cycles[port]`` a flit.
    """

    def __init__(
        self, params: RouterParams, topology: Topology, node: int, *, inputs: Any, outputs: Any,
        slots: Any, cycles: Any, to_of: Any,
    ) -> None:  # fmt: skip
        self.params, self.topology, self.node = params, topology, node
        self.cycles, self.to_of = cycles, to_of
        self.local = node < topology.tiles
        vcs = range(params.vcs)
        self.queues = {(p, v): deque[Any]() for p in inputs for v in vcs}
        self.credits = {(o, w): slots[o] for o in outputs for w in vcs}
        self.held: dict[Channel, Channel] = {}
        self.free_at = dict.fromkeys(outputs, 0)
        self.now = 0
        shape = {"ports": topology.ports(node), "vcs": params.vcs, "arbiter": params.arbiter}
        self.rule = Allocator(kind=params.allocator, iterations=params.iterations, **shape)
        self.heads = Allocator(kind="input_first", **shape)

    def _enough(self, o: int, w: int, least: int = 1) -> bool:
        return (self.local and o == 0) or self.credits[o, w] >= least

    def _least(self, p: int, o: int) -> int:
        """Credits that a head needs: two to enter a ring with bubbles."""
        if self.params.switching != "bubble" or (self.local and o == 0) or not self.local:
            return 1
        dim = self.topology.port_dim(self.node, o)
        inside = p != 0 and self.topology.port_dim(self.node, p) == dim
        return 2 if self.topology.dims[dim].is_ring and not inside else 1

    def _takes(self, p: int, v: int) -> Channel | None:
        """The output channel that the head of this queue could take."""
        to = self.to_of(self.queues[p, v][0][0])
        best: Channel | None = None
        for o, allowed in ways(self.params, self.topology, self.node, p, v, to):
            if self.now < self.free_at[o]:
                continue
            for w in set_bits(allowed):
                if (o, w) not in self.held.values() and self._enough(o, w, self._least(p, o)):
                    if best is None or self._sum(o) > self._sum(best[0]):
                        best = (o, w)
                    break
        return best

    def _sum(self, o: int) -> int:
        return sum(self.credits[o, w] for w in range(self.params.vcs))

    def _wants(self, p: int, v: int) -> Channel | None:
        if (p, v) in self.held:
            o, w = self.held[p, v]
            whole = self.params.whole_packets
            ready = self.now >= self.free_at[o] and (whole or self._enough(o, w))
            return (o, w) if ready else None
        return None if self.params.stages == 3 else self._takes(p, v)

    def decide(self) -> dict[int, tuple[int, int, int, Any]]:
        """By output port: (its VC, input port, input VC, flit) that leaves in this cycle."""
        there = [channel for channel, queue in self.queues.items() if queue]
        wanted = {each: found for each in there if (found := self._wants(*each))}
        self.taken: dict[Channel, Channel] = {}
        if self.params.stages == 3:
            asked = {each: found for each in there if each not in self.held
                     if (found := self._takes(*each))}  # fmt: skip
            given = self.heads.cycle((p, v, o) for (p, v), (o, _) in asked.items())
            self.taken = {(p, v): asked[p, v] for p, v, _ in given}
        granted = self.rule.cycle((p, v, o) for (p, v), (o, _) in wanted.items())
        return {o: (wanted[p, v][1], p, v, self.queues[p, v][0]) for p, v, o in granted}

    def advance(self, granted: Any, pushes: Any, credits: Any) -> None:
        """The end of the cycle: flits (port, vc, flit) arrive and credits (port, vc) come back."""
        for o, (w, p, v, (_, head, tail)) in granted.items():
            self.queues[p, v].popleft()
            self.held[p, v] = (o, w)
            if tail:
                del self.held[p, v]
            if not (self.local and o == 0):
                self.credits[o, w] -= head or not self.params.whole_packets
                self.free_at[o] = self.now + self.cycles[o]
        self.held |= self.taken
        for p, v, flit in pushes:
            self.queues[p, v].append(flit)
        for each in credits:
            self.credits[each] += 1
        self.now += 1
