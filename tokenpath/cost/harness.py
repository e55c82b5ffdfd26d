"""A mapped unit between flip-flops, so that its pins neither cost nor delay anything."""

from collections.abc import Iterator
from itertools import count
from typing import Any

XOR4 = f"{0x6996:016b}"
PINS = ("clk", "si", "so")


def wrapped(unit: dict[str, Any]) -> dict[str, Any]:
    """A module of Yosys's JSON, mapped to ECP5, as one with the three pins clk, si and so.

    A shift register from ``si`` drives the inputs (``clk`` becomes the pin of that name) and a
    flip-flop takes every output; a tree of XORs with a register a level leads them to ``so``. So
    every path of the result begins and ends in a flip-flop, and none but the unit's own is longer
    than a level of logic.
    """
    ports, cells = unit["ports"], dict(unit["cells"])
    nets = count(1 + max((bit for bit in _bits(unit) if isinstance(bit, int)), default=1))
    clock = ports["clk"]["bits"][0] if "clk" in ports else next(nets)

    def register(value: int, to: int) -> int:
        cells[f"harness_ff{to}"] = _cell(
            "TRELLIS_FF",
            {"GSR": "DISABLED", "CEMUX": "1 ", "CLKMUX": "CLK", "LSRMUX": "LSR", "REGSET": "RESET"},
            {"CLK": clock, "LSR": "0", "CE": "1", "DI": value}, {"Q": to},
        )  # fmt: skip
        return to

    serial = last = next(nets)
    for bit in _of(ports, "input"):
        if bit != clock:
            last = register(last, bit)
    level = [register(bit, next(nets)) for bit in _of(ports, "output")] or [last]
    while len(level) > 1:
        fours = [level[i : i + 4] for i in range(0, len(level), 4)]
        level = [register(_xor(cells, four, next(nets)), next(nets)) for four in fours]
    pins = dict(zip(PINS, (clock, serial, level[0]), strict=True))
    return {
        "attributes": {"top": f"{1:032b}"},
        "ports": {
            name: {"direction": "output" if name == "so" else "input", "bits": [bit]}
            for name, bit in pins.items()
        },
        "cells": cells,
        "netnames": {
            name: {"hide_name": 0, "bits": [bit], "attributes": {}} for name, bit in pins.items()
        },
    }


def _bits(unit: dict[str, Any]) -> Iterator[int | str]:
    for port in unit["ports"].values():
        yield from port["bits"]
    for cell in unit["cells"].values():
        for bits in cell["connections"].values():
            yield from bits


def _of(ports: dict[str, Any], direction: str) -> list[int]:
    """The nets of the ports of a direction, each once; constants have none."""
    bits = (bit for port in ports.values() if port["direction"] == direction
            for bit in port["bits"])  # fmt: skip
    return list(dict.fromkeys(bit for bit in bits if isinstance(bit, int)))


def _xor(cells: dict[str, Any], values: list[int], to: int) -> int:
    inputs: dict[str, int | str] = dict(zip("ABCD", [*values, *"000"], strict=False))
    cells[f"harness_xor{to}"] = _cell("LUT4", {"INIT": XOR4}, inputs, {"Z": to})
    return to


def _cell(
    kind: str, parameters: dict[str, str], inputs: dict[str, Any], outputs: dict[str, int]
) -> dict[str, Any]:
    directions = dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output")
    return {
        "hide_name": 0, "type": kind, "parameters": parameters, "attributes": {},
        "port_directions": directions,
        "connections": {name: [bit] for name, bit in (inputs | outputs).items()},
    }  # fmt: skip
