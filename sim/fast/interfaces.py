"""Network interfaces (NIs), which send the packets of PUTs, a cycle at a time.

The NI sends a flit a cycle into input port 0 of its tile's router, with a latency of 1 both ways. A
packet takes the first virtual channel (VC) with a credit from a pointer on, which moves behind it;
of ``ordered`` routers, the VC of its destination. Where a credit is room for a whole
packet only heads need one. After a descriptor's last flit, in cycle t, the next one's first may be
sent in t + 1 + DESCRIPTOR_CYCLES; a PUT ends with its last flit. Pointers persist from step to
step.
"""

# ruff: noqa: F403, F405
from tokenpath.hw.arch.timing import DESCRIPTOR_CYCLES
from tokenpath.sim.compiled import time

from .columns import *
from .events import end_at, note
from .jit import first_bit, hot, inner, wide
from .network import debit, down_buffer, enter
from .state import Engines, Network
from .ways import first_channel

put_flits = time.put_flits


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
def free_vc(n: Network, o: int, pointer: int) -> int:
    """The first VC with a credit of the output of row ``o``, from a pointer on, as a bit; or 0."""
    can = n.outputs[o + O_VCS] & VC_MASK
    behind = can >> pointer << pointer
    found = behind if behind else can
    return wide(found & -found)


@hot
def entry(s: Engines, n: Network, o: int, pointer: int, to: int) -> int:
    """The VC, as a bit, with which a packet to tile ``to`` begins at the NI's output of row ``o``,
    or 0 if it has to wait for a credit.
    """
    if s.constants[ORDERED]:
        return wide(first_channel(s, n, to) & n.outputs[o + O_VCS])
    return free_vc(n, o, pointer)


@hot
def goes_on(s: Engines, n: Network, o: int, bit: int) -> int:
    """Whether a flit behind a packet's head can follow on VC ``bit``, as 0 or not."""
    return bit if s.constants[WHOLE] else wide(bit & n.outputs[o + O_VCS])


@hot
def send(s: Engines, n: Network, tile: int, bit: int, packet: int, ends: int) -> None:
    """A tile's flit, ``tail << 1 | head``, goes to its router on a VC that has a credit."""
    o, vc = (s.constants[NI_PORT0] + tile) * O_WIDTH, first_bit(bit)
    if ends & 1 or s.constants[WHOLE] == 0:
        debit(n, o, vc)
    enter(s, n, down_buffer(n, o, vc), packet << 2 | ends)
    n.counts[FLITS] += 1


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
