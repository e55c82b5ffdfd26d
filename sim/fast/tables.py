"""Tables of the kernels, built from a Program and its Topology."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenpath.hw.arch import isa
from tokenpath.hw.arch.isa import COLUMN, Engine, Op
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Program
from tokenpath.hw.arch.router_params import ALLOCATORS, RouterParams
from tokenpath.hw.arch.timing import SINK_CYCLES
from tokenpath.hw.arch.topology import Topology

from . import columns as c
from .state import I32, I64, Engines, Network

PACKETS = 1024
"""Packets under way that a machine has room for at first; it doubles as often as needed."""


@dataclass(frozen=True, kw_only=True)
class CodeTable:
    """Instructions of all classes in one table; ``first[c, e]`` is the first row of engine e of
    class c, ``[c, 3]`` the end.
    """

    rows: I64
    first: I64
    labels: tuple[str, ...]
    label_of: I64

    @classmethod
    def build(cls, program: Program) -> "CodeTable":
        rows: list[tuple[int, ...]] = []
        first = np.zeros((len(program.code), 4), np.int64)
        names: dict[str, int] = {}
        label_of: list[int] = []
        for index, code in enumerate(program.code):
            for engine in Engine:
                first[index, engine] = len(rows)
                rows += code.engines[engine]
                labels = code.labels[engine] or ("",) * len(code.engines[engine])
                label_of += [names.setdefault(label, len(names)) for label in labels]
            first[index, 3] = len(rows)
        table = np.zeros((max(1, len(rows)), c.CODE_WIDTH), np.int64)
        if rows:
            table[: len(rows), : len(isa.LAYOUT)] = np.array(rows, np.int64)
        return cls(
            rows=table,
            first=first,
            labels=tuple(names) or ("",),
            label_of=np.array(label_of or [0], np.int64),
        )

    def used(self, *columns: str) -> int:
        """One more than the largest value in the columns."""
        return 1 + max(int(self.rows[:, COLUMN[c]].max()) for c in columns)

    def streams(self) -> int:
        """The most STREAM instructions of a class."""
        is_stream = np.concatenate([[0], np.cumsum(self.rows[:, COLUMN["op"]] == Op.STREAM)])
        return int((is_stream[self.first[:, 3]] - is_stream[self.first[:, 0]]).max())


def buffer_depths(arch: Arch) -> list[int]:
    """Depth of an input buffer: of the local port, then behind a link of each dimension."""
    return [arch.router.depth, *(arch.router.buffer_flits(dim.tier) for dim in arch.topology.dims)]


def _tile_ports(topology: Topology, down: I64, node_port0: I64) -> None:
    """Where the link ports of all tiles lead, for all tiles at a position at once."""
    tile = np.arange(topology.tiles)
    for i, (dim, stride) in enumerate(zip(topology.dims, topology.strides, strict=True)):
        base, by_position = topology.port_base[i], tile.reshape(-1, dim.size, stride)
        for x in range(dim.size):
            here = by_position[:, x].reshape(-1)
            for offset in range(dim.ports):
                arrived = dim.step(x, offset)
                if arrived is None:
                    continue
                y, back = arrived
                if y == dim.size:  # behind each other in the order of the tiles at position 0
                    hub = topology.switch_base[i] + np.arange(len(here))
                    there = node_port0[hub] + 1 + back
                else:
                    there = node_port0[here + (y - x) * stride] + base + back
                down[node_port0[here] + base + offset] = there


def _hub_ports(topology: Topology, down: I64, node_port0: I64) -> None:
    for node in range(topology.tiles, topology.nodes):
        for port in range(1, topology.ports(node)):
            arrived = topology.neighbour(node, port)
            assert arrived is not None
            down[node_port0[node] + port] = node_port0[arrived[0]] + arrived[1]


@dataclass(frozen=True, kw_only=True)
class _Ports:
    """All ports of all nodes: the dimension (-1: local), the node, its number there, the port that
    it leads to (-1: none), the first port of each node.
    """

    dims: I64
    node: I64
    number: I64
    down: I64
    node_port0: I64

    @classmethod
    def of(cls, topology: Topology) -> "_Ports":
        tiles, per_tile = topology.tiles, topology.port_base[-1]
        hubs = [topology.switch_of(n)[0] for n in range(tiles, topology.nodes)]
        counts = np.concatenate(
            [np.full(tiles, per_tile), [1 + topology.dims[i].size for i in hubs]]
        ).astype(np.int64)
        node_port0 = np.concatenate([[0], np.cumsum(counts)])
        node = np.repeat(np.arange(topology.nodes), counts)
        tile_dims = [-1] + [i for i, dim in enumerate(topology.dims) for _ in range(dim.ports)]
        dims = np.concatenate(
            [np.tile(tile_dims, tiles), *([np.full(1 + topology.dims[i].size, i) for i in hubs])]
        ).astype(np.int64)
        down = np.full(len(node), -1, np.int64)
        _tile_ports(topology, down, node_port0)
        _hub_ports(topology, down, node_port0)
        number = np.arange(len(node)) - node_port0[node]
        return cls(dims=dims, node=node, number=number, down=down, node_port0=node_port0)


def _routes(arch: Arch) -> tuple[I64, I64]:
    """The tables of all dimensions, entries ``port << VC_BITS | VCs`` of a tile, 0 for arrived;
    where each begins.
    """
    topology, parts, at = arch.topology, [], [0]
    for i, dim in enumerate(topology.dims):
        table = np.array(topology.dim_table(i), np.int64).reshape(dim.size, dim.size, 2)
        allowed = np.array([arch.router.allowed(dim, dateline) for dateline in range(2)])
        routes = (topology.port_base[i] + table[..., 0]) << c.VC_BITS | allowed[table[..., 1]]
        np.fill_diagonal(routes, 0)
        parts.append(routes.reshape(-1))
        at.append(at[-1] + dim.size * dim.size)
    return np.concatenate(parts), np.array(at, np.int64)


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


def _places(ports: _Ports, words: I64, vcs: int, unit: int) -> tuple[I64, I64]:
    """Where each input buffer of ``words`` begins: blocks of nodes at multiples of 64 units. And
    the first word of ``busy`` of each block, with the end behind them.
    """
    at = np.cumsum(words) - words
    first = ports.node_port0[:-1][:: 1 << c.BLOCK_BITS] * vcs
    sizes = np.add.reduceat(words, first)
    blocks = np.concatenate([[0], np.cumsum(-(-sizes // (64 * unit)))])
    block = np.repeat(ports.node, vcs) >> c.BLOCK_BITS
    return at + (64 * unit * blocks[:-1] - at[first])[block], blocks


def _buffers(arch: Arch, ports: _Ports) -> tuple[I32, I64, I64]:
    """Rows of the empty input buffers, where each begins, and the first word of ``busy`` of each
    block of nodes, whose unit is the largest power of two that divides all sizes.
    """
    v, (slots, words) = arch.vcs, _buffer_sizes(arch)
    unit = int(np.bitwise_or.reduce(words) & -np.bitwise_or.reduce(words))
    kind = np.repeat(ports.dims + 1, v)
    at, blocks = _places(ports, words[kind], v, unit)
    port, vc = np.divmod(np.arange(len(at)), v)
    buffers = _aligned(int(blocks[-1]) * 64 * unit)
    buffers[at + c.B_MASK] = slots[kind] - 1
    buffers[at + c.B_PORT] = port
    buffers[at + c.B_NODE] = ports.node[port]
    buffers[at + c.B_NUMBER] = ports.number[port] << c.PORT_BITS | vc
    return buffers, at, blocks


def _queues(there: I64, back: I64, cycles: I64, room: I64) -> tuple[I64, int, I64, I64]:
    """Queues of flits and of credits for links with these latencies, cycles a flit, and slots
    behind them: their rows and batches, entries of them all, and of each link the queue of its
    flits and that of its credits. There is room for all that can be under way, for what is sent in
    a cycle, and for as much that is left free at the end.
    """
    kinds = [(0, x) for x in sorted(set(there.tolist()))]
    kinds += [(1, x) for x in sorted(set(back.tolist()))]
    rows, queues = np.zeros((len(kinds), c.U_WIDTH), np.int64), np.zeros((2, len(there)), np.int64)
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


def queue_rows(network: Network) -> I64:
    """The rows of the queues, before those of their batches."""
    rows: I64 = network.queues[: network.queues[c.U_BATCHES]].reshape(-1, c.U_WIDTH)
    return rows


def reset(network: Network, vcs: int) -> None:
    """Between steps: all credits and links have come home; pointers stay where they are."""
    outputs = network.outputs.reshape(-1, c.O_WIDTH)
    room = np.where(outputs[:, [c.O_DOWN]] < 0, 1, network.room.reshape(-1, vcs))
    outputs[:, c.O_CREDITS : c.O_CREDITS + vcs] = room
    has = ((room > 0) << np.arange(vcs)).sum(axis=1)
    outputs[:, c.O_VCS] = c.VC_MASK << c.VC_BITS | has
    outputs[:, c.O_FREE] = outputs[:, c.O_COUNT] = 0
    queues = queue_rows(network)
    queues[:, c.U_FIRST] = queues[:, c.U_LAST] = 0
    queues[:, c.U_OPEN] = queues[:, c.U_NEXT] = queues[:, c.U_BEGIN]


def coordinates_of(topology: Topology) -> I64:
    """Of each tile (tiles, dims)."""
    tile = np.arange(topology.tiles)
    sizes = zip(topology.dims, topology.strides, strict=True)
    return np.stack([tile // stride % dim.size for dim, stride in sizes], axis=1)


def network(arch: Arch) -> Network:
    """Idle routers and links of an Arch."""
    topology = arch.topology
    v, tiles = arch.vcs, topology.tiles
    ports = _Ports.of(topology)
    buffers, at, blocks = _buffers(arch, ports)
    total, depths = len(ports.node), np.array(buffer_depths(arch))
    latency = np.array([1] + [dim.tier.latency_cycles for dim in topology.dims])[ports.dims + 1]
    cycles = np.array([1] + [dim.tier.cycles_per_flit for dim in topology.dims])[ports.dims + 1]
    local, has = ports.node_port0[:tiles], np.flatnonzero(ports.down >= 0)
    behind = np.concatenate([ports.down, local])
    has = np.concatenate([has, total + np.arange(tiles)])
    latency, cycles = (np.concatenate([x, np.ones(tiles, np.int64)]) for x in (latency, cycles))
    outputs = np.zeros((total + tiles, c.O_WIDTH), np.int64)
    outputs[:, c.O_DOWN] = np.where(behind < 0, -1, at[behind * v])
    outputs[:, c.O_BEST] = -1
    kinds = np.zeros((total + tiles, c.Y_WIDTH), np.int64)
    kinds[:, c.Y_STRIDE] = _buffer_sizes(arch)[1][ports.dims[behind] + 1]
    kinds[:total, c.Y_PORTS] = np.diff(ports.node_port0)[ports.node]
    kinds[:, c.Y_CYCLES] = cycles
    flits = np.zeros((total + tiles, v), np.int64)
    flits[has] = depths[ports.dims[behind[has]] + 1][:, None]
    flits[total:, arch.router.local :] = 0
    room = flits // (arch.packet_flits if arch.router.whole_packets else 1)
    queues, length, flit_queue, credit_queue = _queues(
        latency[has] + arch.router.extra_cycles, latency[has], cycles[has], flits[has].sum(axis=1)
    )
    kinds[has, c.Y_QUEUE] = flit_queue
    kinds, kind = np.unique(kinds, axis=0, return_inverse=True)
    outputs[:, c.O_KIND] = kind.reshape(-1) * c.Y_WIDTH
    for vc in range(v):
        there = at[behind[has] * v + vc]
        buffers[there + c.B_UP] = has << c.UP_BITS | vc
        buffers[there + c.B_NUMBER] |= credit_queue << c.VC_BITS
    routes, table_at = _routes(arch)
    here, dims = coordinates_of(topology), len(topology.dims)
    coordinates = np.zeros((tiles, max(2, dims)), np.int64)
    rows = np.zeros_like(coordinates)
    coordinates[:, :dims] = here
    rows[:, :dims] = table_at[:-1] + here * np.array([dim.size for dim in topology.dims])
    hub_dim = [topology.switch_of(n)[0] for n in range(tiles, topology.nodes)]
    aligned = _aligned(outputs.size)
    aligned[:] = outputs.reshape(-1)
    state = Network(
        counts=np.zeros(c.NETWORK_COUNTS, np.int64),
        buffers=buffers,
        outputs=aligned,
        kinds=kinds.astype(np.int32).reshape(-1),
        busy=np.zeros(blocks[-1], np.int64),
        summary=np.zeros(-(-len(blocks) // 64), np.int64),
        blocks=blocks.astype(np.int32),
        injecting=np.zeros(tiles + 1, np.int32),
        winners=np.full(np.diff(ports.node_port0).max() << c.BLOCK_BITS, c.NEVER),
        queues=queues,
        links=np.zeros(length, np.int64),
        node_port0=ports.node_port0.astype(np.int32),
        coordinates=coordinates.astype(np.int32).reshape(-1),
        hub_dim=np.array(hub_dim or [0], np.int32),
        rows=rows.astype(np.int32).reshape(-1),
        routes=routes.astype(np.int32),
        room=room.astype(np.int32).reshape(-1),
        port_ring=_port_rings(topology),
        **_allocation(arch, ports),
    )
    reset(state, v)
    return state


def _port_rings(topology: Topology) -> I32:
    """Of each port of a tile the dimension + 1 if that is a ring, else 0."""
    rings = [i + 1 if dim.is_ring else 0 for i, dim in enumerate(topology.dims)]
    ports = [rings[i] for i, dim in enumerate(topology.dims) for _ in range(dim.ports)]
    return np.array([0, *ports], np.int32)


def _any(router: RouterParams) -> bool:
    """Whether routers make choices that only ``allocators.request_any`` knows."""
    plain = router.allocator == "input_first" and router.arbiter == "round_robin"
    return not plain or router.adaptive or router.whole_packets or router.stages > 2


def _arbiter_words(arch: Arch, ports: _Ports) -> int:
    """Words of an arbiter: a pointer, or how late each number was served."""
    most = int(np.diff(ports.node_port0).max())
    return max(most, arch.vcs) if arch.router.arbiter == "matrix" else 1


def _allocation(arch: Arch, ports: _Ports) -> dict[str, Any]:
    """State and scratch of ``allocators``: almost nothing for routers that don't need it."""
    if not _any(arch.router):
        return {
            "arbiters": np.zeros(1, np.int64),
            "asking": np.zeros(1, np.int32),
            "matching": np.zeros(1, np.int64),
        }
    words = _arbiter_words(arch, ports)
    arbiters = np.zeros((len(ports.node), c.ARBITERS, words), np.int64)
    if words > 1:
        arbiters[:, : c.DIAGONAL] = np.arange(words) - words
    return {
        "arbiters": arbiters.reshape(-1),
        "asking": np.zeros(c.Q_WIDTH * (c.MOST_PORTS * arch.vcs + 1), np.int32),
        "matching": np.zeros(c.MATCHING, np.int64),
    }


