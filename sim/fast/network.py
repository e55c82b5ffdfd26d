"""Routers and links, a cycle at a time.

Everything is decided on the state at the start of cycle t. In every router:

1. The flit at the head of an input virtual channel (VC) requests the output port of its way
   (``ways``): a packet's head any output VC that the way allows and no packet holds, the other
   flits the one that their packet holds. The request is valid if such a VC has a credit, and if the
   link is free again. Of several VCs a head takes the lowest.
2. Each input port picks one of its VCs with a valid request, the first from its pointer on.
3. Each output port picks one of the input ports that picked it, the first from its pointer on.
4. The flit leaves. Both pointers move behind the winners; a head takes the channel, a tail gives
   it up; the link is busy for ``cycles_per_flit``.

``allocators`` has 1 to 3 of routers that make other choices (constant ANY): other allocators and
arbiters, three stages, adaptive ways, bubbles. Where a credit is room for a whole packet, its head
takes one and its tail gives it back. ``interfaces`` sends the packets. Deflection routers share
nothing with these (``deflection``).

The flit is in the next buffer at t + latency of the link, its slot's credit back at the sender at
t + latency of the input's link. Port 0 of a tile delivers and always has room; what is granted in
t is visible at t + SINK_CYCLES. With two stages or more a flit is a cycle later everywhere, its
credit is not. Pointers persist from step to step, credits and links have all the time between two
steps to come home.

What leaves a router is under way for a cycle at least, in a queue for each latency, so routers may
be looked at one after the other: the grants of a block of nodes follow its requests while its rows
are in the cache. Only buffers with flits are looked at, and ways are found when a flit enters a
buffer. Branches that depend on a flit's way are what costs time here, so rows are updated without
them where that is possible. A cycle in which nothing moved returns the next one worth looking at.
"""

# ruff: noqa: F403, F405
from collections.abc import Callable

from .columns import *
from .jit import first_bit, hot, prefetch, wide
from .state import Engines, Network
from .ways import way


@hot
def enter(s: Engines, n: Network, buffer: int, flit: int) -> None:
    """A flit is in a buffer; find its route from there."""
    buffers = n.buffers
    node, number = wide(buffers[buffer + B_NODE]), wide(buffers[buffer + B_NUMBER])
    number, to = number >> PORT_BITS << VC_BITS | number & VC_MASK, wide(s.destinations[flit >> 2])
    count = wide(buffers[buffer + B_FLITS])
    slot = SLOT_WIDTH * (buffers[buffer + B_HEAD] + count & buffers[buffer + B_MASK])
    buffers[buffer + B_WIDTH + slot] = flit
    buffers[buffer + B_WIDTH + slot + 1] = way(s, n, node, number, to)
    buffers[buffer + B_FLITS] = count + 1
    unit, block = buffer >> s.constants[UNIT], node >> BLOCK_BITS
    n.busy[unit >> 6] |= 1 << (unit & 63)
    n.summary[block >> 6] |= 1 << (block & 63)


@hot
def credits_at(o: int) -> int:
    """Where the credits of the output of row ``o`` are."""
    return 2 * (o + O_CREDITS)


@hot
def credit(n: Network, up: int) -> None:
    """An output VC has one more credit."""
    o, vc = (up >> UP_BITS) * O_WIDTH, up & UP_MASK
    n.credits[credits_at(o) + vc] += 1
    n.outputs[o + O_VCS] |= 1 << vc


@hot
def debit(n: Network, o: int, vc: int) -> None:
    """VC ``vc`` of the output of row ``o`` spends a credit."""
    left = n.credits[credits_at(o) + vc] - 1
    n.credits[credits_at(o) + vc] = left
    n.outputs[o + O_VCS] ^= (1 if left == 0 else 0) << vc


@hot
def under_way(n: Network, queue: int, entry: int) -> None:
    """Put a flit or a credit on the links of the queue whose NEXT is at ``queue``."""
    at = n.queues[queue]
    n.links[at] = entry
    n.queues[queue] = at + 1


@hot
def close(s: Engines, n: Network, t: int) -> None:
    """What was put on the links in cycle t is a batch of each queue."""
    queues = n.queues
    for queue in range(s.constants[QUEUES]):
        u = queue * U_WIDTH
        begin, end = queues[u + U_OPEN], queues[u + U_NEXT]
        if begin < end:
            h = queues[u + U_BATCHES] + (queues[u + U_LAST] & queues[u + U_MASK]) * H_WIDTH
            queues[h + H_DUE] = t + queues[u + U_LATENCY]
            queues[h + H_BEGIN] = begin
            queues[h + H_END] = end
            queues[u + U_LAST] += 1
            end = queues[u + U_BEGIN] if end > queues[u + U_LIMIT] else end
            queues[u + U_OPEN] = queues[u + U_NEXT] = end


