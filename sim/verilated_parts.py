"""Verilog cut into parts that are compiled once: leaves, and what is around them.

Leaves of an array are the modules ``tile.core``, ``tile.router`` and ``switch0`` ..., those of a
network ``router`` and ``switch0`` ...: those that it has many of. The rest is compiled with a stub
in place of each leaf; a C++ header moves values between the ports of the stubs and those of the
leaves' models.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_MODULE = re.compile(r"^module \\?(\S+?) ?\(.*?\);\n.*?^endmodule$", re.MULTILINE | re.DOTALL)
_HEAD = re.compile(r"^module .*?\);\n", re.DOTALL)
_PORT = re.compile(r"^  (input|output) (\[\d+:0\] )?(\S+?) ?;$", re.MULTILINE)
_LEAF = re.compile(r"tile\.core|(tile\.)?router|switch\d+")
_INSTANCE = re.compile(r"^  \\?([^\s\\]+) +\\?([^\s\\]+) +\($", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Verilog of the ``top`` with stubs, and of the leaves by module; ``wiring`` is C++."""

    top: str
    leaves: dict[str, str]
    wiring: str


def cut(sources: Mapping[str, str], top: str = "array") -> Parts:
    """The parts of the Verilog that :func:`tokenpath.hw.verilog.array_verilog` returns, or, of the
    ``top`` "network", ``network_verilog``."""
    text = "\n".join(sources[name] for name in sorted(sources))
    modules = {match[1]: match[0] for match in _MODULE.finditer(text)}
    names = sorted(filter(_LEAF.fullmatch, modules), key=lambda name: name.startswith("switch"))
    around = _below(modules, top, stop=names)
    places = sorted(_places(modules, top, names), key=lambda place: _number(place[1][0]))
    return Parts(
        top="\n".join(
            [*(modules[name] for name in around), *(_stub(modules[name]) for name in names)]
        ),
        leaves={n: "\n".join(modules[m] for m in _below(modules, n)) for n in names},
        wiring=_ports(modules[top]) + _wiring(modules, top, places),
    )


def _number(instance: str) -> tuple[bool, int]:
    """Order of "tile0", "tile1" ... and, behind them, "node16" ..."""
    return not instance.startswith("tile"), int(re.sub(r"\D", "", instance))


def model(leaf: str) -> str:
    """The C++ class of a leaf's model, as is its header's name."""
    return "V" + leaf.removeprefix("tile.")


def _children(modules: Mapping[str, str], module: str) -> Iterator[tuple[str, str]]:
    """Module and name of each instance."""
    for match in _INSTANCE.finditer(modules[module]):
        if match[1] in modules:
            yield match[1], match[2]


def _below(modules: Mapping[str, str], module: str, stop: list[str] | None = None) -> list[str]:
    """A module and all that it contains, once each, but for what is below ``stop``."""
    found, todo = {module: None}, [module]
    while todo:
        for child, _ in _children(modules, todo.pop()):
            if child not in found and child not in (stop or ()):
                found[child] = None
                todo.append(child)
    return sorted(found)


def _places(
    modules: Mapping[str, str], module: str, leaves: list[str], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each leaf of the array with the names of the instances on the way to it."""
    for child, name in _children(modules, module):
        if child in leaves:
            yield child, (*path, name)
        else:
            yield from _places(modules, child, leaves, (*path, name))


def _stub(module: str) -> str:
    """The module with ports only, which a program may read and write."""
    ports = [
        f"  {way}{' reg' if way == 'output' else ''} {bits}{name} /*verilator public_flat_rw*/;\n"
        for way, bits, name in _PORT.findall(module)
    ]
    head = _HEAD.match(module)
    assert head
    return f"{head[0]}{''.join(ports)}endmodule\n"


def _encoded(name: str) -> str:
    """A name as Verilator spells it in C++."""
    name = name.removeprefix("\\")
    text = re.sub(r"[^0-9A-Za-z_]", lambda c: f"__0{ord(c[0]):02X}", name.replace("__", "\0"))
    return text.replace("__000", "___05F")


def _ports(module: str) -> str:
    """C++: PORTS_a__b, the addresses of the ports a__0__b, a__1__b ... of the model ``top``."""
    found: dict[str, list[tuple[int, str]]] = {}
    for _, _, name in _PORT.findall(module):
        if several := re.fullmatch(r"([a-z]+)__(\d+)((?:__\w+)?)", name):
            place = int(several[2]), f"&top.{_encoded(name)}"
            found.setdefault(several[1] + several[3], []).append(place)
    return "".join(
        f"#define PORTS_{name} {', '.join(address for _, address in sorted(places))}\n"
        for name, places in sorted(found.items())
    )


def _wiring(modules: Mapping[str, str], top: str, places: list[tuple[str, tuple[str, ...]]]) -> str:
    """C++: a class for each place, and ``make_nodes``."""
    leaves = sorted({leaf for leaf, _ in places})
    lines = [f'#include "{model(leaf)}.h"' for leaf in leaves] + ["namespace {"]
    groups: dict[str, list[str]] = {}
    for index, (leaf, path) in enumerate(places):
        stub = "".join(f"{_encoded(part)}__DOT__" for part in (top, *path))
        ports = [(way, _encoded(name)) for way, _, name in _PORT.findall(modules[leaf])]
        ports = [(way, name) for way, name in ports if name != "clk"]
        takes = [f"model.{name} = stubs.{stub}{name};" for way, name in ports if way == "input"]
        gives = [f"change(stubs.{stub}{n}, model.{n})" for way, n in ports if way == "output"]
        lines += [
            f"struct Node{index} final : NodeOf<{model(leaf)}> {{",
            "    using NodeOf::NodeOf;",
            f"    void take(const Root& stubs) override {{ {' '.join(takes)} }}",
            f"    bool give(Root& stubs) const override {{ return {' | '.join(gives)}; }}",
            "};",
        ]
        made = f'std::make_unique<Node{index}>(context, "{".".join(path)}")'
        groups.setdefault(path[0], []).append(made)
    lines += ["std::vector<Nodes> make_nodes(VerilatedContext* context) {"]
    lines += [f"    std::vector<Nodes> all({len(groups)});"]
    for index, group in enumerate(groups.values()):
        lines += [f"    all[{index}].push_back({made});" for made in group]
    return "\n".join([*lines, "    return all;", "}", "}  // namespace", ""])
