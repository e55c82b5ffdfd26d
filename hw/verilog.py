"""Verilog of an array: one module for each different part, the same text every time."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from amaranth.back import rtlil, verilog

from tokenpath.hw.arch.params import Arch
from tokenpath.hw.array import Array
from tokenpath.hw.network import Network

_MODULE = re.compile(r"^module (\S+)\n(.*?)^end\n", re.MULTILINE | re.DOTALL)
_CELL = re.compile(r"^(\s*cell )(\\\S+)", re.MULTILINE)
_PORT = re.compile(r"\\port\$\d+\$\d+")  # a net without a name, by its number in the netlist


def array_verilog(arch: Arch) -> dict[str, str]:
    """Verilog text by module: "array", "tile" and "switch0" ... of the dimensions that have one.

    Memories that start with zeros have no initial contents in the text: for 16,000 rows of code
    they would be most of it.
    """
    return _of_modules("array", Array(arch=arch, black_boxes=True))


def network_verilog(arch: Arch) -> dict[str, str]:
    """Verilog text by module: "network", "router" and "switch0" ... of an Arch without tiles."""
    return _of_modules("network", Network(arch=arch, black_boxes=True))


def _of_modules(name: str, top: Array | Network) -> dict[str, str]:
    parts: dict[str, Any] = {name: top, **top.modules()}
    return {name: module_verilog(part, name) for name, part in parts.items()}


def module_verilog(component: Any, name: str) -> str:
    """Verilog of one component and what it contains, identical modules only once."""
    with _no_zero_init(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = rtlil.convert(component, name=name, emit_src=False)
    merged = merge_identical(text, keep=name)
    return str(
        verilog._convert_rtlil_text(
            merged, strip_internal_attrs=True, write_verilog_opts=("-noattr",)
        )
    )


def merge_identical(text: str, keep: str) -> str:
    """RTLIL without the modules that equal another one; instances refer to the first of each.

    Ports without a name are numbered anew in each module, so that its text is its own only.
    """
    header = text[: text.index("module ")] if "module " in text else text
    header = "\n".join(line for line in header.splitlines() if not line.startswith("attribute"))
    bodies = dict(_MODULE.findall(_without_attributes(text)))
    canonical: dict[str, str] = {}
    kept: dict[str, str] = {}
    ports: dict[str, dict[str, str]] = {}
    for name in _children_first(bodies):
        body, ports[name] = _renumbered(bodies[name], ports)
        body = _CELL.sub(lambda c: c[1] + canonical.get(c[2], c[2]), body)
        own = f"\\{keep}" == name
        canonical[name] = name if own else kept.setdefault(body, name)
        if canonical[name] == name:
            bodies[name] = body
    parts = [
        f"module {name}\n{body}end\n" for name, body in bodies.items() if canonical[name] == name
    ]
    return header + "\n" + "\n".join(parts)


def _renumbered(body: str, ports: dict[str, dict[str, str]]) -> tuple[str, dict[str, str]]:
    """A module with its unnamed ports numbered from 0, and their names before and after.

    ``ports`` has those names of the modules that it contains.
    """
    own: dict[str, str] = {}
    child: dict[str, str] = {}
    lines = []
    for line in body.split("\n"):
        if cell := _CELL.match(line):
            child = ports.get(cell[2], {})
        start = ""
        if line.startswith("    connect "):  # of a cell: its port, then a signal here
            _, port, rest = line.split(maxsplit=2)
            start, line = f"    connect {child.get(port, port)} ", rest
        lines.append(start + _PORT.sub(lambda p: own.setdefault(p[0], f"\\port${len(own)}"), line))
    return "\n".join(lines), own


def _without_attributes(text: str) -> str:
    """The text without attributes of modules, which stand in front of them."""
    return re.sub(r"^attribute .*\n", "", text, flags=re.MULTILINE)


def _children_first(bodies: dict[str, str]) -> Iterator[str]:
    done: set[str] = set()

    def visit(name: str) -> Iterator[str]:
        if name in done:
            return
        done.add(name)
        for _, child in _CELL.findall(bodies[name]):
            if child in bodies:
                yield from visit(child)
        yield name

    for name in bodies:
        yield from visit(name)


@contextmanager
def _no_zero_init() -> Iterator[None]:
    """Amaranth writes the initial contents of every memory; leave out those of zeros."""
    emit = rtlil.ModuleEmitter.emit_memory

    def emit_memory(self: Any, cell_idx: int, cell: Any) -> None:
        if any(cell.init):
            emit(self, cell_idx, cell)

    rtlil.ModuleEmitter.emit_memory = emit_memory
    try:
        yield
    finally:
        rtlil.ModuleEmitter.emit_memory = emit
