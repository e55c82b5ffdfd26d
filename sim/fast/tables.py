"""Tables of the kernels, built from a Program and its Topology."""

from dataclasses import dataclass

import numpy as np

from tokenpath.hw.arch import isa
from tokenpath.hw.arch.isa import COLUMN, Engine, Op
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Program
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


def _routes(topology: Topology) -> tuple[I64, I64]:
    """The tables of all dimensions, entries ``port << VC_BITS | VCs`` of a tile, 0 for arrived;
    where each begins.
    """
    parts, at = [], [0]
    for i, dim in enumerate(topology.dims):
        table = np.array(topology.dim_table(i), np.int64).reshape(dim.size, dim.size, 2)
        routes = (topology.port_base[i] + table[..., 0]) << c.VC_BITS | 1 << table[..., 1]
        np.fill_diagonal(routes, 0)
        parts.append(routes.reshape(-1))
        at.append(at[-1] + dim.size * dim.size)
    return np.concatenate(parts), np.array(at, np.int64)


def _aligned(words: int) -> I32:
    """Zeros that begin with a cache line."""
    store = np.zeros(words + 16, np.int32)
    skip = -store.ctypes.data % 64 // 4
    return store[skip : skip + words]


def _strides(arch: Arch) -> I64:
    """Words of an input buffer with its slots, of the local port, then of each dimension."""
    slots = [1 << (depth - 1).bit_length() for depth in buffer_depths(arch)]
    return c.B_WIDTH + c.SLOT_WIDTH * np.array(slots, np.int64)


def _buffers(arch: Arch, ports: _Ports) -> tuple[I32, I64]:
    """Rows of the empty input buffers, and where each begins."""
    v, stride = arch.topology.vcs, _strides(arch)
    words = np.repeat(stride[ports.dims + 1], v)
    at = np.cumsum(words) - words
    port, vc = np.divmod(np.arange(len(at)), v)
    buffers = _aligned(int(words.sum()))
    buffers[at + c.B_MASK] = (words - c.B_WIDTH) // c.SLOT_WIDTH - 1
    buffers[at + c.B_PORT] = port
    buffers[at + c.B_NUMBER] = ports.number[port] << c.VC_BITS | vc
    return buffers, at


def _queues(latencies: list[int], flits: int) -> tuple[I64, int]:
    """Rows of the queues of flits, then of those of credits, each with room for all flits that
    there are slots for; words of them all.
    """
    size = 1 << (flits - 1).bit_length()
    rows = np.zeros((2 * len(latencies), c.U_WIDTH), np.int64)
    rows[:, c.U_LATENCY], rows[:, c.U_MASK] = 2 * latencies, size - 1
    rows[:, c.U_AT] = size * np.arange(len(rows))
    rows[len(latencies) :, c.U_CREDITS] = 1
    return rows, size * len(rows) * c.W_WIDTH


def reset(network: Network, vcs: int) -> None:
    """Between steps: all credits and links have come home; pointers stay where they are."""
    outputs = network.outputs.reshape(-1, c.O_WIDTH)
    network.credits[:] = network.room
    has = (network.credits.reshape(-1, vcs) > 0) << np.arange(vcs)
    outputs[:, c.O_CREDIT_VCS] = np.where(outputs[:, c.O_DOWN] < 0, c.VC_MASK, has.sum(axis=1))
    outputs[:, c.O_FREE] = outputs[:, c.O_COUNT] = 0
    queues = network.queues.reshape(-1, c.U_WIDTH)
    queues[:, c.U_FIRST] = queues[:, c.U_LAST] = 0


