"""Wormhole routers, links and network interfaces, a cycle at a time.

Everything is decided on the state at the start of cycle t. In every router:

1. An input virtual channel (VC) whose head flit has arrived requests an output channel: that of
   ``next_hop`` for a packet's head, the one that its packet holds for the other flits. The request
   is valid if the channel is free or held by this VC, if a slot behind it is free and its credit
   is back, and if the link is free again.
2. Each input port picks one of its VCs with a valid request, the first from its pointer on.
3. Each output port picks one of the input ports that picked it, the first from its pointer on.
4. The flit leaves. Both pointers move behind the winners; a head takes the channel, a tail gives
   it up; the link is busy for ``cycles_per_flit``.

The flit is in the next buffer at t + latency of the link, its slot's credit back at the sender at
t + latency of the input's link. Port 0 of a tile delivers and always has room; what is granted in
t is visible at t + SINK_CYCLES. The NI sends a flit a cycle into VC 0 of input port 0 by the same
rules, with a latency of 1 both ways. After a descriptor's last flit, in cycle t, the next one's
first may be sent in t + 1 + DESCRIPTOR_CYCLES; a PUT ends with its last flit. Pointers persist
from step to step, credits and links have all the time between two steps to come home.

A slot says when its flit arrives or, if empty, when its credit does: nothing is listed as under
way. Only buffers with flits are looked at. A cycle in which nothing moved returns the next one
worth looking at.
"""

# ruff: noqa: F403, F405
from tokenpath.hw.arch.timing import DESCRIPTOR_CYCLES, SINK_CYCLES
from tokenpath.sim.compiled import time

from .columns import *
from .events import end_at, note
from .jit import inner, wide
from .state import Engines, Network

put_flits = time.put_flits


@inner
def next_channel(s: Engines, n: Network, node: int, to: int) -> int:
    """Output channel at ``node`` of a packet to tile ``to``: Topology.next_hop from its tables."""
    dims, v, base = s.constants[DIMS], s.constants[VCS], wide(n.node_port0[node])
    tiles = s.constants[TILES]
    if node >= tiles:
        return wide((base + 1 + n.coordinates[to * dims + n.hub_dim[node - tiles]]) * v)
    for i in range(dims):
        x, d = n.coordinates[node * dims + i], n.coordinates[to * dims + i]
        if x != d:
            return wide(base * v + n.routes[n.dim_at[i] + x * n.dim_size[i] + d])
    return wide(base * v)


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


@inner
def start_packet(s: Engines, tile: int, t: int) -> None:
    """Cut the next packet of the NI's descriptor; its head flit is sent in t."""
    i, ni, packets = tile * N_WIDTH, s.interfaces, s.packets
    s.free_packets[0] -= 1
    packet = wide(s.free_packets[1 + s.free_packets[0]])
    words = min(ni[i + WORDS_LEFT], s.constants[MAX_WORDS])
    flits = put_flits(words, s.constants[FLIT_WORDS])
    if s.constants[LOGGING]:
        note(s, 4 * tile + L_INJECT, packet, ni[i + N_FROM], words)
    p = packet * K_WIDTH
    packets[p + K_TO] = ni[i + N_TO]
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


@inner
def enter(n: Network, buffer: int, slot: int, flit: int, when: int) -> None:
    """Put a flit into a free slot of a buffer; it arrives in cycle ``when``."""
    b, buffers = buffer * B_WIDTH, n.buffers
    n.slots[2 * slot] = flit
    n.slots[2 * slot + 1] = when
    fill = buffers[b + B_FILL] + ONE_FLIT
    if fill & LISTED == 0:
        fill |= LISTED
        n.active[n.counts[ACTIVE_N]] = buffer
        n.counts[ACTIVE_N] += 1
    buffers[b + B_FILL] = fill