@hot
def arrive(s: Engines, n: Network, t: int) -> int:
    """Flits and credits that arrive by cycle t; the next cycle in which one does."""
    soon, queues = wide(NEVER), n.queues
    for queue in range(s.constants[QUEUES]):
        u = queue * U_WIDTH
        while queues[u + U_FIRST] < queues[u + U_LAST]:
            h = queues[u + U_BATCHES] + (queues[u + U_FIRST] & queues[u + U_MASK]) * H_WIDTH
            if queues[h + H_DUE] > t:
                soon = min(soon, queues[h + H_DUE])
                break
            queues[u + U_FIRST] += 1
            if queues[u + U_CREDITS]:
                for at in range(queues[h + H_BEGIN], queues[h + H_END]):
                    prefetch(n.outputs, (n.links[at + AHEAD] >> UP_BITS) * O_WIDTH)
                    credit(n, n.links[at])
            else:
                for at in range(queues[h + H_BEGIN], queues[h + H_END]):
                    prefetch(n.buffers, n.links[at + AHEAD] & WHERE_MASK)
                    enter(s, n, n.links[at] & WHERE_MASK, n.links[at] >> WHERE_BITS)
    return wide(soon)


@hot
def down_buffer(n: Network, o: int, vc: int) -> int:
    """The buffer behind VC ``vc`` of the output of row ``o``."""
    return wide(n.outputs[o + O_DOWN] + vc * n.outputs[o + O_STRIDE])


@hot
def nominate(n: Network, buffer: int, o: int, can: int, wins: int) -> int:
    """Input VC ``buffer`` is its port's pick for the output of row ``o``, for the lowest output VC
    of ``can``; returns the number of outputs with a pick.
    """
    outputs = n.outputs
    key = (n.buffers[buffer + B_NUMBER] >> PORT_BITS) - outputs[o + O_NEXT]
    key += outputs[o + O_PORTS] & key >> 63
    least, pick = wide(outputs[o + O_KEY]), buffer + first_bit(can)
    n.winners[wins] = o
    outputs[o + O_KEY] = min(key, least)
    outputs[o + O_PICK] = pick if key < least else wide(outputs[o + O_PICK])
    return wins + (1 if least == FAR else 0)


@hot
def before(n: Network, port: int, one: int, other: int) -> bool:
    """Whether of two buffers of a port one comes first in the port's round."""
    pointer: int = n.outputs[port * O_WIDTH + O_IN_NEXT]
    a: int = n.buffers[one + B_NUMBER] & VC_MASK
    b: int = n.buffers[other + B_NUMBER] & VC_MASK
    return (a < pointer) < (b < pointer) or ((a < pointer) == (b < pointer) and a < b)


@hot
def request(s: Engines, n: Network, block: int, t: int) -> tuple[int, int]:
    """Stages 1 and 2 and the picks of 3 of a block of nodes. Returns the number of outputs with a
    pick and the next cycle to look at.

    Goes through the buffers with flits in the order of their places, so that the VCs of a port
    follow each other.
    """
    buffers, outputs = n.buffers, n.outputs
    soon, wins, port, some = wide(NEVER), 0, wide(-1), 0
    best, best_o, best_can = wide(-1), 0, 0
    for word in range(n.blocks[block], n.blocks[block + 1]):
        units = n.busy[word]
        some |= units
        while units:
            buffer = ((word << 6) + first_bit(units)) << s.constants[UNIT]
            units &= units - 1
            slot = buffer + B_WIDTH + SLOT_WIDTH * buffers[buffer + B_HEAD]
            turn = wide(buffers[slot + 1])
            o = (turn >> VC_BITS) * O_WIDTH
            held = wide(buffers[buffer + B_HELD])
            vcs = wide(outputs[o + O_VCS])
            can = (held if held else turn & VC_MASK & vcs >> VC_BITS) & vcs
            if can == 0:
                continue
            if outputs[o + O_FREE] > t:
                soon = min(soon, wide(outputs[o + O_FREE]))
                continue
            if buffers[buffer + B_PORT] != port:
                if best >= 0:
                    wins = nominate(n, best, best_o, best_can, wins)
                port = wide(buffers[buffer + B_PORT])
            elif before(n, port, best, buffer):
                continue
            best, best_o, best_can = buffer, o, can
    if best >= 0:
        wins = nominate(n, best, best_o, best_can, wins)
    n.summary[block >> 6] &= ~((1 if some == 0 else 0) << (block & 63))
    return wins, soon


