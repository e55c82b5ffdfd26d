"""The host of a tile or an array: loads a program, runs steps, reads words."""

from typing import Any

from unit import DESCRIPTION, following, settled

from tokenpath.hw.arch.isa import Engine
from tokenpath.hw.load import Images

SPACES = {space["name"]: space["number"] for space in DESCRIPTION["host_spaces"]}
MOST_CYCLES = 100_000


class Host:
    """Drives the host port of ``dut``; a tile has no ``host_tile``."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut

    async def load(self, image: Images, tile: int = 0) -> None:
        """Write the memories of a tile."""
        await self.write("LENGTHS", [len(rows) for rows in image.code], tile)
        for engine in Engine:
            await self.write(f"{engine.name}_CODE", image.code[engine], tile)
        await self.write("DESCRIPTORS", image.descriptors, tile)
        await self.write("VECTOR", image.vector, tile)
        await self.write("STORE", image.store, tile)

    async def write(self, space: str, rows: list[int], tile: int = 0) -> None:
        """Write rows from address 0 on, one a cycle."""
        dut = self.dut
        self._choose(space, tile)
        dut.host_write.value = 1
        for address, row in enumerate(rows):
            dut.host_address.value = address
            dut.host_data.value = row
            await following(dut)
        dut.host_write.value = 0

    async def read(self, space: str, first: int, count: int, tile: int = 0) -> list[int | None]:
        """Signed words, None for one that was never written and is undefined.

        A word comes a cycle behind its address.
        """
        dut = self.dut
        words: list[int | None] = []
        self._choose(space, tile)
        for address in range(first, first + count):
            dut.host_address.value = address
            await following(dut)
            await settled(dut)
            word = dut.host_word.value
            words.append(word.to_signed() if word.is_resolvable else None)
        await following(dut)
        return words

    async def step(self) -> int:
        """Run a step; returns its cycles."""
        dut = self.dut
        dut.go.value = 1
        await following(dut)
        dut.go.value = 0
        flying = 0  # packets on their way
        for cycle in range(1 - DESCRIPTION["start_cycles"], MOST_CYCLES):
            await settled(dut)
            if hasattr(dut, "done"):
                done = dut.done.value == 1
                assert not done or dut.cycles.value == cycle
            else:
                done = cycle >= 0 and dut.idle.value == 1 and not flying
                flying += int(dut.sent.value) - int(dut.received.value)
            await following(dut)
            if done:
                return cycle
        raise AssertionError(f"the step didn't end in {MOST_CYCLES} cycles")

    def _choose(self, space: str, tile: int) -> None:
        self.dut.host_space.value = SPACES[space]
        if hasattr(self.dut, "host_tile"):
            self.dut.host_tile.value = tile
