"""Routers, links and network interfaces, a cycle at a time.

Everything is decided on the state at the start of cycle t. In every router:

1. The flit at the head of an input virtual channel (VC) requests the output port of its route: a
   packet's head any output VC that the route allows and no packet holds, the other flits the one
   that their packet holds. The request is valid if such a VC has a credit, and if the link is free
   again. Of several VCs a head takes the lowest.
2. Each input port picks one of its VCs with a valid request, the first from its pointer on.
3. Each output port picks one of the input ports that picked it, the first from its pointer on.
4. The flit leaves. Both pointers move behind the winners; a head takes the channel, a tail gives
   it up; the link is busy for ``cycles_per_flit``.

The flit is in the next buffer at t + latency of the link, its slot's credit back at the sender at
t + latency of the input's link. Port 0 of a tile delivers and always has room; what is granted in
t is visible at t + SINK_CYCLES. With two stages a flit is a cycle later everywhere, its credit is
not. The NI sends a flit a cycle into input port 0, with a latency of 1 both ways; a packet takes
the first VC with a credit from a pointer on, which moves behind it. After a descriptor's last flit,
in cycle t, the next one's first may be sent in t + 1 + DESCRIPTOR_CYCLES; a PUT ends with its last
flit. Pointers persist from step to step, credits and links have all the time between two steps to
come home.

All requests are looked at before the first grant, so a grant moves flits and credits on links of
latency 1 at once; those of longer links wait in a queue for each latency, in order. Only buffers
with flits are looked at, and routes are found when a flit enters a buffer. Branches that depend on
a flit's way are what costs time here, so rows are updated without them where that is possible. A
cycle in which nothing moved returns the next one worth looking at.
"""

# ruff: noqa: F403, F405
from tokenpath.hw.arch.timing import DESCRIPTOR_CYCLES
from tokenpath.sim.compiled import time

from .allocators import request_any
from .columns import *
from .events import end_at, note
from .jit import first_bit, hot, inner, prefetch, wide
from .state import Engines, Network
from .ways import first_channel, way

put_flits = time.put_flits

AHEAD = 8
"""Winners and arrivals whose rows are fetched beforehand; a large network fits no cache."""


@inner
def start_descriptor(s: Engines, n: Network, tile: int) -> None:
    """The fetch of the NI's descriptor is done: its first flit may be sent in this cycle."""
    i, ni = tile * N_WIDTH, s.interfaces
    row = (tile * s.constants[DESCRIPTORS] + ni[i + DESCRIPTOR]) * 4
    ni[i + N_TO] = s.descriptors[row]
    ni[i + N_FROM] = ni[i + N_SRC] + s.descriptors[row + 1]
    ni[i + WORDS_LEFT] = s.descriptors[row + 2]
    ni[i + N_INTO] = ni[i + N_DST] + s.descriptors[row + 3]
    ni[i + FLITS_LEFT] = 0
    n.injecting[n.counts[INJECTING_N]] = tile
    n.counts[INJECTING_N] += 1


@hot
def start_packet(s: Engines, tile: int, t: int) -> None:
    """Cut the next packet of the NI's descriptor; its head flit is sent in t."""
    i, ni, packets = tile * N_WIDTH, s.interfaces, s.packets
    s.free_packets[0] -= 1
    packet = wide(s.free_packets[1 + s.free_packets[0]])
    words = min(ni[i + WORDS_LEFT], s.constants[MAX_WORDS])
    flits = put_flits(words, s.constants[FLIT_WORDS])
    if s.constants[LOGGING]:
        note(s, 4 * tile + L_INJECT, packet, ni[i + N_FROM], t << 8 | words)
    p = packet * K_WIDTH
    s.destinations[packet] = ni[i + N_TO]
    packets[p + K_DST] = ni[i + N_INTO]
    packets[p + K_WORDS] = words
    packets[p + K_OP] = ni[i + N_OP]
    packets[p + K_RECORD] = ni[i + N_RECORD]
    packets[p + K_INJECT] = t
    packets[p + K_FLITS] = flits
    ni[i + N_FROM] += words
    ni[i + N_INTO] += words
    ni[i + WORDS_LEFT] -= words
    packets[p + K_SEMAPHORE] = ni[i + N_SEMAPHORE] if ni[i + WORDS_LEFT] == 0 else 0
    ni[i + N_PACKET] = packet
    ni[i + FLITS_LEFT] = flits


