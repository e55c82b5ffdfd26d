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


def _buffers(arch: Arch, ports: _Ports) -> I64:
    """Rows of the empty input buffers."""
    v = arch.topology.vcs
    depth = np.repeat(np.array(buffer_depths(arch))[ports.dims + 1], v)
    depth.reshape(-1, v)[ports.dims < 0, 1:] = 0
    high, port = np.cumsum(depth), np.arange(len(depth)) // v
    buffers = np.zeros((len(depth), c.B_WIDTH), np.int64)
    buffers[:, c.B_LOW] = buffers[:, c.B_HEAD] = buffers[:, c.B_TAIL] = high - depth
    buffers[:, c.B_HIGH], buffers[:, c.B_PORT] = high, port
    buffers[:, c.B_NUMBER] = ports.number[port]
    return buffers


def _queues(latencies: set[int], slots: int, credits: bool) -> dict[int, I64]:
    """Rows by latency; each has room for all flits that there are slots for."""
    return {
        latency: np.array([latency, 0, (1 << (slots - 1).bit_length()) - 1, 0, 0, credits, 0, 0])
        for latency in sorted(latencies)
        if latency > 1
    }


def full_credits(network: Network, vcs: int) -> I32:
    """Credits of each channel while all buffers are empty."""
    outputs = network.outputs.reshape(-1, c.O_WIDTH)
    buffers = network.buffers.reshape(-1, c.B_WIDTH)
    first = np.repeat(outputs[:, c.O_DOWN], vcs)
    behind = first + np.arange(len(first)) % vcs
    depth = buffers[behind, c.B_HIGH] - buffers[behind, c.B_LOW]
    return np.where(first < 0, 0, depth).astype(np.int32)


def reset(network: Network, vcs: int) -> None:
    """Between steps: all credits and links have come home; pointers stay where they are."""
    outputs = network.outputs.reshape(-1, c.O_WIDTH)
    network.credits[:] = full_credits(network, vcs)
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
    buffers = _buffers(arch, ports)
    slots, total = int(buffers[-1, c.B_HIGH]), len(ports.node)
    latency = np.array([1] + [dim.tier.latency_cycles for dim in topology.dims])[ports.dims + 1]
    cycles = np.array([1] + [dim.tier.cycles_per_flit for dim in topology.dims])[ports.dims + 1]
    used = {dim.tier.latency_cycles for dim in topology.dims}
    rows = [*_queues(used, slots, False).values(), *_queues(used, slots, True).values()]
    queue_of = {1: -1} | {int(row[c.U_LATENCY]): i for i, row in enumerate(rows[: len(rows) // 2])}
    queue = np.array([queue_of[int(x)] for x in latency])
    for i, row in enumerate(rows):
        row[c.U_AT] = i * (row[c.U_MASK] + 1)
    length = sum(int(row[c.U_MASK]) + 1 for row in rows)
    outputs = np.zeros((total + tiles, c.O_WIDTH), np.int64)
    local = ports.node_port0[:tiles]
    outputs[:, c.O_DOWN] = np.concatenate([np.where(ports.down < 0, -1, ports.down * v), local * v])
    outputs[:, c.O_DOWN_NODE] = np.concatenate([ports.node[ports.down], np.arange(tiles)])
    outputs[:total, c.O_PORTS] = np.diff(ports.node_port0)[ports.node]
    outputs[:, c.O_CYCLES] = np.concatenate([cycles, np.ones(tiles)])
    outputs[:, c.O_LATENCY] = np.concatenate([latency, np.ones(tiles)])
    outputs[:, c.O_QUEUE] = np.concatenate([queue, np.full(tiles, -1)])
    outputs[:, c.O_BEST], outputs[:, c.O_FREE_VCS] = -1, c.VC_MASK
    inputs = np.zeros((total, c.I_WIDTH), np.int64)
    inputs[:, c.I_NODE], inputs[:, c.I_BEST], inputs[:, c.I_QUEUE] = ports.node, -1, -1
    inputs[local, c.I_UP] = (total + np.arange(tiles)) * v
    has = np.flatnonzero(ports.down >= 0)
    inputs[ports.down[has], c.I_UP] = has * v
    inputs[ports.down[has], c.I_QUEUE] = np.where(
        queue[has] < 0, -1, queue[has] + len(rows) // 2
    )
    routes, at = _routes(topology)
    tile = np.arange(tiles)
    coordinates = [
        tile // stride % dim.size
        for dim, stride in zip(topology.dims, topology.strides, strict=True)
    ]
    hub_dim = [topology.switch_of(n)[0] for n in range(tiles, topology.nodes)]
    state = Network(
        counts=np.zeros(c.NETWORK_COUNTS, np.int64),
        buffers=buffers.astype(np.int32).reshape(-1),
        slots=np.zeros(slots * c.SLOT_WIDTH, np.int32),
        outputs=outputs.astype(np.int32).reshape(-1),
        inputs=inputs.astype(np.int32).reshape(-1),
        credits=np.zeros(len(outputs) * v, np.int32),
        active=np.zeros(2 * len(buffers), np.int32),
        injecting=np.zeros(tiles + 1, np.int32),
        picked=np.zeros(total, np.int32),
        winners=np.zeros(total, np.int32),
        queues=np.array(rows, np.int64).reshape(-1),
        links=np.zeros(length * c.W_WIDTH, np.int32),
        bits=np.array([max(0, bit.bit_length() - 1) for bit in range(c.VC_MASK + 1)], np.int32),
        node_port0=ports.node_port0.astype(np.int32),
        coordinates=np.stack(coordinates, axis=1).astype(np.int32).reshape(-1),
        hub_dim=np.array(hub_dim or [0], np.int32),
        dim_at=at,
        dim_size=np.array([dim.size for dim in topology.dims], np.int64),
        routes=routes.astype(np.int32),
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
        ready=np.zeros(3 * tiles + 1, np.int64),
        deliveries=np.zeros(2 * (mask + 1), np.int64),
        packets=np.zeros(PACKETS * c.K_WIDTH, np.int64),
        free_packets=np.concatenate([[PACKETS], np.arange(PACKETS)]),
        log=np.zeros(log_size * c.L_WIDTH, np.int64),
        records=np.zeros((int(record0[-1]) + 1) * c.R_WIDTH if trace else 1, np.int32),
        record0=record0,
    )
