"""A golden machine and the fast simulator's memories side by side, one instruction at a time."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from tokenpath.hw.arch.isa import OPERAND_FIELDS, STREAM_OPS, Instr, Op
from tokenpath.hw.arch.params import Arch, Format, Numeric
from tokenpath.hw.arch.program import Code, Program
from tokenpath.sim.compiled import kernel
from tokenpath.sim.fast import values as kernels
from tokenpath.sim.fast.memories import make_values, values_at
from tokenpath.sim.fast.state import addresses
from tokenpath.sim.golden import Machine

TILES, TILE = 2, 1
STORE_BEATS, SCRATCH, INBOX, SCORE_ROWS = 48, 448, 64, 24
WORDS = SCRATCH + INBOX
SMALL = Arch.from_dict(
    {
        "topology": f"mesh:{TILES}x1", "scratch_words": SCRATCH, "inbox_words": INBOX,
        "score_rows": SCORE_ROWS, "operand_beats": 4, "append_beats": 8, "accumulator_beats": 3,
        "store_beats": STORE_BEATS,
    },
    Arch.load("tiny"),
)  # fmt: skip

EXAMPLES = settings(max_examples=120, derandomize=True, database=None)
"""The same examples each time, for tests that count the corners which these reach."""

MOODS = st.sampled_from(["usual", "extreme", "sparse"])
MEMORIES = (
    "vector",
    "elements",
    "scales",
    "operand",
    "operand_scales",
    "append",
    "append_scales",
    "scores",
)


@kernel
def compute(values, tile, stream_src):
    kernels.compute(values_at(values), tile, stream_src)


@kernel
def append(values, tile, dst, src, n):
    kernels.append(values_at(values), tile, dst, src, n)


@kernel
def inject(values, tile, src, words, at):
    kernels.inject(values_at(values), tile, src, words, at)


@kernel
def deliver(values, at, words, tile, dst, op):
    kernels.deliver(values_at(values), at, words, tile, dst, op)


@st.composite
def machines(draw: Any) -> Arch:
    """A small machine; blocks of every size, formats of every width, one to three blocks a beat."""
    formats = {
        name: Format(
            bits=draw(st.sampled_from(bits)), mantissa_bits=draw(st.sampled_from([3, 0, 7]))
        )
        for name, bits in (("weight", [8, 4]), ("kv", [8, 4]), ("act", [8, 4, 16]))
    }
    block = draw(st.sampled_from([4, 8, 16, 32, 64]))
    numeric = Numeric(block=block, score_frac=draw(st.sampled_from([12, 8, 20])), **formats)
    lanes = block * draw(st.integers(1, 3))
    return replace(SMALL, numeric=numeric, lanes=lanes, vlanes=block)


def words(rng: np.random.Generator, shape: Any, mood: str) -> Any:
    """Words as activations are, many at the rails, or half of them zero."""
    usual = rng.integers(-(1 << 19), 1 << 19, shape)
    if mood == "extreme":
        return rng.choice([-(2**31), 2**31 - 1, -(2**31) + 1, 2**30, -1, 0, 1], shape)
    return np.where(rng.random(shape) < 0.5, usual, 0) if mood == "sparse" else usual


def elements(rng: np.random.Generator, shape: Any, bits: int, mood: str) -> Any:
    """Elements of ``bits`` bits, at their limits when extreme; half of the beats 0 when sparse."""
    limit = (1 << (bits - 1)) - 1
    if mood == "extreme":
        return rng.choice([-limit - 1, -limit, limit], shape)
    drawn = rng.integers(-limit, limit + 1, shape)
    if mood == "sparse":
        drawn[rng.random(shape[0]) < 0.5] = 0
    return drawn


def codes(rng: np.random.Generator, shape: Any, mantissa_bits: int, mood: str) -> Any:
    """Scale codes: exponents around those of real weights, any 16 bits in an extreme mood."""
    exponents = rng.integers(-14, -2, shape)
    drawn = (exponents << mantissa_bits) | rng.integers(0, 1 << mantissa_bits, shape)
    if mood == "extreme":
        return np.where(rng.random(shape) < 0.4, rng.integers(-(2**15), 2**15, shape), drawn)
    return drawn


class Pair:
    """The same memories twice: ``tile`` of a golden machine, and TILE of ``values``.

    ``execute`` runs an instruction on both and compares everything; ``clamped`` and ``wrapped`` are
    what that one counted.
    """

    def __init__(self, arch: Arch, seed: int = 0, mood: str = "usual") -> None:
        rng = np.random.default_rng(seed)
        self.arch, numbers = arch, arch.numeric
        blocks, bits = arch.blocks_per_beat, max(numbers.weight.bits, numbers.kv.bits)
        self.program = image(
            arch,
            words(rng, (TILES, arch.vector_words), mood),
            elements(rng, (TILES * STORE_BEATS, arch.lanes), bits, mood),
            codes(rng, (TILES, STORE_BEATS, blocks), numbers.weight.mantissa_bits, mood),
        )
        self.machine = Machine(self.program)
        self.values = make_values(self.program, packets=4)
        self.tile = self.machine.tiles[TILE]
        self.clamped = self.wrapped = 0
        for tile in self.machine.tiles:
            tile.operand[:] = elements(rng, tile.operand.shape, numbers.act.bits, mood)
            tile.operand_scales[:] = codes(
                rng, tile.operand_scales.shape, numbers.act.mantissa_bits, mood
            )
            tile.append[:] = elements(rng, tile.append.shape, numbers.kv.bits, mood)
            tile.append_scales[:] = codes(
                rng, tile.append_scales.shape, numbers.kv.mantissa_bits, mood
            )
            tile.scores[:] = words(rng, tile.scores.shape, mood)
        self.copy("operand", "operand_scales", "append", "append_scales", "scores")
        self.check()

    def copy(self, *names: str) -> None:
        """Bring the fast simulator's memories of these names to what the golden machine holds."""
        for index, tile in enumerate(self.machine.tiles):
            for name in names:
                getattr(self.values, name)[index] = getattr(tile, name)

    def write(self, at: int, data: Any) -> None:
        """Words into both vector memories."""
        self.tile.vector[at : at + len(data)] = data
        self.copy("vector")

    def read(self, at: int, count: int) -> list[int]:
        """Words of the fast simulator's vector memory."""
        found: list[int] = self.values.vector[TILE, at : at + count].tolist()
        return found

    def execute(self, op: Op, stream: int = 0, **operands: int) -> None:
        """Run an instruction on TILE, behind a STREAM from beat ``stream`` on if it needs one."""
        row = {name: operands.get(name, 0) for name in (*OPERAND_FIELDS[1:], "q", "x", "y")}
        before = self.machine._counts()
        if op in STREAM_OPS:
            self.golden(Op.STREAM, src=stream, n=operands["n"], m=operands["m"])
        self.golden(op, **operands)
        if op == Op.APPEND:
            append(addresses(self.values), TILE, row["dst"], row["src"], row["n"])
        elif op == Op.PUT:
            self.deliver(row)
        else:
            self.values.ops[:] = [op, *row.values()]
            compute(addresses(self.values), TILE, stream)
        self.check()
        self.clamped, self.wrapped = (
            new - old for new, old in zip(self.machine._counts(), before, strict=True)
        )

    def golden(self, op: Op, **operands: int) -> None:
        """Run an instruction on the golden machine."""
        assert self.machine._execute(self.tile, Instr(op=op, **operands).columns())

    def deliver(self, row: dict[str, int]) -> None:
        """Every packet of a put, between two words that are none of its business."""
        for to, source, count, target in self.tile.descriptors[
            row["aux"] : row["aux"] + row["m"]
        ].tolist():
            packet = self.values.vector[TILE, row["src"] + source : row["src"] + source + count]
            self.values.payload[: count + 2] = [7, *packet, 7]
            deliver(addresses(self.values), 1, count, to, row["dst"] + target, row["x"])

    def check(self) -> None:
        """Both sides hold the same numbers in all memories of all tiles, and counted the same."""
        for index, tile in enumerate(self.machine.tiles):
            for name in MEMORIES:
                found = getattr(self.values, name)[index]
                np.testing.assert_array_equal(found, getattr(tile, name), err_msg=name)
        counts = self.values.counters.sum(axis=0).tolist()
        assert counts == list(self.machine._counts()), "counters"


def image(arch: Arch, vector: Any, store: Any, scales: Any) -> Program:
    """A program without instructions, but with images; half of the scratch is the shared one."""
    shared, tiles, nothing = arch.scratch_words // 2, arch.tiles, ((), (), ())
    vector[:, :shared] = vector[0, :shared]
    return Program(
        arch=arch, code=(Code(engines=nothing, labels=nothing),), tile_code=(0,) * tiles,
        registers=memoryview(np.zeros((tiles, 256), np.int32)),
        descriptors=memoryview(np.zeros((tiles, 1, 4), np.int32)),
        vector_shared=memoryview(vector[0, :shared].astype(np.int32)),
        vector_tile=memoryview(vector[:, shared:].astype(np.int32)),
        elements=memoryview(store.astype(np.int8).reshape(tiles, -1, arch.lanes)),
        scales=memoryview(scales.astype(np.int16)),
        store_beats_used=store.size // arch.lanes // tiles, rules=(), shards_of=(0,) * tiles,
        shards=1, page=1, context=1, vocab=1, logits_at=0, logit_words=(0,) * tiles,
        logit_first=(0,) * tiles, result_tile=0, result_at=0,
    )  # fmt: skip
