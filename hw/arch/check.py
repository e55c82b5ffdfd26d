"""Program.check: is a program well-formed, and does its synchronisation hold in every order?

``static`` looks at the code alone: shapes, operations, operands, places, streams. It takes 20 ms
for glassllm on 16 tiles and a second for an 8B model on 256, and every program that is loaded
from a file goes through it.

``full`` also follows one step at some positions (:mod:`.happens`, :mod:`.races`): deadlock, posts
that nobody takes, and pairs of accesses to the same place that nothing orders. Its time and
memory grow with (waits of all tiles) x (engines + pairs of tiles that exchange puts): a second a
step for glassllm on 16 tiles, up to 20 s on 64; large arrays are best checked by a smaller sister.
"""

from collections.abc import Sequence
from typing import Literal

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import LAYOUT, REGISTERS, Engine
from tokenpath.hw.arch.program import BUFFERS, Program
from tokenpath.hw.arch.races import check_step
from tokenpath.hw.arch.reach import RULES, flat, shape_of
from tokenpath.hw.arch.static import check_code

DIMENSIONS = {
    "registers": 2,
    "descriptors": 3,
    "vector_shared": 1,
    "vector_tile": 2,
    "elements": 3,
    "scales": 3,
}
"""Dimensions of each buffer."""

MOST = 1 << 24
"""Largest context, vocabulary, page and number of shards."""

Level = Literal["static", "full"]
Step = tuple[int, int]


def check(program: Program, level: Level = "static", steps: Sequence[Step] | None = None) -> None:
    """Raise InputError, one line with tile, engine and instruction, if a program has a fault.

    ``steps`` are the (position, token) pairs of the full check: by default the first, a middle and
    the last position, each with another token.
    """
    check_structure(program)
    _formats(program)
    check_code(program)
    if level == "full":
        for position, token in default_steps(program) if steps is None else steps:
            check_step(program, position, token)