@inner
def inject(s: Engines, n: Network, t: int) -> int:
    """Every NI with something to send sends a flit if it has a credit; returns the next cycle to
    look at.
    """
    soon, kept, v, ni = NEVER, 0, s.constants[VCS], s.interfaces
    for index in range(n.counts[INJECTING_N]):
        tile = wide(n.injecting[index])
        i = tile * N_WIDTH
        buffer = wide(n.node_port0[tile]) * v
        slot = n.buffers[buffer * B_WIDTH + B_LOW] + ni[i + N_TAIL]
        if n.slots[2 * slot] >= 0 or n.slots[2 * slot + 1] > t:
            if n.slots[2 * slot] < 0:
                soon = min(soon, n.slots[2 * slot + 1])
            n.injecting[kept] = tile
            kept += 1
            continue
        soon = t + 1
        head = 0
        if ni[i + FLITS_LEFT] == 0:
            start_packet(s, tile, t)
            head = 1
        ni[i + FLITS_LEFT] -= 1
        ni[i + INJECTED] += 1
        ni[i + N_TAIL] = (
            0 if slot + 1 == n.buffers[buffer * B_WIDTH + B_HIGH] else ni[i + N_TAIL] + 1
        )
        tail = 2 if ni[i + FLITS_LEFT] == 0 else 0
        enter(n, buffer, slot, ni[i + N_PACKET] << 2 | tail | head, t + 1)
        if tail == 0 or ni[i + WORDS_LEFT] > 0:
            n.injecting[kept] = tile
            kept += 1
            continue
        ni[i + DESCRIPTOR] += 1
        ni[i + DESCRIPTORS_LEFT] -= 1
        if ni[i + DESCRIPTORS_LEFT] > 0:
            end_at(s, 4 * tile + 3, t + 1 + DESCRIPTOR_CYCLES)
        else:
            end_at(s, 4 * tile + 2, t + 1)
    n.counts[INJECTING_N] = kept
    return soon


@inner
def nominate(n: Network, buffer: int, port: int, outputs: int) -> int:
    """Input VC ``buffer`` is its port's pick for output ``port``; returns the number of outputs
    with a pick.
    """
    q, ports = port * Q_WIDTH, n.ports
    key = n.buffers[buffer * B_WIDTH + B_NUMBER] - ports[q + Q_NEXT]
    if key < 0:
        key += ports[q + Q_PORTS]
    if ports[q + Q_BEST] < 0:
        n.outputs[outputs] = port
        outputs += 1
    elif key >= ports[q + Q_KEY]:
        return outputs
    ports[q + Q_BEST] = buffer
    ports[q + Q_KEY] = key
    return outputs


@inner
def request(s: Engines, n: Network, t: int) -> tuple[int, int]:
    """Stages 1 and 2 and the picks of 3. Returns the number of outputs with a pick and the next
    cycle to look at.
    """
    buffers, slots, ports, active, v = n.buffers, n.slots, n.ports, n.active, s.constants[VCS]
    soon, kept, outputs, inputs = NEVER, 0, 0, 0
    for index in range(n.counts[ACTIVE_N]):
        buffer = wide(active[index])
        b = buffer * B_WIDTH
        if buffers[b + B_FILL] < ONE_FLIT:
            buffers[b + B_FILL] = 0
            continue
        active[kept] = buffer
        kept += 1
        slot = buffers[b + B_HEAD]
        if slots[2 * slot + 1] > t:
            soon = min(soon, slots[2 * slot + 1])
            continue
        channel = wide(buffers[b + B_REQUEST])
        if channel < 0:
            node = wide(ports[buffers[b + B_PORT] * Q_WIDTH + Q_NODE])
            channel = next_channel(s, n, node, s.packets[(slots[2 * slot] >> 2) * K_WIDTH + K_TO])
            buffers[b + B_REQUEST] = channel
        h = channel * H_WIDTH
        lock = n.channels[h + H_LOCK]
        if lock >= 0 and lock != buffer:
            continue
        port = wide(n.channels[h + H_PORT])
        if n.channels[h + H_BUFFER] >= 0:
            if ports[port * Q_WIDTH + Q_FREE] > t:
                soon = min(soon, ports[port * Q_WIDTH + Q_FREE])
                continue
            behind = n.channels[h + H_TAIL]
            if slots[2 * behind] >= 0:
                continue
            if slots[2 * behind + 1] > t:
                soon = min(soon, slots[2 * behind + 1])
                continue
        if v == 1:
            outputs = nominate(n, buffer, port, outputs)
            continue
        p = buffers[b + B_PORT] * Q_WIDTH
        best = ports[p + Q_IN_BEST]
        if best < 0:
            n.inputs[inputs] = buffers[b + B_PORT]
            inputs += 1
        elif (buffer - ports[p + Q_IN_NEXT]) % v > (best - ports[p + Q_IN_NEXT]) % v:
            continue
        ports[p + Q_IN_BEST] = buffer
    n.counts[ACTIVE_N] = kept
    for index in range(inputs):
        p = n.inputs[index] * Q_WIDTH
        buffer = wide(ports[p + Q_IN_BEST])
        ports[p + Q_IN_BEST] = -1
        channel = buffers[buffer * B_WIDTH + B_REQUEST]
        outputs = nominate(n, buffer, wide(n.channels[channel * H_WIDTH + H_PORT]), outputs)
    return outputs, soon