@hot
def enter(n: Network, buffer: int, flit: int, turn: int) -> None:
    """A flit with its route is in a buffer from the next cycle on."""
    buffers = n.buffers
    tail = wide(buffers[buffer + B_TAIL])
    slot = buffer + B_WIDTH + SLOT_WIDTH * (tail & buffers[buffer + B_MASK])
    buffers[slot] = flit
    buffers[slot + 1] = turn
    buffers[buffer + B_TAIL] = tail + 1
    n.counts[BUSY_N] += 1 if buffers[buffer + B_HEAD] == tail else 0
    unit = buffer // UNIT
    n.busy[unit >> 6] |= 1 << (unit & 63)
    n.summary[unit >> 12] |= 1 << (unit >> 6 & 63)


@hot
def credit(s: Engines, n: Network, channel: int) -> None:
    """An output channel has one more credit."""
    v = s.constants[VCS]
    n.credits[channel] += 1
    if v == 1:
        n.outputs[channel * O_WIDTH + O_CREDIT_VCS] = 1
    else:
        port = channel // v
        n.outputs[port * O_WIDTH + O_CREDIT_VCS] |= 1 << (channel - port * v)


@hot
def debit(n: Network, o: int, channel: int, bit: int) -> None:
    """An output channel of row ``o``, VC ``bit``, spends a credit."""
    left = n.credits[channel] - 1
    n.credits[channel] = left
    n.outputs[o + O_CREDIT_VCS] ^= bit if left == 0 else 0


@hot
def under_way(n: Network, queue: int, t: int, where: int, flit: int) -> None:
    """Put a flit, or a credit, on the links of a queue in cycle t."""
    u, queues = queue * U_WIDTH, n.queues
    at = (queues[u + U_AT] + (queues[u + U_LAST] & queues[u + U_MASK])) * W_WIDTH
    n.links[at + W_DUE] = t + queues[u + U_LATENCY]
    n.links[at + W_WHERE] = where
    n.links[at + W_FLIT] = flit
    queues[u + U_LAST] += 1


@hot
def arrive(s: Engines, n: Network, t: int) -> int:
    """Flits and credits that arrive by cycle t; the next cycle in which one does."""
    soon = wide(NEVER)
    for queue in range(s.constants[QUEUES]):
        u, queues = queue * U_WIDTH, n.queues
        while queues[u + U_FIRST] < queues[u + U_LAST]:
            at = (queues[u + U_AT] + (queues[u + U_FIRST] & queues[u + U_MASK])) * W_WIDTH
            if n.links[at + W_DUE] > t:
                soon = min(soon, n.links[at + W_DUE])
                break
            queues[u + U_FIRST] += 1
            if s.constants[FETCH]:
                ahead = ((queues[u + U_FIRST] + AHEAD) & queues[u + U_MASK]) + queues[u + U_AT]
                prefetch(n.buffers, wide(n.links[ahead * W_WIDTH + W_WHERE]))
            where, flit = wide(n.links[at + W_WHERE]), wide(n.links[at + W_FLIT])
            if queues[u + U_CREDITS]:
                credit(s, n, where)
            else:
                n.counts[IN_FLIGHT] -= 1
                land(s, n, where, flit)
    return wide(soon)


@hot
def land(s: Engines, n: Network, buffer: int, flit: int) -> None:
    """A flit enters a buffer: find its route from there."""
    node = wide(n.inputs[n.buffers[buffer + B_PORT] * I_WIDTH + I_NODE])
    number = wide(n.buffers[buffer + B_NUMBER])
    enter(n, buffer, flit, way(s, n, node, number, wide(s.destinations[flit >> 2])))


@hot
def free_vc(n: Network, o: int, pointer: int) -> int:
    """The first VC with a credit of the output of row ``o``, from a pointer on, as a bit; or 0."""
    can = wide(n.outputs[o + O_CREDIT_VCS])
    behind = can >> pointer << pointer
    found = behind if behind else can
    return wide(found & -found)


@hot
def entry(s: Engines, n: Network, o: int, pointer: int, to: int) -> int:
    """The VC, as a bit, with which a packet to tile ``to`` begins at the NI's output of row ``o``,
    or 0 if it has to wait for a credit.
    """
    if s.constants[ORDERED]:
        return wide(first_channel(s, n, to) & n.outputs[o + O_CREDIT_VCS])
    return free_vc(n, o, pointer)


@hot
def goes_on(s: Engines, n: Network, o: int, bit: int) -> int:
    """Whether a flit behind a packet's head can follow on VC ``bit``, as 0 or not."""
    return bit if s.constants[WHOLE] else wide(bit & n.outputs[o + O_CREDIT_VCS])


@hot
def send(s: Engines, n: Network, tile: int, bit: int, packet: int, ends: int) -> None:
    """A tile's flit, ``tail << 1 | head``, goes to its router on a VC that has a credit."""
    port, vc = s.constants[NI_PORT0] + tile, first_bit(bit)
    o = port * O_WIDTH
    if ends & 1 or s.constants[WHOLE] == 0:
        debit(n, o, port * s.constants[VCS] + vc, bit)
    down = wide(n.outputs[o + O_DOWN] + vc * n.outputs[o + O_STRIDE])
    enter(n, down, packet << 2 | ends, way(s, n, tile, vc, wide(s.destinations[packet])))


