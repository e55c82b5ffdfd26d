"""Wormhole routers, links and network interfaces, a cycle at a time.

Everything is decided on the state at the start of cycle ``t``. In every router: (1) an input virtual channel (VC) whose
head flit has arrived requests its output channel: that of ``next_hop`` for a head flit, the one its packet holds for the
others; the request is valid if the channel is free or held by this VC, if a slot of the buffer behind it is free and
its credit is back, and if the link is free again; (2) each input port picks one of its VCs with a valid request, the first
from its pointer on; (3) each output port picks one of the input ports, the first from its pointer on; (4) the flit
leaves; both pointers move behind the winners; a head flit takes the channel, a tail flit gives it up; the link is busy
for ``cycles_per_flit``. The flit is in the next buffer at ``t + latency`` of the link, its slot's credit back at the
sender at ``t + latency`` of the input's link. Port 0 of a tile delivers: a flit granted in ``t`` is visible at ``t + SINK_CYCLES``.
The NI sends a flit a cycle into the local input (VC 0) under the same rule, with a latency of 1 both ways.

A slot carries the cycle in which its flit arrives or, empty, in which its credit is back: no list of things in flight. Only
buffers with flits are looked at; when a cycle moved nothing, the next one worth looking at is returned.

Pointers and held channels persist from step to step; credits and links have all the time between two steps.
"""

from tokenpath.hw.arch.timing import DESCRIPTOR_CYCLES, SINK_CYCLES
from tokenpath.sim.compiled import time

from .events import push
from .jit import kernel
from .state import *  # noqa: F403


@kernel
def start_descriptor(s, tile, t):
    """The fetch of the NI's descriptor is done: its first flit may be sent in cycle ``t``."""
    i = tile * N_WIDTH
    ni = s.interfaces
    row = (tile * (len(s.descriptors) // (4 * s.constants[TILES])) + ni[i + DESCRIPTOR]) * 4
    ni[i + N_TO] = s.descriptors[row]
    ni[i + N_NEXT_SRC] = ni[i + N_SRC] + s.descriptors[row + 1]
    ni[i + WORDS_LEFT] = s.descriptors[row + 2]
    ni[i + N_NEXT_DST] = ni[i + N_DST] + s.descriptors[row + 3]
    ni[i + FLITS_LEFT] = 0
