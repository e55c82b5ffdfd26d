"""Tables of the engines, built from a Program."""

from dataclasses import dataclass

import numpy as np

from tokenpath.hw.arch import isa
from tokenpath.hw.arch.errors import require
from tokenpath.hw.arch.isa import COLUMN, Engine, Op
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Program
from tokenpath.hw.arch.router_params import ALLOCATORS, RouterParams
from tokenpath.hw.arch.timing import SINK_CYCLES

from . import columns as c
from .network_tables import makes_choices, queue_rows
from .state import I32, I64, Engines, Network

PACKETS = 1024
"""Packets under way that a machine has room for at first; it doubles as often as needed."""

MOST_PACKETS = 1 << 29
"""Packets under way whose flits (FLIT of a slot) fit 32 bits."""


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


def only_network(arch: Arch, network: Network, packets: int) -> Engines:
    """What routers need of Engines, for ``packets`` under way: no tile has an instruction."""
    return no_engines(arch.tiles, _constants(arch, network, {}), packets)


def no_engines(tiles: int, constants: I64, packets: int) -> Engines:
    """Engines of tiles without an instruction, with room for ``packets`` under way. Raises
    InputError for more than MOST_PACKETS.
    """
    require(
        packets <= MOST_PACKETS,
        f"{packets:,} packets may be under way, and the fast simulator has room for "
        f"{MOST_PACKETS:,}; give less depth, links of less latency, or fewer tiles",
    )
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


def _constants(arch: Arch, network: Network, more: dict[int, int]) -> I64:
    """The constants of routers, and others."""
    constants = np.zeros(c.CONSTANTS, np.int64)
    ports, router = len(network.outputs) // c.O_WIDTH - arch.tiles, arch.router
    values = {
        c.TILES: arch.tiles,
        c.VCS: arch.vcs,
        c.DIMS: len(network.coordinates) // arch.tiles,
        c.EJECTION: SINK_CYCLES + router.extra_cycles,
        c.LOCAL_VCS: (1 << router.local) - 1,
        c.SUMMARY: len(network.summary),
        c.NI_PORT0: ports,
        c.UNIT: (len(network.buffers) // len(network.busy) // 64).bit_length() - 1,
        c.QUEUES: len(queue_rows(network)),
        c.ROUTING: _routing(router),
        c.ORDERED: router.ordered,
        c.BUBBLE: router.switching == "bubble",
        c.WHOLE: router.whole_packets,
        c.ALLOCATOR: ALLOCATORS.index(router.allocator),
        c.ITERATIONS: router.iterations,
        c.MATRIX: router.arbiter == "matrix",
        c.STAGES: router.stages,
        c.HALF: router.vcs // 2,
        c.ARBITER: len(network.arbiters) // c.ARBITERS // ports,
        c.ANY: makes_choices(router),
        **more,
    }
    constants[list(values)] = list(values.values())
    return constants


def _routing(router: RouterParams) -> int:
    if router.routing == "dimension_order":
        return c.FIXED if router.ordered or router.switching == "bubble" else c.PLAIN
    return {
        "o1turn": c.O1TURN, "table": c.TABLE, "west_first": c.WEST_FIRST, "odd_even": c.ODD_EVEN,
    }[router.routing]  # fmt: skip


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
