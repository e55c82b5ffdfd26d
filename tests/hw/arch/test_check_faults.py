"""Program.check names each fault that is planted in a compiled program."""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import COLUMN, STREAM_OPS, Engine, Op
from tokenpath.hw.arch.program import Program
from tokenpath.sw.model import ModelShape
from tokenpath.sw.step import Step

Compile = Callable[..., Program]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"reduce": "ring"},
    {"reduce": "oneshot"},
    {"softmax": "merge", "page": 1},
    {"split": "input", "reduce": "ring", "kv_shards": 1},
    {"split": "output", "reduce": "oneshot", "kv_shards": 4, "page": 1},
]


# --- planted faults ---


def changed(program: Program, engine: Engine, index: int, **columns: int) -> Program:
    """The program with other values in one instruction."""
    row = list(program.code[0].engines[engine][index])
    for name, value in columns.items():
        row[COLUMN[name]] = value
    rows = list(program.code[0].engines[engine])
    rows[index] = tuple(row)
    return recoded(program, engine, rows, program.code[0].labels[engine])


def without(program: Program, engine: Engine, index: int) -> Program:
    """The program without one instruction."""
    code = program.code[0]
    keep = [i for i in range(len(code.engines[engine])) if i != index]
    return reordered(program, engine, keep)


def reordered(program: Program, engine: Engine, order: Sequence[int]) -> Program:
    code = program.code[0]
    rows = [code.engines[engine][i] for i in order]
    return recoded(program, engine, rows, [code.labels[engine][i] for i in order])


def recoded(program: Program, engine: Engine, rows: Any, labels: Any) -> Program:
    engines: Any = list(program.code[0].engines)
    names: Any = list(program.code[0].labels)
    engines[engine], names[engine] = tuple(rows), tuple(labels)
    code = replace(program.code[0], engines=tuple(engines), labels=tuple(names))
    return replace(program, code=(code,))


def redirected(program: Program, sender: int, index: int, **values: int) -> Program:
    """The program with other values in one put descriptor."""
    names = ("tile", "source", "words", "target")
    shape = program.descriptors.shape
    assert shape is not None
    table = array("i", program.descriptors.tobytes())
    for name, value in values.items():
        table[4 * (sender * shape[1] + index) + names.index(name)] = value
    view = memoryview(table).cast("B").cast("i", shape)
    return replace(program, descriptors=view)


def run_of(program: Program, tile: int) -> list[tuple[int, int, int, int]]:
    """(tile, source, words, target) of each descriptor of a tile."""
    table: Any = program.descriptors.tolist()
    return [tuple(row) for row in table[tile]]


def complaint(program: Program, steps: list[tuple[int, int]] | None = None) -> str:
    """What the full check says; "" if nothing."""
    try:
        program.check("full", steps)
    except InputError as error:
        assert "\n" not in str(error)
        return str(error)
    return ""


def instructions(program: Program, engine: Engine) -> Iterator[tuple[int, Callable[[str], int]]]:
    for index, row in enumerate(program.code[0].engines[engine]):
        yield index, lambda name, row=row: row[COLUMN[name]]  # type: ignore[misc]


def a_third(faults: Iterable[Any], options: dict[str, Any]) -> list[Any]:
    """Every third fault, another third for the next of OPTIONS."""
    return list(faults)[OPTIONS.index(options) % 3 :: 3]


def numbers(message: str, engine: Engine) -> list[int]:
    """Numbers of the engine's instructions that a message names."""
    return [int(n) for n in re.findall(rf"{engine.name.lower()} instruction (\d+) \(", message)]


STEPS = [(21, 9)]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_lost_or_lowered_wait_is_reported(compiled: Compile, options: dict[str, Any]) -> None:
    program = compiled(**options)
    exact = total = 0
    for engine in Engine:
        for index, of in a_third(instructions(program, engine), options):
            if not of("wait") or (of("wait_n"), of("wait_n_reg")) == (0, 0):
                continue
            lost = changed(program, engine, index, wait=0, wait_n=1, wait_n_reg=0)
            lowered = changed(program, engine, index, wait_n=of("wait_n") - 1)
            for broken in (lost, lowered):
                message = complaint(broken, STEPS)
                assert message, f"{engine.name} {index}"
                total += 1
                exact += index in numbers(message, engine)
                if of("op") == Op.SYNC:  # the instruction behind it runs too early
                    exact += index + 1 in numbers(message, engine)
    assert exact >= 0.6 * total, "the rest share a semaphore with a later wait"


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_lost_post_is_reported(compiled: Compile, options: dict[str, Any]) -> None:
    program = compiled(**options)
    for engine in Engine:
        for index, of in a_third(instructions(program, engine), options):
            if of("post"):
                message = complaint(changed(program, engine, index, post=0), STEPS)
                assert "waits for ever" in message, f"{engine.name} {index}: {message}"
                assert f"of semaphore {of('post')} are waited for" in message
            if of("op") == Op.PUT:
                message = complaint(changed(program, engine, index, y=0), STEPS)
                assert f"of semaphore {of('y')} are waited for" in message


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_put_to_another_place_is_reported(compiled: Compile, options: dict[str, Any]) -> None:
    program = compiled(**options)
    used: dict[int, int] = {}  # descriptor of tile 0: the PUT that uses it first
    for index, of in instructions(program, Engine.NETWORK):
        if (
            of("op") == Op.PUT
            and of("m")
            and "embed" not in program.where(0, Engine.NETWORK, index)
        ):
            used.setdefault(of("aux"), index)
    for at, index in a_third(iter(used.items()), options):
        to, _, words, target = run_of(program, 0)[at]
        other = 2 if to == 3 else 3
        for values in ({"tile": other}, {"target": target + 1}, {"words": words - 1}):
            assert complaint(redirected(program, 0, at, **values), STEPS), f"{index} {values}"
        message = complaint(redirected(program, 0, at, target=1 << 20), STEPS)
        assert f"tile 0 network instruction {index} (PUT" in message
        assert f"descriptor {at} writes words" in message