def only_network(arch: Arch, network: Network, packets: int) -> Engines:
    """What routers need of Engines, for ``packets`` under way: no tile has an instruction."""
    return no_engines(arch.tiles, _constants(arch, network, {}), packets)


def no_engines(tiles: int, constants: I64, packets: int) -> Engines:
    """Engines of tiles without an instruction, with room for ``packets`` under way."""
    nothing, mask = np.zeros(1, np.int64), (1 << (4 * tiles).bit_length()) - 1
    constants[c.DELIVER_MASK] = mask
    return Engines(
        g=np.zeros(c.GLOBALS, np.int64),
        constants=constants,
        code=nothing, engines=nothing, interfaces=nothing, streams=nothing, pairs=nothing,
        semaphores=np.zeros(1, np.int32),
        registers=np.zeros(1, np.int32),
        descriptors=np.zeros(1, np.int32),
        heap=np.zeros(4 * tiles + 1, np.int64),
        calendar=np.full(c.CALENDAR, -1, np.int32),
        following=np.zeros(4 * tiles, np.int32),
        ready=nothing,
        deliveries=np.zeros(2 * (mask + 1), np.int64),
        packets=nothing, free_packets=nothing,
        destinations=np.zeros(packets, np.int32),
        log=nothing,
        records=np.zeros(1, np.int32),
        record0=nothing,
    )  # fmt: skip


