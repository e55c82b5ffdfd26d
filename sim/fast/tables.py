"""Tables of the kernels, built from a Program and its Topology."""

from dataclasses import dataclass

import numpy as np

from tokenpath.hw.arch import isa
from tokenpath.hw.arch.isa import COLUMN, Engine, Op
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Program
from tokenpath.hw.arch.topology import Topology

from . import state as s
from .state import I64


@dataclass(frozen=True, kw_only=True)
class CodeTable:
    """Instructions of all classes in one table; ``first[c, e]`` is the first row of engine e of class c, ``[c, 3]`` the end."""

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
        table = np.zeros((max(1, len(rows)), s.CODE_WIDTH), np.int64)
        if rows:
            table[: len(rows), : len(isa.LAYOUT)] = np.array(rows, np.int64)
        return cls(
            rows=table, first=first, labels=tuple(names) or ("",), label_of=np.array(label_of or [0], np.int64)
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


def _tile_ports(topology: Topology, ports: I64, node_port0: I64) -> None:
    """Where the link ports of all tiles lead, a dimension and a position at a time, all other tiles at once."""
    tiles, tile = topology.tiles, np.arange(topology.tiles)
    for i, (dim, stride) in enumerate(zip(topology.dims, topology.strides, strict=True)):
        position = tile // stride % dim.size
        base = topology.port_base[i]
        for x in range(dim.size):
            here = tile[position == x]
            for offset in range(dim.ports):
                arrived = dim.step(x, offset)
                if arrived is None:
                    continue
                y, back = arrived
                if y == dim.size:
                    hub = topology.switch_base[i] + here // (stride * dim.size) * stride + here % stride
                    ports[node_port0[here] + base + offset, s.Q_DOWN] = node_port0[hub] + 1 + back
                else:
                    there = here + (y - x) * stride
                    ports[node_port0[here] + base + offset, s.Q_DOWN] = node_port0[there] + base + back
    del tiles


def _hub_ports(topology: Topology, ports: I64, node_port0: I64) -> None:
    for node in range(topology.tiles, topology.nodes):
        for port in range(1, topology.ports(node)):
            arrived = topology.neighbour(node, port)
            assert arrived is not None
            ports[node_port0[node] + port, s.Q_DOWN] = node_port0[arrived[0]] + arrived[1]


def _ports(arch: Arch) -> tuple[I64, I64, I64]:
    """Port rows, the dimension of each port (-1: local), and the first port of each node."""
    topology = arch.topology
    tiles, per_tile = topology.tiles, topology.port_base[-1]
    hubs = [topology.switch_of(n)[0] for n in range(tiles, topology.nodes)]
    counts = np.concatenate([np.full(tiles, per_tile), [1 + topology.dims[i].size for i in hubs]]).astype(np.int64)
    node_port0 = np.concatenate([[0], np.cumsum(counts)])
    total = int(node_port0[-1])
    ports = np.zeros((total, s.Q_WIDTH), np.int64)
    node = np.repeat(np.arange(topology.nodes), counts)
    ports[:, s.Q_NODE], ports[:, s.Q_PORTS] = node, counts[node]
    tile_dims = [-1] + [i for i, dim in enumerate(topology.dims) for _ in range(dim.ports)]
    dims = np.concatenate([np.tile(tile_dims, tiles), *([np.full(1 + topology.dims[i].size, i) for i in hubs])])
    ports[:, s.Q_LATENCY] = np.array([1] + [dim.tier.latency_cycles for dim in topology.dims])[dims + 1]
    ports[:, s.Q_CYCLES] = np.array([1] + [dim.tier.cycles_per_flit for dim in topology.dims])[dims + 1]
    ports[:, s.Q_DOWN] = ports[:, s.Q_IN_BEST] = ports[:, s.Q_BEST] = -1
    _tile_ports(topology, ports, node_port0)
    _hub_ports(topology, ports, node_port0)
    return ports, dims, node_port0


def _routes(topology: Topology) -> tuple[I64, I64]:
    """All dimension tables behind each other, entries ``port * V + vc`` at a tile; and where each begins."""
    parts, at = [], [0]
    for i, dim in enumerate(topology.dims):
        table = np.array(topology.dim_table(i), np.int64).reshape(dim.size * dim.size, 2)
        parts.append((topology.port_base[i] + table[:, 0]) * topology.vcs + table[:, 1])
        at.append(at[-1] + len(parts[-1]))
    return np.concatenate(parts), np.array(at, np.int64)


def _channels(arch: Arch, ports: I64, dims: I64, node_port0: I64) -> tuple[I64, I64]:
    """Rows of the input buffers and of the output channels, each of which knows the slots behind it."""
    v = arch.topology.vcs
    depth = np.repeat(np.array(buffer_depths(arch))[dims + 1], v)
    depth.reshape(-1, v)[dims < 0, 1:] = 0
    high = np.cumsum(depth)
    port, vc = np.divmod(np.arange(len(depth)), v)
    buffers = np.zeros((len(depth), s.B_WIDTH), np.int64)
    buffers[:, s.B_LOW] = buffers[:, s.B_HEAD] = high - depth
    buffers[:, s.B_HIGH], buffers[:, s.B_REQUEST], buffers[:, s.B_PORT] = high, -1, port
    buffers[:, s.B_NUMBER] = port - node_port0[ports[port, s.Q_NODE]]
    buffers[:, s.B_LATENCY] = ports[port, s.Q_LATENCY]
    channels = np.zeros((len(depth), s.H_WIDTH), np.int64)
    down = ports[port, s.Q_DOWN]
    behind = np.where(down >= 0, down * v + vc, -1)
    channels[:, s.H_LOCK], channels[:, s.H_BUFFER], channels[:, s.H_PORT] = -1, behind, port
    channels[:, s.H_LOW] = channels[:, s.H_TAIL] = buffers[behind, s.B_LOW]
    channels[:, s.H_HIGH] = buffers[behind, s.B_HIGH]
    return buffers, channels


def network(arch: Arch) -> s.Network:
    """Idle routers and links of an Arch."""
    topology = arch.topology
    ports, dims, node_port0 = _ports(arch)
    buffers, channels = _channels(arch, ports, dims, node_port0)
    slots = np.zeros((int(buffers[-1, s.B_HIGH]), 2), np.int32)
    slots[:, s.FLIT] = s.EMPTY
    routes, at = _routes(topology)
    tile = np.arange(topology.tiles)
    coordinates = [tile // stride % dim.size for dim, stride in zip(topology.dims, topology.strides, strict=True)]
    hub_dim = [topology.switch_of(n)[0] for n in range(topology.tiles, topology.nodes)]
    return s.Network(
        counts=np.zeros(8, np.int64),
        buffers=buffers.astype(np.int32).reshape(-1),
        slots=slots.reshape(-1),
        ports=ports.astype(np.int32).reshape(-1),
        channels=channels.astype(np.int32).reshape(-1),
        active=np.zeros(len(buffers) + 1, np.int32),
        injecting=np.zeros(topology.tiles + 1, np.int32),
        inputs=np.zeros(len(ports) + 1, np.int32),
        outputs=np.zeros(len(ports) + 1, np.int32),
        node_port0=node_port0.astype(np.int32),
        coordinates=np.stack(coordinates, axis=1).astype(np.int32).reshape(-1),
        hub_dim=np.array(hub_dim or [0], np.int32),
        dim_at=at,
        dim_size=np.array([dim.size for dim in topology.dims], np.int64),
        routes=routes.astype(np.int32),
    )


def _flat(buffer: memoryview) -> s.I32:
    """A flat view of an image."""
    flat: s.I32 = np.ascontiguousarray(buffer, np.int32).reshape(-1)
    return flat


def engines(program: Program, code: CodeTable, *, trace: bool, logging: bool) -> s.Engines:
    """Engines, memory-side state and work lists of a Program before its first step."""
    arch, tiles = program.arch, program.tiles
    registers = code.used(*(c for c in COLUMN if c.endswith("_reg")))
    registers = max(registers, *(rule.register + 1 for rule in program.rules), 1) if program.rules else registers
    semaphores = code.used("wait", "post", "y")
    ring = min(arch.stream_depth + 3, code.streams() + 1)
    log_size = max(1 << 16, 8 * tiles) if logging else 1
    mask = (1 << (4 * tiles).bit_length()) - 1
    assert program.descriptors.shape is not None
    constants = np.zeros(s.CONSTANTS, np.int64)
    for at, value in {
        s.TILES: tiles, s.C_REGS: registers, s.C_SEMS: semaphores, s.LANES: arch.lanes, s.VLANES: arch.vlanes,
        s.BLOCK: arch.numeric.block, s.STORE_LATENCY: arch.store_latency, s.STREAM_DEPTH: arch.stream_depth,
        s.RING: ring, s.MAX_WORDS: arch.max_packet_words, s.FLIT_WORDS: arch.flit_words, s.TRACE: trace,
        s.LOGGING: logging, s.LOG_SIZE: log_size, s.VCS: arch.topology.vcs, s.DIMS: len(arch.topology.dims),
        s.DELIVER_MASK: mask, s.DESCRIPTORS: program.descriptors.shape[1],
    }.items():  # fmt: skip
        constants[at] = value
    class_of = np.array(program.tile_code, np.int64)
    rows = np.zeros((tiles, 4, s.E_WIDTH), np.int64)
    rows[:, :3, s.CODE0] = code.first[class_of, 0][:, None]
    sizes = (code.first[:, 3] - code.first[:, 0])[class_of]
    record0 = np.concatenate([[0], np.cumsum(sizes)])
    image = np.array(program.registers, np.int32).reshape(tiles, -1)[:, :registers]
    image[:, 0] = 0
    return s.Engines(
        g=np.zeros(s.GLOBALS, np.int64),
        constants=constants,
        code=code.rows.reshape(-1),
        engines=rows.reshape(-1),
        interfaces=np.zeros(tiles * s.N_WIDTH, np.int64),
        streams=np.zeros(tiles * s.S_WIDTH, np.int64),
        pairs=np.zeros(tiles * ring * s.P_WIDTH, np.int64),
        semaphores=np.zeros(tiles * semaphores, np.int32),
        registers=np.ascontiguousarray(image).reshape(-1),
        descriptors=_flat(program.descriptors),
        heap=np.zeros(4 * tiles + 1, np.int64),
        ready=np.zeros(3 * tiles + 1, np.int64),
        deliveries=np.zeros(2 * (mask + 1), np.int64),
        packets=np.zeros(1024 * s.K_WIDTH, np.int64),
        free_packets=np.concatenate([[1024], np.arange(1024)]),
        log=np.zeros(log_size * s.L_WIDTH, np.int64),
        records=np.zeros((int(record0[-1]) + 1) * s.R_WIDTH if trace else 1, np.int32),
        record0=record0,
    )
