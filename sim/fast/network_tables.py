"""The tables of routers and links: buffers, outputs, queues, routes and allocators of an Arch."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenpath.hw.arch.errors import require
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.route_table import read_table
from tokenpath.hw.arch.router_params import RouterParams

from . import columns as c
from .ports import Ports, coordinates_of
from .state import I16, I32, I64, Network

MOST_WORDS = 1 << 31
"""Words of all buffers whose places fit 32 bits: DOWN of an output, an entry of a link."""


def network(arch: Arch) -> Network:
    """Idle routers and links of an Arch. Raises InputError where its ports, the words of its
    buffers, credits or the ports of a router that makes choices don't fit their columns.
    """
    ports = Ports.of(arch.topology)
    buffers, at, blocks = _buffers(arch, ports)
    outputs = _Outputs.of(arch, ports)
    most = int(outputs.flits.max())
    require(
        most <= c.MOST_CREDITS,
        f"a buffer of {most:,} flits, and the fast simulator counts {c.MOST_CREDITS:,} credits; "
        "give less depth or links of less latency",
    )
    queues, length, flit_queue, credit_queue = _queues(arch, outputs)
    _connect(buffers, at.reshape(-1, arch.vcs), outputs, credit_queue)
    router = arch.router
    room = outputs.flits // (arch.packet_flits if router.whole_packets else 1)
    rows = _output_rows(arch, ports, outputs, at[outputs.behind * arch.vcs], flit_queue)
    state = Network(
        counts=np.zeros(c.NETWORK_COUNTS, np.int64),
        buffers=buffers,
        outputs=rows,
        credits=rows.view(np.int16),
        busy=np.zeros(blocks[-1], np.int64),
        summary=np.zeros(-(-len(blocks) // 64), np.int64),
        blocks=blocks.astype(np.int32),
        injecting=np.zeros(arch.tiles + 1, np.int32),
        winners=np.zeros((ports.most << c.BLOCK_BITS) + 1, np.int32),
        queues=queues,
        links=np.zeros(length, np.int64),
        node_port0=ports.node_port0.astype(np.int32),
        room=room.astype(np.int32).reshape(-1),
        port_ring=_port_rings(arch),
        table=_table(arch),
        **_routes(arch),
        **_allocation(arch, ports),
    )
    reset(state, arch.vcs)
    return state


def reset(network: Network, vcs: int) -> None:
    """Between steps: all credits and links have come home; pointers stay where they are."""
    outputs = network.outputs.reshape(-1, c.O_WIDTH)
    room = np.where(outputs[:, [c.O_DOWN]] < 0, 1, network.room.reshape(-1, vcs))
    credits_of(network, vcs)[:] = room
    has = ((room > 0) << np.arange(vcs)).sum(axis=1)
    outputs[:, c.O_VCS] = c.VC_MASK << c.VC_BITS | has
    outputs[:, c.O_FREE] = outputs[:, c.O_COUNT] = 0
    queues = queue_rows(network)
    queues[:, c.U_FIRST] = queues[:, c.U_LAST] = 0
    queues[:, c.U_OPEN] = queues[:, c.U_NEXT] = queues[:, c.U_BEGIN]


def credits_of(network: Network, vcs: int) -> I16:
    """Credits of the VCs of each output (outputs, VCs)."""
    credits = network.credits.reshape(-1, 2 * c.O_WIDTH)
    found: I16 = credits[:, 2 * c.O_CREDITS : 2 * c.O_CREDITS + vcs]
    return found


def queue_rows(network: Network) -> I64:
    """The rows of the queues, before those of their batches."""
    rows: I64 = network.queues[: network.queues[c.U_BATCHES]].reshape(-1, c.U_WIDTH)
    return rows


def buffer_depths(arch: Arch) -> list[int]:
    """Depth of an input buffer: of the local port, then behind a link of each dimension."""
    return [
        arch.router.local_flits,
        *(arch.router.buffer_flits(dim.tier) for dim in arch.topology.dims),
    ]


def _aligned(words: int) -> I32:
    """Zeros that begin with a cache line."""
    store = np.zeros(words + 16, np.int32)
    skip = -store.ctypes.data % 64 // 4
    return store[skip : skip + words]


def _buffer_sizes(arch: Arch) -> tuple[I64, I64]:
    """Slots of an input buffer, and words of it in whole lines: of the local port, then of each
    dimension.
    """
    slots = np.array([max(4, 1 << (depth - 1).bit_length()) for depth in buffer_depths(arch)])
    return slots, -(-(c.B_WIDTH + c.SLOT_WIDTH * slots) // c.LINE) * c.LINE


def _places(ports: Ports, words: I64, vcs: int, unit: int) -> tuple[I64, I64]:
    """Where each input buffer of ``words`` begins: blocks of nodes at multiples of 64 units. And
    the first word of ``busy`` of each block, with the end behind them.
    """
    at = np.cumsum(words) - words
    first = ports.node_port0[:-1][:: 1 << c.BLOCK_BITS] * vcs
    sizes = np.add.reduceat(words, first)
    blocks = np.concatenate([[0], np.cumsum(-(-sizes // (64 * unit)))])
    block = np.repeat(ports.node, vcs) >> c.BLOCK_BITS
    return at + (64 * unit * blocks[:-1] - at[first])[block], blocks


def _buffers(arch: Arch, ports: Ports) -> tuple[I32, I64, I64]:
    """Rows of the empty input buffers, where each begins, and the first word of ``busy`` of each
    block of nodes, whose unit is the largest power of two that divides all sizes.
    """
    v, (slots, words) = arch.vcs, _buffer_sizes(arch)
    unit = int(np.bitwise_or.reduce(words) & -np.bitwise_or.reduce(words))
    kind = np.repeat(ports.dims + 1, v)
    at, blocks = _places(ports, words[kind], v, unit)
    port, vc = np.divmod(np.arange(len(at)), v)
    total = int(blocks[-1]) * 64 * unit
    require(
        total <= MOST_WORDS,
        f"the buffers of router {arch.router} on {arch.topology} take {total:,} words, and the "
        f"fast simulator has {MOST_WORDS:,}; give less depth, links of less latency, or fewer "
        "tiles",
    )
    assert ports.most < 1 << 31 - c.PORT_BITS  # as tables of routes end at a size of 4096
    buffers = _aligned(total)
    buffers[at + c.B_MASK] = slots[kind] - 1
    buffers[at + c.B_PORT] = port
    buffers[at + c.B_NODE] = ports.node[port]
    buffers[at + c.B_NUMBER] = ports.number[port] << c.PORT_BITS | vc
    return buffers, at, blocks


@dataclass(frozen=True, kw_only=True)
class _Outputs:
    """All outputs, of the ports and behind them of the tiles' interfaces: the port that each leads
    to (``behind``; -1: none), those that lead to one (``linked``), latency and cycles a flit of the
    way there, and the slots behind each VC (outputs, VCs).
    """

    behind: I64
    linked: I64
    latency: I64
    cycles: I64
    flits: I64

    @classmethod
    def of(cls, arch: Arch, ports: Ports) -> "_Outputs":
        tiles, total = arch.tiles, len(ports.node)
        tiers, interface = [dim.tier for dim in arch.topology.dims], np.ones(arch.tiles, np.int64)
        latency = np.array([1, *(tier.latency_cycles for tier in tiers)])[ports.dims + 1]
        cycles = np.array([1, *(tier.cycles_per_flit for tier in tiers)])[ports.dims + 1]
        behind = np.concatenate([ports.down, ports.node_port0[:tiles]])
        linked = np.flatnonzero(behind >= 0)
        flits = np.zeros((total + tiles, arch.vcs), np.int64)
        flits[linked] = np.array(buffer_depths(arch))[ports.dims[behind[linked]] + 1][:, None]
        flits[total:, arch.router.local :] = 0
        return cls(
            behind=behind,
            linked=linked,
            latency=np.concatenate([latency, interface]),
            cycles=np.concatenate([cycles, interface]),
            flits=flits,
        )


def _output_rows(arch: Arch, ports: Ports, outputs: _Outputs, down: I64, queue: I64) -> I32:
    """Rows of the outputs, without credits: ``down``, the first buffer behind each; ``queue`` of
    those that are linked.
    """
    rows = _aligned(len(down) * c.O_WIDTH)
    table = rows.reshape(-1, c.O_WIDTH)
    table[:, c.O_DOWN] = np.where(outputs.behind < 0, -1, down)
    table[:, c.O_STRIDE] = _buffer_sizes(arch)[1][ports.dims[outputs.behind] + 1]
    table[: len(ports.node), c.O_PORTS] = np.diff(ports.node_port0)[ports.node]
    table[:, c.O_CYCLES] = outputs.cycles
    table[outputs.linked, c.O_QUEUE] = queue * c.U_WIDTH + c.U_NEXT
    table[:, c.O_KEY] = c.FAR
    return rows


def _connect(buffers: I32, at: I64, outputs: _Outputs, queue: I64) -> None:
    """Tell buffers, those of a port beside each other in ``at``, where their credits go, and by
    which ``queue``.
    """
    for vc, there in enumerate(at[outputs.behind[outputs.linked]].T):
        buffers[there + c.B_UP] = outputs.linked << c.UP_BITS | vc
        buffers[there + c.B_NUMBER] |= queue << c.VC_BITS


def _queues(arch: Arch, outputs: _Outputs) -> tuple[I64, int, I64, I64]:
    """Queues of flits and of credits: their rows and batches, entries of them all, and of each
    output that is linked the queue of its flits and that of the credits that come back. There is
    room for all that can be under way, for what is sent in a cycle, and for as much that is left
    free at the end.
    """
    linked = outputs.linked
    back, cycles = outputs.latency[linked], outputs.cycles[linked]
    there, room = back + arch.router.extra_cycles, outputs.flits[linked].sum(axis=1)
    kinds = [(0, x) for x in sorted(set(there.tolist()))]
    kinds += [(1, x) for x in sorted(set(back.tolist()))]
    rows, queues = np.zeros((len(kinds), c.U_WIDTH), np.int64), np.zeros((2, len(there)), np.int64)
    assert len(kinds) <= c.QUEUE_MASK + 1  # of two and more tiles 24 dimensions at most
    entries, batches = 0, rows.size
    for i, (credits, latency) in enumerate(kinds):
        links = (there, back)[credits] == latency
        most = np.minimum(room, latency // (1 if credits else cycles) + 2)[links].sum()
        count, ring = links.sum(), 1 << latency.bit_length()
        rows[i, [c.U_CREDITS, c.U_LATENCY]] = credits, latency
        rows[i, [c.U_BEGIN, c.U_LIMIT]] = entries, entries + most + count
        rows[i, [c.U_BATCHES, c.U_MASK]] = batches, ring - 1
        queues[credits, links] = i
        entries, batches = entries + int(most + 2 * count), batches + ring * c.H_WIDTH
    state = np.zeros(batches, np.int64)
    state[: rows.size] = rows.reshape(-1)
    return state, entries + c.AHEAD, queues[0], queues[1]


def _routes(arch: Arch) -> dict[str, Any]:
    """How to find a route: tables of all dimensions, entries ``port << VC_BITS | VCs`` of a tile, 0
    for arrived, and of each tile where it is in them.
    """
    topology, tiles = arch.topology, arch.tiles
    dims, parts, at = len(topology.dims), [], [0]
    for i, dim in enumerate(topology.dims):
        table = np.array(topology.dim_table(i), np.int64).reshape(dim.size, dim.size, 2)
        allowed = np.array([arch.router.allowed(dim, dateline) for dateline in range(2)])
        routes = (topology.port_base[i] + table[..., 0]) << c.VC_BITS | allowed[table[..., 1]]
        np.fill_diagonal(routes, 0)
        parts.append(routes.reshape(-1))
        at.append(at[-1] + dim.size * dim.size)
    coordinates = np.zeros((tiles, max(2, dims)), np.int64)
    rows = np.zeros_like(coordinates)
    coordinates[:, :dims] = coordinates_of(topology)
    rows[:, :dims] = at[:-1] + coordinates[:, :dims] * [dim.size for dim in topology.dims]
    hub_dim = [topology.switch_of(node)[0] for node in range(tiles, topology.nodes)]
    return {
        "coordinates": coordinates.astype(np.int32).reshape(-1),
        "hub_dim": np.array(hub_dim or [0], np.int32),
        "rows": rows.astype(np.int32).reshape(-1),
        "routes": np.concatenate(parts).astype(np.int32),
    }


def _table(arch: Arch) -> I32:
    """The outputs of a routing table, in a line; 0 without one."""
    if arch.router.routing != "table":
        return np.zeros(1, np.int32)
    return np.array(read_table(arch.router.routes, arch.topology), np.int32).reshape(-1)


def _port_rings(arch: Arch) -> I32:
    """Of each port of a tile the dimension + 1 if that is a ring which routes see, else 0."""
    topology = arch.topology
    if arch.router.routing == "table":
        return np.zeros(topology.port_base[-1], np.int32)
    rings = [i + 1 if dim.is_ring else 0 for i, dim in enumerate(topology.dims)]
    ports = [rings[i] for i, dim in enumerate(topology.dims) for _ in range(dim.ports)]
    return np.array([0, *ports], np.int32)


def makes_choices(router: RouterParams) -> bool:
    """Whether routers make choices that only ``allocators.request_any`` knows."""
    plain = router.allocator == "input_first" and router.arbiter == "round_robin"
    return not plain or router.adaptive or router.whole_packets or router.stages > 2


def _arbiter_words(arch: Arch, ports: Ports) -> int:
    """Words of an arbiter: a pointer, or how late each number was served."""
    most = ports.most
    return max(most, arch.vcs) if arch.router.arbiter == "matrix" else 1


def _allocation(arch: Arch, ports: Ports) -> dict[str, Any]:
    """State and scratch of ``allocators``: almost nothing for routers that don't need it."""
    if not makes_choices(arch.router):
        return {
            "arbiters": np.zeros(1, np.int64),
            "asking": np.zeros(1, np.int32),
            "matching": np.zeros(1, np.int64),
        }
    require(
        ports.most <= c.MOST_PORTS,
        f"router {arch.router} on {arch.topology} has {ports.most} ports, and the fast simulator "
        f"matches at most {c.MOST_PORTS}; give a plain router as wormhole-d4 or vc2-d4, or smaller "
        "dimensions",
    )
    words = _arbiter_words(arch, ports)
    arbiters = np.zeros((len(ports.node), c.ARBITERS, words), np.int64)
    if words > 1:
        arbiters[:, : c.DIAGONAL] = np.arange(words) - words
    return {
        "arbiters": arbiters.reshape(-1),
        "asking": np.zeros(c.Q_WIDTH * (c.MOST_PORTS * arch.vcs + 1), np.int32),
        "matching": np.zeros(c.MATCHING, np.int64),
    }
