"""Bench of a router: packets at all its inputs, neighbours with several moods, a scoreboard.

For every router with buffers whose credits are for flits.
"""

import random
from collections import defaultdict
from typing import Any

import cocotb
from unit import ARCH, DESCRIPTION, PORTS, following, pack, reset, settled, unpack

from tokenpath.hw.arch.ways import arrivals, ways
from tokenpath.hw.flit import destination

NET, ROUTER = ARCH.topology, ARCH.router
NODE = DESCRIPTION["node"]["number"]
CONSTANTS = {
    "position": DESCRIPTION["node"].get("position", 0),
    "routes": int(DESCRIPTION["node"].get("routes", "0"), 16),
}
SIZES = [dim.size for dim in NET.dims]
CHANNELS = {channel["port"]: channel for channel in DESCRIPTION["channels"]}

MOODS = {"greedy": (1.0, 1.0), "calm": (0.3, 0.6), "stingy": (0.9, 0.1), "bursts": (1.0, None)}
"""Chance that an input sends, and that an output gives a credit back, in a cycle."""


def channels(node: int, port: int, vc: int, to: int) -> set[tuple[int, int]]:
    """The (output port, virtual channel) that a packet may take at a node."""
    found = ways(ROUTER, NET, node, port, vc, to)
    return {(out, v) for out, allowed in found for v in range(ARCH.vcs) if allowed >> v & 1}


def packet(number: int, to: int, flits: int) -> list[dict[str, int]]:
    """Flits of a packet: its number and the flit's place are in the second word."""
    head = {"data[0]": destination(SIZES, to)}
    return [
        (head if k == 0 else {"data[0]": 0xFFFFFFFF})
        | {"data[1]": number << 8 | k, "head": k == 0, "tail": k == flits - 1}
        for k in range(flits)
    ]


class Neighbours:
    """Sends queued packets by the rules of credits, and takes what leaves.

    ``left`` has each flit that left in the last cycle: (port, fields).
    """

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.queues: dict[tuple[int, int], list[dict[str, int]]] = defaultdict(list)
        self.slots = {
            (p, v): c["buffer_flits"] for p, c in CHANNELS.items()
            for v in range(c["virtual_channels"])
        }  # fmt: skip
        self.owed: dict[tuple[int, int], int] = defaultdict(int)
        self.left: list[tuple[int, dict[str, int]]] = []

    async def cycle(self, rng: random.Random, load: float, eager: float) -> None:
        """One cycle: flits in, credits back, then look at the outputs."""
        for port in CHANNELS:
            self._send(port, rng, load)
            if f"o{port}__credit" in PORTS:
                self._give(port, rng, eager)
        await settled(self.dut)
        self.left = []
        for port, channel in CHANNELS.items():
            self._take(port)
            credit = int(getattr(self.dut, f"i{port}__credit").value)
            for vc in range(channel["virtual_channels"]):
                self.slots[port, vc] += credit >> vc & 1
                assert self.slots[port, vc] <= channel["buffer_flits"], "a credit too many"
        await following(self.dut)

    def _send(self, port: int, rng: random.Random, load: float) -> None:
        ready = [
            vc for vc in range(CHANNELS[port]["virtual_channels"])
            if self.queues[port, vc] and self.slots[port, vc] and rng.random() < load
        ]  # fmt: skip
        getattr(self.dut, f"i{port}__valid").value = bool(ready)
        if ready:
            vc = rng.choice(ready)
            self.slots[port, vc] -= 1
            flit = self.queues[port, vc].pop(0) | {"vc": vc}
            getattr(self.dut, f"i{port}__flit").value = pack(f"i{port}__flit", flit)

    def _give(self, port: int, rng: random.Random, eager: float) -> None:
        back = 0
        for vc in range(CHANNELS[port]["virtual_channels"]):
            if self.owed[port, vc] and rng.random() < eager:
                self.owed[port, vc] -= 1
                back |= 1 << vc
        getattr(self.dut, f"o{port}__credit").value = back

    def _take(self, port: int) -> None:
        if getattr(self.dut, f"o{port}__valid").value == 0:
            return
        name = f"o{port}__flit"
        flit = unpack(name, int(getattr(self.dut, name).value))
        self.left.append((port, flit))
        if f"o{port}__credit" in PORTS:
            self.owed[port, flit["vc"]] += 1
            most = CHANNELS[port]["buffer_flits"]
            assert self.owed[port, flit["vc"]] <= most, "a flit without a credit"


class Scoreboard:
    """Where each packet must leave; flits of one virtual channel come packet by packet."""

    def __init__(self) -> None:
        self.wanted: dict[int, tuple[set[tuple[int, int]], list[dict[str, int]]]] = {}
        self.open: dict[tuple[int, int], int] = {}

    def expect(
        self, number: int, where: tuple[int, int], to: int, flits: list[dict[str, int]]
    ) -> None:
        self.wanted[number] = channels(NODE, *where, to), list(flits)

    def check(self, port: int, flit: dict[str, int]) -> None:
        number, channel = flit["data[1]"] >> 8, (port, flit["vc"])
        assert number in self.wanted, f"packet {number} was not sent, or left before"
        assert self.open.get(channel, number) == number, f"{number} inside another packet"
        allowed, flits = self.wanted[number]
        assert channel in allowed, f"packet {number} left by {channel}, not by one of {allowed}"
        allowed.intersection_update({channel})
        expected = flits.pop(0)
        assert {name: flit[name] for name in expected} == expected
        self.open[channel] = number
        if flit["tail"]:
            del self.open[channel], self.wanted[number]


@cocotb.test
@cocotb.parametrize(mood=list(MOODS))
async def every_packet_arrives_once_and_whole(dut: Any, mood: str) -> None:
    rng, (load, eager) = random.Random(mood), MOODS[mood]
    neighbours, board = Neighbours(dut), Scoreboard()
    await reset(dut, **CONSTANTS)
    sources = sorted((where, sorted(to)) for where, to in arrivals(ROUTER, NET, NODE).items())
    for number in range(200):
        where, destinations = rng.choice(sources)
        to = rng.choice(destinations)
        flits = packet(number, to, rng.choice([1, 1, 2, 5]))
        board.expect(number, where, to, flits)
        neighbours.queues[where] += flits
    for cycle in range(20_000):
        chance = float(cycle // 25 % 2) if eager is None else eager
        await neighbours.cycle(rng, load, chance)
        for port, flit in neighbours.left:
            board.check(port, flit)
        if not board.wanted:
            break
    assert not board.wanted, f"{len(board.wanted)} packets are lost"


@cocotb.test
async def a_hop_takes_the_cycles_of_its_stages(dut: Any) -> None:
    """A flit that enters an idle router in t leaves in t + 1 with one stage, on every turn."""
    rng, neighbours = random.Random(0), Neighbours(dut)
    await reset(dut, **CONSTANTS)
    for where, destinations in sorted(arrivals(ROUTER, NET, NODE).items()):
        for to in sorted(destinations):
            for _ in range(max(c["cycles_per_flit"] for c in CHANNELS.values())):
                await neighbours.cycle(rng, 1, 1)
            neighbours.queues[where] = packet(1, to, 1)
            for _ in range(ROUTER.stages):
                await neighbours.cycle(rng, 1, 1)
                assert not neighbours.left
            await neighbours.cycle(rng, 1, 1)
            ((port, flit),) = neighbours.left
            assert (port, flit["vc"]) in channels(NODE, *where, to)
