"""What the modules of sim/fast share: tables, addresses, compilation; and that it scales."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest

from tokenpath.hw.arch.isa import REGISTERS, Instr, Op
from tokenpath.hw.arch.params import PRESETS, Arch
from tokenpath.hw.arch.program import Code, Program
from tokenpath.sim.fast import FastMachine, columns, jit, network_tables, tables
from tokenpath.sim.fast.state import addresses


def spmd(arch: Arch) -> Program:
    """Every tile sends a word to the next one and waits for its own."""
    tiles = arch.tiles
    queues = [[Instr(op=Op.STREAM, n=4, m=8)], [Instr(op=Op.DOT, n=4, m=8, wait=1)]]
    queues.append([Instr(op=Op.PUT, m=1, y=1)])
    rows = tuple(tuple(i.columns() for i in queue) for queue in queues)
    labels = (("weights",), ("linear",), ("ring",))
    ring = np.zeros((tiles, 1, 4), np.int32)
    ring[:, 0, 0] = (np.arange(tiles) + 1) % tiles
    ring[:, 0, 2] = 1
    return Program(
        arch=arch,
        code=(Code(engines=rows, labels=labels),),
        tile_code=(0,) * tiles,
        registers=memoryview(np.zeros((tiles, REGISTERS), np.int32)),
        descriptors=memoryview(ring),
        vector_shared=memoryview(np.zeros(0, np.int32)),
        vector_tile=memoryview(np.zeros((tiles, 1), np.int32)),
        elements=None,
        scales=None,
        store_beats_used=16,
        rules=(),
        shards_of=(-1,) * tiles,
        shards=1,
        page=1,
        context=1,
        vocab=1,
        logits_at=0,
        logit_words=(0,) * tiles,
        logit_first=(0,) * tiles,
        result_tile=0,
        result_at=0,
    )


def test_a_program_without_weights_runs_for_its_cycles():
    step = FastMachine(spmd(PRESETS["tiny"])).step(0, 0)
    assert step.logits is None
    assert set(step.stages) == {"linear", "ring"}
    assert sum(step.ledger.values()) == step.cycles


def test_thousands_of_tiles_take_few_kilobytes_each():
    arch = PRESETS["tiny"].on("mesh:64x64")
    machine = FastMachine(spmd(arch))
    step = machine.step(0, 0)
    # the longest way is from the last tile back to the first
    assert step.cycles == 3 + 1 + 126 + 2 + 1 + 1 + 4 + 8
    assert step.ledger["interconnect"] == 2 + 1 + 126 + 2 + 1
    arrays = [*machine.engines, *machine.network]
    assert sum(array.nbytes for array in arrays) < arch.tiles * 5000


def test_code_is_kept_once_a_class_and_has_its_labels():
    code = tables.CodeTable.build(spmd(PRESETS["tiny"].on("mesh:16x16")))
    assert code.rows.shape == (3, columns.CODE_WIDTH)
    assert code.first.tolist() == [[0, 1, 2, 3]]
    assert [code.labels[i] for i in code.label_of] == ["weights", "linear", "ring"]
    assert code.streams() == 1
    assert code.used("wait", "post", "y") == 2


def test_a_pointer_to_the_wrong_integers_is_refused():
    network = network_tables.network(PRESETS["tiny"])
    assert len(addresses(network)) == len(network)
    with pytest.raises(TypeError, match="outputs is int64: make it contiguous int32"):
        addresses(network._replace(outputs=network.outputs.astype(np.int64)))
    with pytest.raises(TypeError, match="buffers"):
        addresses(network._replace(buffers=network.buffers[::2]))


def compiled(signatures, on_disk):
    index = SimpleNamespace(_load_index=lambda: on_disk)
    return SimpleNamespace(signatures=signatures, _cache=SimpleNamespace(_cache_file=index))


@pytest.mark.parametrize(
    ("kernels", "said"),
    [
        ([compiled([], {})], True),
        ([compiled([], {"a": "file"})], False),
        ([compiled(["done"], {})], False),
        ([compiled(["done"], {}), compiled([], {})], True),
        ([SimpleNamespace(signatures=[])], False),
    ],
)
def test_a_compilation_is_announced_before_it_happens(kernels, said, caplog):
    with caplog.at_level(logging.WARNING, "tokenpath"):
        jit.announce(*kernels)
    assert (jit.COMPILING in caplog.text) == said