def default_steps(program: Program) -> list[Step]:
    """The steps that the full check follows if none are given."""
    last, token = program.context - 1, program.vocab - 1
    return sorted({(0, 0), (last // 2, token // 2), (last, token)})


def check_structure(program: Program) -> None:
    """Raise InputError if a buffer or a list of a program has another size than the rest says."""
    arch, tiles = program.arch, program.tiles
    _sizes(program)
    for index, code in enumerate(program.code):
        for engine, rows, labels in zip(Engine, code.engines, code.labels, strict=True):
            what = f"{engine.name.lower()} instructions of class {index}"
            _agree(f"program has {len(rows)} {what} and {len(labels)} labels", rows, labels)
            _within(f"program has {len(rows)} {what}", len(rows), arch.code_words, "code_words")
            if any(len(row) != len(LAYOUT) for row in rows):
                raise InputError(
                    f"program has {what} without {len(LAYOUT)} fields; compile it again"
                )
    _rules(program)
    for name, values, most in (
        ("tile_code", program.tile_code, len(program.code) - 1),
        ("shards_of", program.shards_of, program.shards - 1),
        ("result_tile", (program.result_tile,), tiles - 1),
    ):
        low = -1 if name == "shards_of" else 0
        bad = [value for value in values if not low <= value <= most]
        if bad:
            raise InputError(
                f"program's {name} {bad[0]} is outside {low}..{most}; compile it again"
            )
    _logits(program)


def _formats(program: Program) -> None:
    """Elements and scales of the store fit the formats of the architecture."""
    numeric, remedy = program.arch.numeric, "compile it for this one"
    bits = max(numeric.weight.bits, numeric.kv.bits)
    if program.elements is not None and bits < 8:
        half = 1 << (bits - 1)
        allowed = bytes(value & 0xFF for value in range(-half, half))
        if wild := flat(program.elements).tobytes().translate(None, allowed):
            value = wild[0] - ((wild[0] & 0x80) << 1)
            raise InputError(
                f"program has an element {value} and the architecture {-half}..{half - 1}; {remedy}"
            )
    if program.scales is not None and program.scales.nbytes:
        codes = flat(program.scales)
        limit = 128 << max(numeric.weight.mantissa_bits, numeric.kv.mantissa_bits)
        for code in (min(codes), max(codes)):
            if not -limit <= code < limit:
                have = f"the architecture {-limit}..{limit - 1}"
                raise InputError(f"program has a scale code {code} and {have}; {remedy}")


def _agree(message: str, *sized: Sequence[object]) -> None:
    if len({len(one) for one in sized}) > 1:
        raise InputError(f"{message}; compile it again")


def _within(what: str, have: int, most: int, field: str) -> None:
    if have > most:
        raise InputError(f"{what} and the architecture {field} {most}; compile it for this one")


def _sizes(program: Program) -> None:
    arch, tiles = program.arch, program.tiles
    for name, dims in DIMENSIONS.items():
        view = getattr(program, name)
        if view is not None and (view.ndim, view.format.lstrip("@=<")) != (dims, BUFFERS[name]):
            text = f"{view.ndim} dimensions of {view.format!r}, not {dims} of {BUFFERS[name]!r}"
            raise InputError(f"program's {name} have {text}; compile it again")
    for name, shape in program.shapes().items():
        view = getattr(program, name)
        if view is not None and view.shape != shape:
            text = f"shape {view.shape}, not {shape}"
            raise InputError(f"program's {name} have {text}; compile it again")
    for name in ("tile_code", "shards_of", "logit_words", "logit_first"):
        values = getattr(program, name)
        _agree(f"program has {len(values)} {name} for {tiles} tiles", values, range(tiles))
    words = len(program.vector_shared) + shape_of(program.vector_tile)[1]
    _within(f"program has {words} words of constants", words, arch.scratch_words, "scratch_words")
    used = program.store_beats_used
    _within(f"program has {used} beats of store", used, arch.store_beats, "store_beats")
    count = shape_of(program.descriptors)[1]
    _within(f"program has {count} put descriptors", count, arch.descriptors, "descriptors")
    for name in ("page", "shards", "context", "vocab"):
        if not 1 <= getattr(program, name) <= MOST:
            raise InputError(f"program's {name} is {getattr(program, name)}; give 1..{MOST}")


def _rules(program: Program) -> None:
    """Each step rule has a register of its own, a known kind and a span; register 0 reads as 0."""
    seen = set()
    for rule in program.rules:
        if rule.kind not in RULES:
            raise InputError(f"program has an unknown step rule {rule.kind!r}; compile it again")
        if not 1 <= rule.register < REGISTERS or rule.register in seen:
            raise InputError(
                f"program has a step rule {rule.kind} for register {rule.register}; "
                f"give each its own of 1..{REGISTERS - 1}"
            )
        seen.add(rule.register)
        least = 0 if rule.kind.startswith("kv_") else 1
        if rule.span < least or rule.span2 < 1:
            text = f"has spans {rule.span} and {rule.span2}"
            raise InputError(f"program's step rule {rule.kind} {text}; compile it again")
    table = flat(program.registers)
    if any(table[::REGISTERS]):
        raise InputError("program's register 0 isn't 0 on every tile; compile it again")


def _logits(program: Program) -> None:
    """Logits and result lie in vector memory, and logits in the vocabulary."""
    size, vocab = program.arch.vector_words, program.vocab
    for tile, (first, words) in enumerate(
        zip(program.logit_first, program.logit_words, strict=True)
    ):
        if words < 0 or not 0 <= first <= first + words <= vocab:
            raise InputError(
                f"tile {tile} has logits {first}..{first + words - 1} of {vocab}; compile it again"
            )
    end = program.logits_at + max(program.logit_words)
    for what, first, last in (
        ("logits", program.logits_at, end),
        ("result", program.result_at, program.result_at + 2),
    ):
        if not 0 <= first <= last <= size:
            raise InputError(
                f"program's {what} are at words {first}..{last - 1}; there are 0..{size - 1}"
            )