_ROUTINGS = {
    "dimension_order": c.PLAIN,
    "o1turn": c.O1TURN,
    "west_first": c.WEST_FIRST,
    "odd_even": c.ODD_EVEN,
}


def _constants(arch: Arch, network: Network, more: dict[int, int]) -> I64:
    """The constants of routers, and others."""
    constants = np.zeros(c.CONSTANTS, np.int64)
    ports, router = len(network.outputs) // c.O_WIDTH - arch.tiles, arch.router
    bubble = router.switching == "bubble"
    values = {
        c.TILES: arch.tiles,
        c.VCS: arch.vcs,
        c.DIMS: len(network.coordinates) // arch.tiles,
        c.EJECTION: SINK_CYCLES + arch.router.extra_cycles,
        c.LOCAL_VCS: (1 << arch.router.local) - 1,
        c.SUMMARY: len(network.summary),
        c.NI_PORT0: ports,
        c.UNIT: (len(network.buffers) // len(network.busy) // 64).bit_length() - 1,
        c.QUEUES: len(queue_rows(network)),
        c.ROUTING: _ROUTINGS[router.routing] or (router.ordered or bubble),
        c.ORDERED: router.ordered,
        c.BUBBLE: bubble,
        c.WHOLE: router.whole_packets,
        c.ALLOCATOR: ALLOCATORS.index(router.allocator),
        c.ITERATIONS: router.iterations,
        c.MATRIX: router.arbiter == "matrix",
        c.STAGES: router.stages,
        c.HALF: router.vcs // 2,
        c.ARBITER: len(network.arbiters) // c.ARBITERS // ports,
        c.ANY: _any(router),
        **more,
    }
    constants[list(values)] = list(values.values())
    return constants


def _flat(buffer: memoryview) -> I32:
    """A flat view of an image."""
    flat: I32 = np.ascontiguousarray(buffer, np.int32).reshape(-1)
    return flat


def engines(
    program: Program, code: CodeTable, network: Network, *, trace: bool, logging: bool
) -> Engines:
    """Engines, memory-side state and work lists of a Program before its first step."""
    arch, tiles = program.arch, program.tiles
    registers = code.used(*(c for c in COLUMN if c.endswith("_reg")))
    registers = (
        max(registers, *(rule.register + 1 for rule in program.rules), 1)
        if program.rules
        else registers
    )
    semaphores = code.used("wait", "post", "y")
    pairs = min(arch.stream_depth + 3, code.streams() + 1)
    log_size = max(1 << 13, 12 * tiles) if logging else 1
    mask = (1 << (4 * tiles).bit_length()) - 1
    assert program.descriptors.shape is not None
    more = {
        c.REGISTERS: registers,
        c.SEMAPHORES: semaphores,
        c.LANES: arch.lanes,
        c.VLANES: arch.vlanes,
        c.BLOCK: arch.numeric.block,
        c.STORE_LATENCY: arch.store_latency,
        c.STREAM_DEPTH: arch.stream_depth,
        c.PAIRS: pairs,
        c.MAX_WORDS: arch.max_packet_words,
        c.FLIT_WORDS: arch.flit_words,
        c.TRACE: trace,
        c.LOGGING: logging,
        c.LOG_SIZE: log_size,
        c.DELIVER_MASK: mask,
        c.DESCRIPTORS: program.descriptors.shape[1],
    }
    constants = _constants(arch, network, more)
    class_of = np.array(program.tile_code, np.int64)
    rows = np.zeros((tiles, 4, c.E_WIDTH), np.int64)
    rows[:, :3, c.CODE0] = code.first[class_of, 0][:, None]
    sizes = (code.first[:, 3] - code.first[:, 0])[class_of]
    record0 = np.concatenate([[0], np.cumsum(sizes)])
    image = np.array(np.asarray(program.registers).reshape(tiles, -1)[:, :registers], np.int32)
    image[:, 0] = 0
    return Engines(
        g=np.zeros(c.GLOBALS, np.int64),
        constants=constants,
        code=code.rows.reshape(-1),
        engines=rows.reshape(-1),
        interfaces=np.zeros(tiles * c.N_WIDTH, np.int64),
        streams=np.zeros(tiles * c.S_WIDTH, np.int64),
        pairs=np.zeros(tiles * pairs * c.P_WIDTH, np.int64),
        semaphores=np.zeros(tiles * semaphores, np.int32),
        registers=np.ascontiguousarray(image).reshape(-1),
        descriptors=_flat(program.descriptors),
        heap=np.zeros(4 * tiles + 1, np.int64),
        calendar=np.full(c.CALENDAR, -1, np.int32),
        following=np.zeros(4 * tiles, np.int32),
        ready=np.zeros(3 * tiles + 1, np.int64),
        deliveries=np.zeros(2 * (mask + 1), np.int64),
        packets=np.zeros(PACKETS * c.K_WIDTH, np.int64),
        free_packets=np.concatenate([[PACKETS], np.arange(PACKETS)]),
        destinations=np.zeros(PACKETS, np.int32),
        log=np.zeros(log_size * c.L_WIDTH, np.int64),
        records=np.zeros((int(record0[-1]) + 1) * c.R_WIDTH if trace else 1, np.int32),
        record0=record0,
    )
