"""The reference pages docs/isa.md and docs/timing.md, rendered from the definition.

``python -m tokenpath.hw.arch.reference`` writes them; a test compares them with the files.
"""

from collections.abc import Sequence
from pathlib import Path

from . import timing
from .isa import ENGINE_OPS, INSTRUCTION_BITS, LAYOUT, OPERANDS, Engine, Op

_CASES = (("n = 32, m = 1, q = 0", 32, 1, 0), ("n = 128, m = 4, q = 1", 128, 4, 1))


RULES = """\
Words that an instruction writes lie apart from those that it reads, or begin at the same word as
them: SUM and MAX as a slot or the initial words, MERGE as a record, RMS, ROPE and DIV as their
vectors, SILU as gate or up. ARGMAX and ARGPAIR may write where they like. No read goes across the
front of the inbox. Rows have elements; the headroom of a SCORE holds the blocks of a row, that of
an AXPY its rows; a SILU has 6..22 fraction bits. `Program.check` refuses what is against this.
"""


def _table(columns: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def isa_page() -> str:
    """docs/isa.md: layout of an instruction, operations and their operands."""
    at, fields = 0, []
    for field in LAYOUT:
        fields.append((field.name, at, field.bits, "signed" if field.signed else "unsigned"))
        at += field.bits
    rows: list[tuple[object, ...]] = []
    for op in Op:
        engines = ", ".join(e.name.lower() for e in Engine if op in ENGINE_OPS[e])
        operands = "; ".join(f"`{name}`: {text}" for name, text in OPERANDS[op].items()) or "-"
        rows.append((f"`{op.name}`", op.value, engines, operands))
    return (
        "# Instructions\n\nGenerated from `hw/arch/isa.py` by `python -m "
        "tokenpath.hw.arch.reference`.\n\n"
        "An operand is `register + immediate`. `wait`, `wait_n` and `post` belong to "
        "every operation.\n\n"
        + RULES
        + "\n"
        + _table(("operation", "code", "engine", "operands"), rows)
        + f"\n## Layout, {INSTRUCTION_BITS} bits\n\n"
        + _table(("field", "lowest bit", "bits", ""), fields)
    )


def timing_page() -> str:
    """docs/timing.md: constants, and durations of operations at two sizes on preset edge."""
    names = [name for name in vars(timing) if name.isupper()]
    constants = [(f"`{name}`", getattr(timing, name)) for name in names]
    vector = [op for op in Op if op in ENGINE_OPS[Engine.COMPUTE] and op not in _STREAM]
    rows: list[tuple[object, ...]] = [
        (f"`{op.name}`", *(timing.vector_cycles(op, n, m, q, 8, 32) for _, n, m, q in _CASES))
        for op in vector
    ]
    return (
        "# Timing\n\nGenerated from `hw/arch/timing.py` by `python -m "
        "tokenpath.hw.arch.reference`.\n\n"
        + _table(("constant", "cycles (words for HEADER_WORDS)"), constants)
        + "\nDurations with 8 vector lanes and blocks of 32:\n\n"
        + _table(("operation", *(text for text, *_ in _CASES)), rows)
        + "\nAn operation on a stream lasts from its start (and, for AXPY, its prologue) over one "
        "cycle a beat to the\nepilogue of `stream_epilogue`.\n"
    )


_STREAM = (Op.DOT, Op.SCORE, Op.AXPY, Op.LOAD)

PAGES = {"isa.md": isa_page, "timing.md": timing_page}
"""File in docs/ and what it holds."""


def main(docs: Path) -> None:
    """Write the pages into ``docs``."""
    for name, page in PAGES.items():
        (docs / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(__file__).resolve().parents[2] / "docs")
