"""Bench of an array: mathformer computes a sum, token by token, as in the fast simulator."""

from typing import Any

import cocotb
import numpy as np
from host import Host
from unit import ARCH, reset

from tokenpath.hw.arch.program import Program
from tokenpath.hw.load import images, step_slots
from tokenpath.sim.fast import FastMachine
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import plan
from tokenpath.sw.model import load

PROMPT = "7+8="


async def logits(host: Host, program: Program) -> list[int | None]:
    """The logits of the last step, gathered from the tiles."""
    found: list[int | None] = [None] * program.vocab
    for tile, (first, words) in enumerate(
        zip(program.logit_first, program.logit_words, strict=True)
    ):
        found[first : first + words] = await host.read("VECTOR", program.logits_at, words, tile)
    return found


@cocotb.test
async def a_model_decodes_as_in_the_fast_simulator(dut: Any) -> None:
    spec = load("mathformer", PROMPT)
    program = lower(plan(spec.shape, ARCH), spec)
    fast, host = FastMachine(program), Host(dut)
    await reset(dut)
    for tile, image in enumerate(images(program)):
        await host.load(image, tile)
    tokens, best = spec.encode_prompt(PROMPT), 0
    for position, token in enumerate(tokens):
        for tile, slots in enumerate(step_slots(program, position, token)):
            await host.write("SLOTS", [slot & 0xFFFFFFFF for slot in slots], tile)
        wanted = fast.step(token, position)
        assert await host.step() == wanted.cycles
        found = await logits(host, program)
        assert found == wanted.logits.tolist()
        best = int(np.argmax(wanted.logits))
    assert best == 5  # "1" of 15