@hot
def inject(s: Engines, n: Network, t: int) -> int:
    """Every NI with something to send sends a flit if it has a credit; returns the next cycle to
    look at.
    """
    soon, kept, ni = wide(NEVER), 0, s.interfaces
    for index in range(n.counts[INJECTING_N]):
        tile = wide(n.injecting[index])
        n.injecting[kept] = tile
        i, o = tile * N_WIDTH, (s.constants[NI_PORT0] + tile) * O_WIDTH
        head = 1 if ni[i + FLITS_LEFT] == 0 else 0
        if head:
            bit = entry(s, n, o, wide(ni[i + N_VC_NEXT]), wide(ni[i + N_TO]))
        else:
            bit = goes_on(s, n, o, wide(ni[i + N_VC]))
        if bit == 0:
            kept += 1
            continue
        soon = t + 1
        if head:
            start_packet(s, tile, t)
            ni[i + N_VC] = bit
            ni[i + N_VC_NEXT] = first_bit(bit) + 1
        ni[i + FLITS_LEFT] -= 1
        ni[i + INJECTED] += 1
        tail = 2 if ni[i + FLITS_LEFT] == 0 else 0
        send(s, n, tile, bit, wide(ni[i + N_PACKET]), tail | head)
        if tail == 0 or ni[i + WORDS_LEFT] > 0:
            kept += 1
            continue
        ni[i + DESCRIPTOR] += 1
        ni[i + DESCRIPTORS_LEFT] -= 1
        if ni[i + DESCRIPTORS_LEFT] > 0:
            end_at(s, 4 * tile + 3, t + 1 + DESCRIPTOR_CYCLES)
        else:
            end_at(s, 4 * tile + 2, t + 1)
    n.counts[INJECTING_N] = kept
    return wide(soon)


@hot
def nominate(n: Network, buffer: int, o: int, pick: int, wins: int) -> int:
    """Input VC ``buffer`` is its port's pick for the output port of row ``o``; returns the number
    of outputs with a pick.
    """
    outputs = n.outputs
    key = (n.buffers[buffer + B_NUMBER] >> VC_BITS) - outputs[o + O_NEXT]
    key += outputs[o + O_PORTS] if key < 0 else 0
    best = wide(outputs[o + O_BEST])
    if best < 0:
        n.winners[wins] = o
        wins += 1
    elif key >= outputs[o + O_KEY]:
        return wins
    outputs[o + O_BEST] = buffer
    outputs[o + O_KEY] = key
    outputs[o + O_PICK] = pick
    return wins


@hot
def first_vc(pointer: int, a: int, b: int) -> bool:
    """Whether VC a is before VC b, counted from a pointer on."""
    return (a < pointer) < (b < pointer) or ((a < pointer) == (b < pointer) and a < b)


@hot
def request(s: Engines, n: Network, t: int) -> tuple[int, int]:
    """Stages 1 and 2 and the picks of 3. Returns the number of outputs with a pick and the next
    cycle to look at.

    Goes through the buffers with flits in the order of their places, so that neighbours in the
    network are neighbours in the caches and the VCs of a port follow each other.
    """
    buffers, outputs, v = n.buffers, n.outputs, s.constants[VCS]
    soon, wins, port, pointer = wide(NEVER), 0, wide(-1), 0
    best, best_vc, best_o, best_pick = wide(-1), 0, 0, 0
    for high in range(s.constants[SUMMARY]):
        words = n.summary[high]
        while words:
            word = (high << 6) + first_bit(words)
            units = n.busy[word]
            if units == 0:
                n.summary[high] &= ~(words & -words)
            words &= words - 1
            while units:
                buffer = ((word << 6) + first_bit(units)) * UNIT
                units &= units - 1
                if units and s.constants[FETCH]:
                    prefetch(n.buffers, ((word << 6) + first_bit(units)) * UNIT)
                slot = SLOT_WIDTH * (buffers[buffer + B_HEAD] & buffers[buffer + B_MASK])
                turn = wide(buffers[buffer + B_WIDTH + slot + 1])
                o = (turn >> VC_BITS) * O_WIDTH
                held = wide(buffers[buffer + B_HELD])
                may = turn & VC_MASK & outputs[o + O_FREE_VCS]
                can = (held if held else may) & outputs[o + O_CREDIT_VCS]
                if can == 0:
                    continue
                if outputs[o + O_FREE] > t:
                    soon = min(soon, wide(outputs[o + O_FREE]))
                    continue
                if v == 1:
                    wins = nominate(n, buffer, o, wide(can & -can), wins)
                    continue
                vc = buffers[buffer + B_NUMBER] & VC_MASK
                if buffers[buffer + B_PORT] != port:
                    if best >= 0:
                        wins = nominate(n, best, best_o, best_pick, wins)
                    port = wide(buffers[buffer + B_PORT])
                    pointer = wide(n.inputs[port * I_WIDTH + I_NEXT])
                elif first_vc(pointer, best_vc, vc):
                    continue
                best, best_vc, best_o, best_pick = buffer, vc, o, wide(can & -can)
    if best >= 0:
        wins = nominate(n, best, best_o, best_pick, wins)
    return wins, soon