@inner
def grant(s: Engines, n: Network, outputs: int, t: int) -> None:
    """Stage 4: the flits that won leave their buffers."""
    buffers, slots, ports, channels, v = n.buffers, n.slots, n.ports, n.channels, s.constants[VCS]
    for index in range(outputs):
        q = n.outputs[index] * Q_WIDTH
        buffer = wide(ports[q + Q_BEST])
        ports[q + Q_BEST] = -1
        b = buffer * B_WIDTH
        slot, h = buffers[b + B_HEAD], buffers[b + B_REQUEST] * H_WIDTH
        flit = wide(slots[2 * slot])
        slots[2 * slot] = -1
        slots[2 * slot + 1] = t + buffers[b + B_LATENCY]
        slot += 1
        buffers[b + B_HEAD] = buffers[b + B_LOW] if slot == buffers[b + B_HIGH] else slot
        buffers[b + B_FILL] -= ONE_FLIT
        if v > 1:
            ports[buffers[b + B_PORT] * Q_WIDTH + Q_IN_NEXT] = (buffer + 1) % v
        following = buffers[b + B_NUMBER] + 1
        ports[q + Q_NEXT] = 0 if following == ports[q + Q_PORTS] else following
        ports[q + Q_FREE] = t + ports[q + Q_CYCLES]
        ports[q + Q_COUNT] += 1
        if flit & 2:
            channels[h + H_LOCK] = -1
            buffers[b + B_REQUEST] = -1
        elif flit & 1:
            channels[h + H_LOCK] = buffer
        behind = wide(channels[h + H_BUFFER])
        if behind >= 0:
            slot = wide(channels[h + H_TAIL])
            channels[h + H_TAIL] = (
                channels[h + H_LOW] if slot + 1 == channels[h + H_HIGH] else slot + 1
            )
            enter(n, behind, slot, flit, t + ports[q + Q_LATENCY])
        elif flit & 2:
            at = 2 * ((s.g[DELIVER_HEAD] + s.g[DELIVER_N]) & s.constants[DELIVER_MASK])
            s.deliveries[at] = t + SINK_CYCLES
            s.deliveries[at + 1] = flit >> 2
            s.g[DELIVER_N] += 1


@inner
def network_cycle(s: Engines, n: Network, t: int) -> int:
    """Cycle t of all routers and NIs; returns the next cycle in which one of them may do
    something.
    """
    outputs, soon = request(s, n, t)
    soon = min(soon, inject(s, n, t))
    if outputs:
        grant(s, n, outputs, t)
        soon = t + 1
    return soon
