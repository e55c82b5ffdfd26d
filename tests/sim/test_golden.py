"""The golden executor: order, semaphores, streams, puts, and what it says of a deadlock."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tokenpath.hw.arch.isa import REGISTERS, Instr, Op, PutOp
from tokenpath.hw.arch.numeric import WORD_MAX, WORD_MIN
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import Code, Program, StepRule
from tokenpath.sim import golden

TWO = PRESETS["tiny"].on("flat:2")
Queues = tuple[Sequence[Instr], Sequence[Instr], Sequence[Instr]]
SEEDS = [None, 0, 1, 2]


def program(*codes: Queues, **changes: Any) -> Program:
    """Two tiles with 64 words of constants each: 100 * (tile + 1) + address."""
    words = np.arange(64) + 100 * np.arange(1, 3)[:, None]
    fields: dict[str, Any] = {
        "tile_code": (0, 1) if len(codes) == 2 else (0, 0),
        "registers": np.zeros((2, REGISTERS), np.int32),
        "descriptors": np.zeros((2, 1, 4), np.int32),
        "vector_shared": np.zeros(0, np.int32),
        "vector_tile": words.astype(np.int32),
        "elements": None,
        "scales": None,
        "store_beats_used": 4,
        "rules": (),
        "shards_of": (0, 1),
        "shards": 2,
        "page": 1,
        "context": 9,
        "vocab": 3,
        "logits_at": 0,
        "logit_words": (2, 1),
        "logit_first": (0, 2),
        "result_tile": 0,
        "result_at": 8,
    }
    fields |= changes
    held = {k: memoryview(v) if isinstance(v, np.ndarray) else v for k, v in fields.items()}
    return Program(arch=TWO, code=tuple(map(_code, codes)), **held)


def _code(queues: Queues) -> Code:
    rows: Any = tuple(tuple(i.columns() for i in queue) for queue in queues)
    labels: Any = tuple(tuple("" for _ in queue) for queue in queues)
    return Code(engines=rows, labels=labels)


def copy(dst: int, src: int, **more: Any) -> Instr:
    return Instr(op=Op.SUM, dst=dst, src=src, n=1, m=1, **more)


def test_a_step_says_what_came_out():
    machine = golden.Machine(program(([], [copy(9, 33)], [])))
    step = machine.step(token=5, position=4)
    assert (step.position, step.token, step.best) == (4, 5, 133)
    assert step.logits.tolist() == [100, 101, 200]  # two words of tile 0, one of tile 1
    assert step.logits.dtype == np.int32 and step.cycles == 0


def test_shared_constants_come_first():
    machine = golden.Machine(program(([], [], []), vector_shared=np.array([7, 8], np.int32)))
    assert machine.tiles[1].vector[:4].tolist() == [7, 8, 200, 201]


@pytest.mark.parametrize("seed", SEEDS)
def test_semaphores_order_the_engines(seed):
    """Memory waits for two posts of compute, network for one of memory; taken posts are gone."""
    compute = [copy(40, 1, post=1), copy(41, 2, post=1), copy(42, 50, wait=3)]
    memory = [Instr(op=Op.SYNC, wait=1, wait_n=2, post=2)]
    network = [Instr(op=Op.PUT, src=40, dst=50, m=1, y=3, wait=2)]
    descriptors = np.array([[[1, 0, 1, 0]], [[0, 0, 1, 0]]], np.int32)
    machine = golden.Machine(program((memory, compute, network), descriptors=descriptors), seed)
    for _ in range(3):
        machine.step(0, 0)
        assert [tile.vector[42] for tile in machine.tiles] == [201, 101]
        assert not any(any(tile.semaphores) for tile in machine.tiles)


def test_an_engine_that_nobody_wakes_is_named():
    code = ([], [copy(1, 2), copy(1, 2, wait=5)], [])
    for seed in SEEDS:
        with pytest.raises(RuntimeError, match="deadlock: tile 1 compute waits at instruction 1"):
            golden.Machine(program(([], [], []), code), seed).step(0, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stream_feeds_its_operation_whenever_it_comes(seed):
    elements = np.arange(2 * 4 * 8).reshape(2, 4, 8).astype(np.int8)
    scales = np.zeros((2, 4, 2), np.int16)
    memory = [Instr(op=Op.STREAM, src=(1, 1), n=1, m=8), Instr(op=Op.STREAM, src=0, n=2, m=2)]
    compute = [
        Instr(op=Op.LOAD, dst=70, n=1, m=8),
        Instr(op=Op.LOAD, dst=80, n=2, m=2),
    ]
    registers = np.zeros((2, REGISTERS), np.int32)
    registers[:, 1] = [0, 2]
    machine = golden.Machine(
        program((memory, compute, []), elements=elements, scales=scales, registers=registers), seed
    )
    machine.step(0, 0)
    zero, one = machine.tiles
    assert zero.vector[70:78].tolist() == list(range(8, 16))
    assert one.vector[70:78].tolist() == list(range(32 + 24, 32 + 32))
    assert zero.vector[80:84].tolist() == [0, 1, 8, 9]


def test_rows_are_appended_and_streamed_again():
    """QUANT into the append buffer, APPEND to the beat that a register names, LOAD."""
    rules = (StepRule(register=3, kind="kv_append"), StepRule(register=4, kind="kv_next"))
    compute = [Instr(op=Op.QUANT, src=0, n=8, m=1, y=1, post=1)]
    memory = [Instr(op=Op.APPEND, dst=(2, 4), src=0, n=(0, 3), wait=1)]
    zeros = np.zeros((2, 4, 8), np.int8), np.zeros((2, 4, 2), np.int16)
    machine = golden.Machine(
        program((memory, compute, []), rules=rules, elements=zeros[0], scales=zeros[1])
    )
    for position, where in enumerate([(0, 2), (1, 2), (0, 3)]):  # pages of one go round robin
        before = [tile.elements.copy() for tile in machine.tiles]
        machine.step(0, position)
        changed = [
            (t, beat)
            for t, tile in enumerate(machine.tiles)
            for beat in range(4)
            if (tile.elements[beat] != before[t][beat]).any()
        ]
        assert changed == [where]
        tile, beat = where
        assert (machine.tiles[tile].elements[beat] == machine.tiles[tile].append[0]).all()
        assert (machine.tiles[tile].scales[beat] == machine.tiles[tile].append_scales[0]).all()


@pytest.mark.parametrize(
    ("op", "wanted", "overflows"),
    [
        (PutOp.STORE, [WORD_MAX, 3], 0),
        (PutOp.ADD, [WORD_MIN, 1], 1),
        (PutOp.MAX, [WORD_MAX, 3], 0),
    ],
    ids=lambda value: value.name if isinstance(value, PutOp) else "",
)
def test_puts_combine_where_they_land(op, wanted, overflows):
    words = np.array([[0, WORD_MAX, 3, 0], [0, 0, 1, -2]], np.int32)
    descriptors = np.array([[[1, 1, 2, 0], [0, 0, 0, 0]], [[0, 0, 0, 0]] * 2], np.int32)
    send = ([], [], [Instr(op=Op.PUT, src=0, dst=(2, 7), m=2, x=op, y=9)])
    registers = np.zeros((2, REGISTERS), np.int32)
    registers[0, 7] = 0
    changes = {"descriptors": descriptors, "vector_tile": words, "registers": registers}
    machine = golden.Machine(program(send, ([], [], []), **changes))
    step = machine.step(0, 0)
    assert machine.tiles[1].vector[2:4].tolist() == wanted
    assert step.overflows == overflows
    assert [tile.semaphores[9] for tile in machine.tiles] == [1, 1]  # an empty put posts, too


def test_a_racy_program_shows_in_some_order():
    """Without semaphores the put may take the word before or after it is written."""
    compute, network = [copy(40, 7)], [Instr(op=Op.PUT, src=40, dst=50, m=1)]
    descriptors = np.array([[[1, 0, 1, 0]], [[0, 0, 0, 0]]], np.int32)
    seen = set()
    for seed in range(8):
        machine = golden.Machine(program(([], compute, network), descriptors=descriptors), seed)
        machine.step(0, 0)
        seen.add(int(machine.tiles[1].vector[50]))
    assert seen == {140, 107}


def test_counts_are_of_each_step():
    compute = [Instr(op=Op.SUM, dst=40, src=0, bux=1, n=1, m=1, q=1)]
    words = np.array([[WORD_MAX, 1]] * 2, np.int32)
    machine = golden.Machine(program(([], compute, []), vector_tile=words))
    assert [machine.step(0, position).overflows for position in range(2)] == [2, 2]


def test_run_feeds_the_prompt_and_then_itself():
    """A program whose result is the position that it is at."""
    rules = (StepRule(register=1, kind="position_low", span=99),)
    compute = [Instr(op=Op.SUM, dst=9, src=(10, 1), n=1, m=1)]
    run = golden.run(program(([], compute, []), rules=rules), [4, 5], 3, seed=1)
    assert (run.executor, run.prompt, run.arch_fingerprint) == (
        "golden",
        [4, 5],
        TWO.fingerprint,
    )
    assert [step.token for step in run.steps] == [4, 5, 111, 112]
    assert run.tokens == [111, 112, 113]