@hot
def leave(s: Engines, n: Network, buffer: int, hold: int) -> int:
    """The flit at the head of a buffer leaves it; the flit. HELD is ``hold`` until the tail."""
    buffers = n.buffers
    head, left = wide(buffers[buffer + B_HEAD]), buffers[buffer + B_FLITS] - 1
    flit = wide(buffers[buffer + B_WIDTH + SLOT_WIDTH * head])
    empty = 1 if left == 0 else 0
    buffers[buffer + B_HEAD] = head + 1 & buffers[buffer + B_MASK] & (empty - 1)
    buffers[buffer + B_FLITS] = left
    unit = buffer >> s.constants[UNIT]
    n.busy[unit >> 6] &= ~(empty << (unit & 63))
    buffers[buffer + B_HELD] = hold & ((flit >> 1 & 1) - 1)
    return flit


@hot
def eject(s: Engines, n: Network, flit: int, t: int) -> None:
    """A tile takes a flit."""
    n.counts[FLITS] -= 1
    if flit & 2:
        at = 2 * ((s.g[DELIVER_HEAD] + s.g[DELIVER_N]) & s.constants[DELIVER_MASK])
        s.deliveries[at] = t + s.constants[EJECTION]
        s.deliveries[at + 1] = flit >> 2
        s.g[DELIVER_N] += 1


@hot
def grant(s: Engines, n: Network, wins: int, t: int, choices: int) -> None:
    """Stage 4: the flits that won leave their buffers; ``choices`` as in ``routers_with``."""
    buffers, outputs = n.buffers, n.outputs
    for index in range(wins):
        o = wide(n.winners[index])
        pick = wide(outputs[o + O_PICK])
        vc, buffer = pick & LINE - 1, pick & -LINE
        bit, number = 1 << vc, wide(buffers[buffer + B_NUMBER])
        flit = leave(s, n, buffer, o // O_WIDTH << VC_BITS | bit if choices else bit)
        free, taken = bit << VC_BITS, 0 if flit & 2 else bit << VC_BITS
        outputs[o + O_VCS] = (outputs[o + O_VCS] | free) ^ taken
        outputs[o + O_NEXT] = (number >> PORT_BITS) + 1
        outputs[o + O_KEY] = FAR
        outputs[o + O_FREE] = t + outputs[o + O_CYCLES]
        outputs[o + O_COUNT] += 1
        outputs[buffers[buffer + B_PORT] * O_WIDTH + O_IN_NEXT] = (number & VC_MASK) + 1
        whole = s.constants[WHOLE] if choices else 0
        if whole == 0 or flit & 2:
            queue = (number >> VC_BITS & QUEUE_MASK) * U_WIDTH + U_NEXT
            under_way(n, queue, wide(buffers[buffer + B_UP]))
        if outputs[o + O_DOWN] >= 0:
            if whole == 0 or flit & 1:
                debit(n, o, vc)
            flit = flit << WHERE_BITS | down_buffer(n, o, vc)
            under_way(n, wide(outputs[o + O_QUEUE]), flit)
        else:
            eject(s, n, flit, t)


def routers_with(request: Callable[..., tuple[int, int]], choices: int) -> Callable[..., int]:
    """The function for all routers whose requests are ``request`` or, where they make ``choices``
    (constant ANY), ``allocators.request_any``: each kernel contains but one of them, as compiling
    takes long."""

    @hot
    def routers(s: Engines, n: Network, t: int) -> int:
        """Cycle t of all routers and links; returns the next cycle in which one of them may do
        something.
        """
        soon = arrive(s, n, t)
        for high in range(s.constants[SUMMARY]):
            blocks = n.summary[high]
            while blocks:
                block = (high << 6) + first_bit(blocks)
                blocks &= blocks - 1
                wins, later = request(s, n, block, t)
                grant(s, n, wins, t, choices)
                soon = min(soon, t + 1 if wins else later)
        close(s, n, t)
        return wide(soon)

    return routers
