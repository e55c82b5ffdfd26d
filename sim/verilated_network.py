"""An architecture's routers alone under Verilator, with the packets of a trace.

Sources keep to the rules of :mod:`tokenpath.sim.fast.traffic`, sinks record every flit. On every
link credits, VCs and the cycles of a flit are watched.
"""

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.errors import require
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.ways import first_channels
from tokenpath.hw.flit import destination
from tokenpath.sim.arrivals import ARRIVAL, Sent
from tokenpath.sim.traffic_trace import Trace
from tokenpath.sim.verilated_build import build

I64 = NDArray[np.int64]

FLIT_WORDS = 2
CREDITLESS = ("deflection",)
"""Kinds of routers whose links have neither credits nor packets that hold a VC, and whose flits
each carry their destination."""

QUIET = 64
"""Cycles behind the last flit and the longest link in which nothing more may come."""

SETTINGS = ("lanes", "depth", "most", "quiet", "flits", "room", "checked", "whole")
PACKET = ("cycle", "flits", "at", "vcs", "left")
LEFT = len(PACKET) - 1
FOUND = (
    *("cycles", "arrivals", "link_flits", "no_credit", "all_held", "woven", "waits"),
    *("rule", "cycle", "link"),
)
RULES = (
    "", "a credit too few or too many", "flits of two packets in one VC",
    "a flit while the link was busy", "credits that never came home",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Watched:
    """``sent``: the packets and their flits, by the rows of ``Trace.by_source``; ``left``: when the
    head of each was sent. ``arrivals`` (flits, ARRIVAL). ``broken``: what is wrong with them, or
    the first rule that was broken on a link, or "".

    Counts: cycles simulated; flits over links; links x cycles in which a VC had no credit, in which
    packets held all VCs; changes of the packet between a head and its tail; flits that waited for a
    credit at their source, by the cycle.
    """

    sent: Sent
    left: I64
    arrivals: I64
    broken: str
    cycles: int
    link_flits: int
    no_credit: int
    all_held: int
    woven: int
    waits: int


class VerilatedNetwork:
    """The Verilator model of an Arch's Network; builds it first if need be.

    Packets may have as many flits as ``max_packet_words`` allows. Raises InputError unless flits
    have two words.
    """

    def __init__(self, arch: Arch) -> None:
        require(
            arch.flit_words == FLIT_WORDS,
            f"flits of {arch.flit_words} words; give flit_words {FLIT_WORDS}, which a packet's "
            "number and place need",
        )
        self.arch, self.credits = arch, arch.router.kind not in CREDITLESS
        self._library = ctypes.CDLL(str(build(arch, top="network")))
        self._library.tn_make.restype = ctypes.c_void_p
        self._library.tn_free.argtypes = [ctypes.c_void_p]
        self._library.tn_run.argtypes, self._library.tn_run.restype = [ctypes.c_void_p] * 8, None
        self._model = self._library.tn_make()
        sizes = [dim.size for dim in arch.topology.dims]
        self._destinations = np.array([destination(sizes, tile) for tile in range(arch.tiles)])
        entries = [first_channels(arch.router, arch.topology, to) for to in range(arch.tiles)]
        self._entries = np.array(entries, np.int64)  # VCs, a bit each, by destination
        wires = [
            [self._slots(arch.router.buffer_flits(link.tier)), link.tier.cycles_per_flit]
            for link in arch.topology.links
        ]
        self._wires = np.array(wires, np.int64)
        self.quiet = QUIET + max(dim.tier.latency_cycles for dim in arch.topology.dims)

    def __del__(self) -> None:
        if hasattr(self, "_model"):
            self._library.tn_free(self._model)
            del self._model

    def run(self, trace: Trace, most: int) -> Watched:
        """The packets of a trace from reset until all flits have come and ``quiet`` cycles more,
        at most ``most`` cycles.
        """
        rows, first = trace.by_source(self.arch.tiles)
        sent = Sent(rows, self._destinations, headers=not self.credits)
        packets = np.zeros((len(rows), len(PACKET)), np.int64)
        packets[:, :LEFT] = np.stack(
            [rows[:, 0], rows[:, 2], sent.at, self._entries[rows[:, 1]]], 1
        )
        router, flits = self.arch.router, len(sent.words)
        values: dict[str, int] = {
            "lanes": router.local, "depth": self._slots(router.local_flits), "most": most,
            "quiet": self.quiet, "flits": flits, "room": 2 * flits + 16,
            "checked": self.credits, "whole": router.whole_packets,
        }  # fmt: skip
        settings = np.array([values[name] for name in SETTINGS], np.int64)
        arrivals = np.zeros((values["room"], len(ARRIVAL)), np.int64)
        found = np.zeros(len(FOUND), np.int64)
        arrays = (settings, packets, sent.words, first, self._wires, arrivals, found)
        self._library.tn_run(self._model, *(array.ctypes.data for array in arrays))
        counts = dict(zip(FOUND, found.tolist(), strict=True))
        rule, cycle, link = (counts.pop(name) for name in ("rule", "cycle", "link"))
        arrivals = arrivals[: counts.pop("arrivals")]
        broken = sent.fault(arrivals, woven=not self.credits)
        if rule and not broken:
            place = f"link {link}" if link >= 0 else f"tile {-1 - link}'s local port"
            broken = f"{RULES[rule]} on {place} in cycle {cycle}"
        return Watched(sent=sent, left=packets[:, LEFT], arrivals=arrivals, broken=broken, **counts)

    def _slots(self, flits: int) -> int:
        """Credits for a buffer of that many flits."""
        return self.arch.router.slots(flits, self.arch.packet_flits)
