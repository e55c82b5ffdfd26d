"""What the benches share: the description of the unit under test, its clock and reset."""

import json
import os
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge

from tokenpath.hw.arch.params import Arch

DESCRIPTION = json.loads(Path(os.environ["TOKENPATH_DESCRIPTION"]).read_text())
ARCH = Arch.from_dict(DESCRIPTION["arch"])
PORTS = {port["name"]: port for port in DESCRIPTION["ports"]}


def pack(port: str, values: dict[str, int]) -> int:
    """The fields of a port in one integer; those that aren't given are 0."""
    fields = {field["name"]: field for field in PORTS[port]["fields"]}
    return sum(value << fields[name]["lsb"] for name, value in values.items())


def unpack(port: str, value: int) -> dict[str, int]:
    """The fields of a port's value."""
    return {
        field["name"]: value >> field["lsb"] & ((1 << field["width"]) - 1)
        for field in PORTS[port]["fields"]
    }


async def reset(dut: Any, **inputs: int) -> None:
    """Start the clock, set all inputs (0 unless given) and reset the unit for a cycle."""
    clock = DESCRIPTION["clock"]["port"]
    for name, port in PORTS.items():
        if port["direction"] == "input" and name != clock:
            getattr(dut, name).value = inputs.get(name, 0)
    cocotb.start_soon(Clock(getattr(dut, clock), 10, "ns").start())
    dut.rst.value = 1
    for _ in range(1 + DESCRIPTION["reset"]["cycles"]):
        await RisingEdge(dut.clk)
    dut.rst.value = 0


async def settled(dut: Any) -> None:
    """Wait, after inputs were set at a rising edge, until the cycle's outputs can be read."""
    await FallingEdge(dut.clk)


async def following(dut: Any) -> None:
    """Wait for the next cycle, in which inputs may be set anew."""
    await RisingEdge(dut.clk)
