"""Bench of a tile: a token of mathformer, loaded, run and read by the host port.

Vector memory must end as the golden model's, in as many cycles as the fast simulator takes.
"""

from typing import Any

import cocotb
from host import Host
from unit import ARCH, reset

from tokenpath.hw.load import images, step_slots
from tokenpath.sim import golden
from tokenpath.sim.fast import FastMachine
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import plan
from tokenpath.sw.model import load

TOKENS = (11, 14)  # 7 +


@cocotb.test
async def a_program_runs_as_the_models_do(dut: Any) -> None:
    spec = load("mathformer-add")
    program = lower(plan(spec.shape, ARCH.on("mesh:1x1")), spec)
    wanted, fast, host = golden.Machine(program), FastMachine(program), Host(dut)
    await reset(dut)
    (image,) = images(program)
    await host.load(image)
    for position, token in enumerate(TOKENS):
        (slots,) = step_slots(program, position, token)
        await host.write("SLOTS", [slot & 0xFFFFFFFF for slot in slots])
        wanted.step(token, position)
        assert await host.step() == fast.step(token, position).cycles > 100
    words = await host.read("VECTOR", 0, ARCH.vector_words)
    model = wanted.tiles[0].vector.tolist()
    never_written = [at for at, word in enumerate(words) if word is None]
    assert [model[at] for at in never_written] == [0] * len(never_written)
    assert [word or 0 for word in words] == model
