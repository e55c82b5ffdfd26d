"""Program.check lets every compiled program through, on a machine that is large enough."""

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tokenpath.hw.arch.check import default_steps
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import PRESETS, Arch, Format
from tokenpath.hw.arch.program import Program
from tokenpath.sw.model import ModelShape, load

Compile = Callable[..., Program]
TOPOLOGIES = [
    "line:1",
    "line:2",
    "mesh:2x2",
    "ring:3",
    "mesh:3x2",
    "flat:5",
    "line2@die,full3@board",
]


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("reduce", ["direct", "ring", "oneshot"])
def test_compiled_programs_pass(compiled: Compile, roomy: Arch, topology: str, reduce: str) -> None:
    arch = roomy.on(topology)
    for softmax, split, page, shards in (
        ("exact", "2d", 1, None),
        ("exact", "output", 4, 1),
        ("merge", "input", 1, min(2, arch.tiles)),
    ):
        program = compiled(
            arch=arch, split=split, reduce=reduce, softmax=softmax, page=page, kv_shards=shards
        )
        program.check("full", steps=[(0, 0), (39, 18)])


@pytest.mark.parametrize("name", ["mathformer-add", "glassllm"])
def test_real_models_pass(compiled: Compile, name: str) -> None:
    arch = PRESETS["tiny"] if name == "mathformer-add" else PRESETS["edge"].on("mesh:2x2")
    compiled(load(name).shape, arch, page=16).check("full", steps=[(0, 0), (40, 7)])


@pytest.mark.parametrize(
    ("size", "text"),
    [
        ({"scratch_words": 128}, r"words of constants|instruction \d+ \(.*\): .* words"),
        ({"inbox_words": 16}, r"\(SUM, embed\): reads words 8204\.\.\d+; there are 0\.\.8207"),
        (
            {"append_beats": 1},
            r"\(APPEND, 0.attention\): reads append-buffer beats 0\.\.1; there are 0",
        ),
        (
            {"operand_beats": 1},
            r"compute instruction \d+ \(QUANT, 0.attention\): writes operand beats 0",
        ),
        (
            {"accumulator_beats": 1},
            r"\(AXPY, 0.attention\): writes accumulator beats 0..1; there are",
        ),
        ({"score_rows": 4}, r"\(SCORE, 0.attention\): writes score rows 0..\d+; there are 0..3"),
        ({"queries": 1}, r"\(QUANT, 0.attention\): uses 2 queries; there are 1"),
        (
            {"store_beats": 64},
            r"program has \d+ beats of store and the architecture store_beats 64",
        ),
        ({"descriptors": 8}, r"program has \d+ put descriptors and the architecture descriptors 8"),
        (
            {"code_words": 16},
            r"program has \d+ memory instructions of class 0 and .* code_words 16",
        ),
    ],
)
def test_a_smaller_machine_is_refused(
    compiled: Compile, deep: ModelShape, roomy: Arch, size: dict[str, Any], text: str
) -> None:
    shape = replace(deep, head_dim=12)
    program = compiled(shape)
    program.check()
    with pytest.raises(InputError, match=text):
        replace(program, arch=replace(roomy, **size)).check()


def test_the_default_steps_are_the_first_a_middle_and_the_last(compiled: Compile) -> None:
    program = compiled()
    assert default_steps(program) == [(0, 0), (19, 9), (39, 18)]
    assert default_steps(replace(program, context=1, vocab=1)) == [(0, 0)]


def test_a_fault_at_one_position_is_found_there(compiled: Compile, roomy: Arch) -> None:
    """The last row of a shard is beyond the store at the last position only."""
    program = compiled(page=1, arch=roomy.on("line:2"))
    short = replace(program, store_beats_used=program.store_beats_used - 1)
    with pytest.raises(
        InputError, match=r"\(APPEND, 1.attention\): writes store beats \d+; there are"
    ):
        short.check()


@pytest.mark.parametrize(
    ("bits", "k", "elements", "scales", "text"),
    [
        (8, 3, [-128, 127], [-1024, 1023], ""),
        (4, 3, [-8, 7], [0, 0], ""),
        (4, 3, [-8, 8], [0, 0], "program has an element 8 and the architecture -8..7"),
        (4, 3, [-9, 7], [0, 0], "program has an element -9 and the architecture -8..7"),
        (8, 3, [0, 0], [0, 1024], "program has a scale code 1024 and the architecture -1024..1023"),
        (8, 0, [0, 0], [-129, 0], "program has a scale code -129 and the architecture -128..127"),
    ],
)
def test_what_the_formats_cannot_hold_is_refused(
    hand_made: Callable[..., Program],
    bits: int,
    k: int,
    elements: list[int],
    scales: list[int],
    text: str,
) -> None:
    tiny = PRESETS["tiny"].on("line:1")
    fmt = Format(bits=bits, mantissa_bits=k)
    arch = replace(tiny, numeric=replace(tiny.numeric, weight=fmt, kv=fmt))
    beat = array("b", [*elements, *[0] * (arch.lanes - 2)])
    program = replace(
        hand_made(arch, [([], [], [])], store_beats_used=1),
        elements=memoryview(beat).cast("B").cast("b", [1, 1, arch.lanes]),
        scales=memoryview(array("h", scales)).cast("B").cast("h", [1, 1, 2]),
    )
    if not text:
        program.check()
        return
    with pytest.raises(InputError) as caught:
        program.check()
    assert str(caught.value) == f"{text}; compile it for this one"