def network(arch: Arch) -> Network:
    """Idle routers and links of an Arch."""
    topology = arch.topology
    v, tiles = topology.vcs, topology.tiles
    ports = _Ports.of(topology)
    buffers, at = _buffers(arch, ports)
    total, depths = len(ports.node), np.array(buffer_depths(arch))
    latency = np.array([1] + [dim.tier.latency_cycles for dim in topology.dims])[ports.dims + 1]
    cycles = np.array([1] + [dim.tier.cycles_per_flit for dim in topology.dims])[ports.dims + 1]
    local, has = ports.node_port0[:tiles], np.flatnonzero(ports.down >= 0)
    behind = np.concatenate([ports.down, local])
    outputs = np.zeros((total + tiles, c.O_WIDTH), np.int64)
    outputs[:, c.O_DOWN] = np.where(behind < 0, -1, at[behind * v])
    outputs[:, c.O_STRIDE] = _strides(arch)[ports.dims[behind] + 1]
    outputs[:, c.O_DOWN_NODE] = ports.node[behind]
    outputs[:total, c.O_PORTS] = np.diff(ports.node_port0)[ports.node]
    outputs[:, c.O_CYCLES] = np.concatenate([cycles, np.ones(tiles)])
    outputs[:, c.O_LATENCY] = np.concatenate([latency, np.ones(tiles)])
    outputs[:, c.O_BEST], outputs[:, c.O_FREE_VCS] = -1, c.VC_MASK
    room = np.zeros((total + tiles, v), np.int64)
    room[has] = depths[ports.dims[has] + 1][:, None]
    room[total:, 0] = arch.router.depth
    queues, length = _queues(sorted(set(latency[has].tolist()) - {1}), int(room.sum()))
    queue = np.full(total, -1)
    for i in range(len(queues) // 2):
        queue[has[latency[has] == queues[i, c.U_LATENCY]]] = i
    outputs[:total, c.O_QUEUE], outputs[total:, c.O_QUEUE] = queue, -1
    inputs = np.zeros((total, c.I_WIDTH), np.int64)
    inputs[:, c.I_NODE], inputs[:, c.I_BEST] = ports.node, -1
    buffers[at + c.B_QUEUE] = -1
    for vc in range(v):
        buffers[at[local * v + vc] + c.B_UP] = (total + np.arange(tiles)) * v + vc
        back = at[ports.down[has] * v + vc]
        buffers[back + c.B_UP] = has * v + vc
        buffers[back + c.B_QUEUE] = np.where(queue[has] < 0, -1, queue[has] + len(queues) // 2)
    routes, table_at = _routes(topology)
    tile = np.arange(tiles)
    coordinates = np.stack(
        [
            tile // stride % dim.size
            for dim, stride in zip(topology.dims, topology.strides, strict=True)
        ],
        axis=1,
    )
    sizes = np.array([dim.size for dim in topology.dims])
    hub_dim = [topology.switch_of(n)[0] for n in range(tiles, topology.nodes)]
    aligned = _aligned(outputs.size)
    aligned[:] = outputs.reshape(-1)
    state = Network(
        counts=np.zeros(c.NETWORK_COUNTS, np.int64),
        buffers=buffers,
        outputs=aligned,
        inputs=inputs.astype(np.int32).reshape(-1),
        credits=np.zeros(room.size, np.int32),
        active=np.zeros(2 * len(at), np.int32),
        injecting=np.zeros(tiles + 1, np.int32),
        picked=np.zeros(total, np.int32),
        winners=np.zeros(total, np.int32),
        queues=queues.reshape(-1),
        links=np.zeros(length, np.int32),
        bits=np.array([max(0, bit.bit_length() - 1) for bit in range(c.VC_MASK + 1)], np.int32),
        node_port0=ports.node_port0.astype(np.int32),
        coordinates=coordinates.astype(np.int32).reshape(-1),
        hub_dim=np.array(hub_dim or [0], np.int32),
        rows=(table_at[:-1] + coordinates * sizes).astype(np.int32).reshape(-1),
        routes=routes.astype(np.int32),
        room=room.astype(np.int32).reshape(-1),
    )
    reset(state, v)
    return state


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
    constants = np.zeros(c.CONSTANTS, np.int64)
    values = {
        c.TILES: tiles,
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
        c.VCS: arch.topology.vcs,
        c.DIMS: len(arch.topology.dims),
        c.DELIVER_MASK: mask,
        c.DESCRIPTORS: program.descriptors.shape[1],
        c.BUFFERS: len(network.inputs) // c.I_WIDTH * arch.topology.vcs,
        c.NI_PORT0: len(network.inputs) // c.I_WIDTH,
        c.QUEUES: len(network.queues) // c.U_WIDTH,
    }
    constants[list(values)] = list(values.values())
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