def collective(program: Program, label: str, skip: int = 0) -> int:
    """Number of a PUT of a stage."""
    rows = [
        index
        for index, of in instructions(program, Engine.NETWORK)
        if of("op") == Op.PUT and f", {label})" in program.where(0, Engine.NETWORK, index)
    ]
    return rows[skip]


def test_a_missing_self_put_is_a_wait_without_end(compiled: Compile) -> None:
    program = compiled(reduce="direct", split="output")
    index = collective(program, "0.hidden")  # a gather: each tile to all of its line, itself last
    row = program.code[0].engines[Engine.NETWORK][index]
    run = range(row[COLUMN["aux"]], row[COLUMN["aux"]] + row[COLUMN["m"]])
    own = [at for at in run if run_of(program, 2)[at][0] == 2]
    assert len(own) == 1
    message = complaint(redirected(program, 2, own[0], tile=3), [(5, 5)])
    assert message.startswith("tile 2 ") and "0.hidden): waits for ever" in message
    assert "(at position 5)" in message


def test_swapped_sends_are_reported(compiled: Compile) -> None:
    program = compiled(reduce="direct")
    count = len(program.code[0].engines[Engine.NETWORK])
    for skip in range(2):
        index = collective(program, "1.hidden", skip)
        order = [*range(index), index + 1, index, *range(index + 2, count)]
        message = complaint(reordered(program, Engine.NETWORK, order), STEPS)
        assert {index, index + 1} & set(numbers(message, Engine.NETWORK)), message


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_wrong_number_of_beats_is_reported(
    compiled: Compile, options: dict[str, Any]
) -> None:
    program = compiled(**options)
    takers = [i for i, of in instructions(program, Engine.COMPUTE) if of("op") in STREAM_OPS]
    streams = [i for i, of in instructions(program, Engine.MEMORY) if of("op") == Op.STREAM]
    assert len(takers) == len(streams) >= 20
    for taker, stream in a_third(zip(takers, streams, strict=True), options):
        rows = program.code[0].engines[Engine.COMPUTE][taker][COLUMN["n"]]
        message = complaint(changed(program, Engine.COMPUTE, taker, n=rows + 1))
        assert re.fullmatch(
            rf"tile \d compute instruction {taker} \([A-Z]+, [\w.]+\): takes \d+ beats, and its "
            rf"STREAM \(memory instruction {stream}\) has \d+",
            message,
        )


def test_a_stream_too_few_or_too_many_is_reported(compiled: Compile) -> None:
    program = compiled()
    first = next(i for i, of in instructions(program, Engine.MEMORY) if of("op") == Op.STREAM)
    last = max(i for i, of in instructions(program, Engine.COMPUTE) if of("op") in STREAM_OPS)
    fewer = without(program, Engine.MEMORY, first)
    assert re.search(r"takes \d+ beats|there's no STREAM for it", complaint(fewer))
    more = without(program, Engine.COMPUTE, last)
    assert "no compute instruction takes its beats" in complaint(more)


def test_parity_is_needed_and_missed(
    compiled: Compile, deep: ModelShape, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With idle tiles one-shot collectives may be one layer ahead: buffers have to alternate."""
    shape = replace(deep, heads=5, kv_heads=1)
    options: Any = {"split": "input", "softmax": "merge", "reduce": "oneshot", "kv_shards": 2}
    program = compiled(shape, **options)
    assert complaint(program, STEPS) == ""
    real = Step.collective
    monkeypatch.setattr(Step, "collective", lambda s, name, parity, team: real(s, name, 0, team))
    message = complaint(compiled(shape, **options), STEPS)
    assert re.fullmatch(
        r"tile \d: compute instruction \d+ \(SUM, 0\.hidden\) reads words \d+\.\.\d+ while the put "
        r"of tile \d network instruction \d+ \(PUT, 0\.hidden\) may write them \(at position 21\)",
        message,
    )