@hot
def fetch(n: Network, far: int, near: int) -> None:
    """Ask for what the grants of two outputs will touch: of the farther one its row, of the other
    the rows of its input, of the output behind that and of the buffer behind itself.
    """
    prefetch(n.outputs, far)
    buffer = n.outputs[near + O_BEST]
    prefetch(n.buffers, buffer)
    prefetch(n.buffers, max(0, wide(n.outputs[near + O_DOWN])))


@hot
def grant(s: Engines, n: Network, wins: int, t: int) -> None:
    """Stage 4: the flits that won leave their buffers."""
    buffers, outputs, v = n.buffers, n.outputs, s.constants[VCS]
    for index in range(wins):
        if index + AHEAD < wins and s.constants[FETCH]:
            fetch(n, wide(n.winners[index + AHEAD]), wide(n.winners[index + AHEAD // 2]))
        o = wide(n.winners[index])
        buffer, bit = wide(outputs[o + O_BEST]), wide(outputs[o + O_PICK])
        outputs[o + O_BEST] = -1
        head = wide(buffers[buffer + B_HEAD])
        slot = buffer + B_WIDTH + SLOT_WIDTH * (head & buffers[buffer + B_MASK])
        flit = wide(buffers[slot])
        buffers[buffer + B_HEAD] = head + 1
        empty = 1 if buffers[buffer + B_HEAD] == buffers[buffer + B_TAIL] else 0
        n.counts[BUSY_N] -= empty
        n.busy[buffer // UNIT >> 6] &= ~(empty << (buffer // UNIT & 63))
        tail = -(flit >> 1 & 1)
        port = o // O_WIDTH << VC_BITS if s.constants[ANY] else wide(0)
        buffers[buffer + B_HELD] = (port | bit) & ~tail
        outputs[o + O_FREE_VCS] = outputs[o + O_FREE_VCS] & ~bit | bit & tail
        number = (buffers[buffer + B_NUMBER] >> VC_BITS) + 1
        outputs[o + O_NEXT] = 0 if number == outputs[o + O_PORTS] else number
        outputs[o + O_FREE] = t + outputs[o + O_CYCLES]
        outputs[o + O_COUNT] += 1
        vc = 0
        if v > 1:
            n.inputs[buffers[buffer + B_PORT] * I_WIDTH + I_NEXT] = (
                buffers[buffer + B_NUMBER] & VC_MASK
            ) + 1
            vc = first_bit(bit)
        whole = s.constants[WHOLE]
        if whole and tail == 0:
            pass
        elif buffers[buffer + B_QUEUE] < 0:
            credit(s, n, wide(buffers[buffer + B_UP]))
        else:
            under_way(n, wide(buffers[buffer + B_QUEUE]), t, wide(buffers[buffer + B_UP]), 0)
        down = wide(outputs[o + O_DOWN])
        if down >= 0:
            if whole == 0 or flit & 1:
                debit(n, o, wide(o // O_WIDTH * v + vc), bit)
            down += vc * outputs[o + O_STRIDE]
            if outputs[o + O_QUEUE] < 0:
                to = wide(s.destinations[flit >> 2])
                number = wide(buffers[down + B_NUMBER])
                enter(n, down, flit, way(s, n, wide(outputs[o + O_DOWN_NODE]), number, to))
            else:
                n.counts[IN_FLIGHT] += 1
                under_way(n, wide(outputs[o + O_QUEUE]), t, down, flit)
        elif tail:
            at = 2 * ((s.g[DELIVER_HEAD] + s.g[DELIVER_N]) & s.constants[DELIVER_MASK])
            s.deliveries[at] = t + s.constants[EJECTION]
            s.deliveries[at + 1] = flit >> 2
            s.g[DELIVER_N] += 1


@inner
def network_cycle(s: Engines, n: Network, t: int) -> int:
    """Cycle t of all routers and NIs; returns the next cycle in which one of them may do
    something.
    """
    soon = arrive(s, n, t)
    wins, later = request_any(s, n, t) if s.constants[ANY] else request(s, n, t)
    soon = min(soon, later, inject(s, n, t))
    if wins:
        grant(s, n, wins, t)
        soon = t + 1
    return wide(soon)
