"""Virtual-channel router: a packet takes any free channel that its route allows; 1 to 3 stages."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module

from tokenpath.hw.arch.dims import Dim
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.matcher import Matcher
from tokenpath.hw.router import Router
from tokenpath.hw.vc_input import VcInput
from tokenpath.hw.vc_output import VcOutput

ARBITERS = {"round_robin": "pairs", "matrix": "matrix"}
"""The arbiters of ``RouterParams`` as kinds of :class:`Arbiter`."""


class VcRouter(Router):
    """The ports of :class:`Router`, each with ``params.vcs`` virtual channels (VCs) both ways.

    In cycle t, on the state at its start (``tokenpath.hw.arch.allocation`` and ``ways``): the first
    flit of each queue asks for the output of its route, a packet's head if it may take a VC there
    that no packet holds and that has a credit, any other flit if the VC that its packet holds has
    one; the allocator picks who goes where. The winner's head takes the lowest such VC. Its credit
    is on the input's channel in t, the flit on the output in t, in t + 1 with 2 stages or more.

    With 3 stages a head takes its VC in a cycle before: it asks for one as above, each input picks
    one of its heads, each output one of the inputs, by arbiters of their own. From the next cycle
    on it goes as the flits behind it do.

    A flit's way, a bit for each output that its input may ask for (in a ring for each half of its
    VCs), is kept beside it. The VC that a queue's packet holds is in a register of the queue; a
    queue without one has a head first. Where it can be (``params.knows_ahead``), what a request
    needs of credits is found a cycle before and comes from a register: for heads one of the output,
    for the others one of the queue.
    """

    def __init__(
        self, *, dims: Sequence[Dim], flit_words: int, depths: Sequence[int],
        cycles: Sequence[int], slots: Sequence[int], params: RouterParams, hub: int | None = None,
    ) -> None:  # fmt: skip
        """``slots[port]``: the credits of each VC, those of :class:`Router` or of whole packets."""
        self.slots = tuple(slots)
        self.params, self.arbiter = params, ARBITERS[params.arbiter]
        self.late = params.extra_cycles
        super().__init__(
            dims=dims, flit_words=flit_words, depths=depths, cycles=cycles, hub=hub, params=params
        )

    def parts(self) -> tuple[Any, Any]:
        return VcOutput, VcInput

    def allocate(self, m: Module, outputs: dict[int, VcOutput], inputs: dict[int, VcInput]) -> None:
        """What is decided beside each output's pick: VCs of heads, or the whole match."""
        if self.params.stages == 3:
            for output in outputs.values():
                output.give(m, inputs)
        if self.params.allocator == "input_first":
            return
        m.submodules.matcher = matcher = Matcher(
            ports=self.ports.inputs[-1] + 1, kind=self.params.allocator, arbiter=self.arbiter,
            iterations=self.params.iterations,
            pairs=[(i, o) for i, source in inputs.items() for o in source.turns],
        )  # fmt: skip
        for i, source in inputs.items():
            for o, matched in zip(source.turns, source.matched, strict=True):
                m.d.comb += [
                    matcher.requests[i][o].eq(source.wants(o)),
                    matched.eq(matcher.match[i][o]),
                ]
