"""Whole decoder layers: close to fp32 on one tile, and the same integers on any array."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from synthetic import small_model

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import COLUMN, Engine, Op
from tokenpath.hw.arch.params import PRESETS, Format
from tokenpath.hw.arch.program import Program
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.sim import golden
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import REDUCES, SPLITS, plan
from tokenpath.sw.model import ModelSpec
from tokenpath.sw.model.reference import Reference

TINY = PRESETS["tiny"]
ONE = TINY.on("mesh:1x1")
ROOMY = replace(TINY, store_beats=1 << 13, append_beats=16, operand_beats=32)
FEED = [3, 1, 4, 1, 5, 9]


def logits(program: Program, feed=FEED, seed=None) -> np.ndarray:
    machine = golden.Machine(program, seed)
    return np.stack([machine.step(token, at).logits for at, token in enumerate(feed)])


def exact(spec, feed=FEED) -> np.ndarray:
    reference = Reference(spec)
    return np.stack([reference.step(token) for token in feed])


def relative_error(got: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(got / 2**16 - wanted) / np.linalg.norm(wanted))


SHAPES = st.fixed_dictionaries(
    {
        "layers": st.integers(1, 2),
        "d_model": st.integers(3, 20),
        "kv_heads": st.integers(1, 3),
        "head_dim": st.sampled_from([4, 6, 8, 16]),
        "ffn": st.sampled_from([1, 7, 11, 13, 24]),
        "vocab": st.integers(10, 40),
        "tied": st.booleans(),
        "qk_norm": st.booleans(),
        "attention_bias": st.booleans(),
        "rope_pairing": st.sampled_from(["half", "adjacent"]),
        "window": st.sampled_from([None, 1, 3]),
        "per_head": st.integers(1, 3),
        "seed": st.integers(0, 99),
    }
)
PLACES = st.fixed_dictionaries(
    {
        "topology": st.sampled_from(["mesh:2x2", "torus:3x2", "flat:5", "mesh:1x3", "tiered:2x2"]),
        "split": st.sampled_from(SPLITS),
        "reduce": st.sampled_from(REDUCES),
        "kv_shards": st.none() | st.integers(1, 4),
        "page": st.integers(1, 3),
        "order": st.integers(0, 9),
    }
)


@settings(max_examples=10, phases=[Phase.explicit, Phase.reuse, Phase.generate])  # no shrinking
@given(SHAPES, PLACES)
def test_any_small_model_is_close_to_fp32_and_the_same_on_any_array(sizes, place):
    sizes, place = dict(sizes), dict(place)
    heads = sizes["kv_heads"] * sizes.pop("per_head")
    windows = (sizes.pop("window"), None)[: sizes["layers"]]
    spec = small_model(heads=heads, windows=windows, **sizes)
    alone = logits(lower(plan(spec.shape, ROOMY.on("mesh:1x1")), spec))
    # an element of 8 bits is off by 2**-8 of the largest one in its block; a handful in a row
    assert relative_error(alone, exact(spec)) < 0.1
    arch, order = ROOMY.on(place.pop("topology")), place.pop("order")
    place["kv_shards"] = place["kv_shards"] and min(place["kv_shards"], arch.tiles)
    program = lower(plan(spec.shape, arch, **place), spec)
    program.check("full")
    assert (logits(program, seed=order) == alone).all()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"qk_norm": True, "rope_pairing": "adjacent"},
        {"attention_bias": True, "windows": (2, None)},
        {"tied": True, "heads": 6, "kv_heads": 1, "head_dim": 8},  # three streams over one KV head
    ],
    ids=["plain", "qk-norm", "bias and window", "tied, one KV head"],
)
def test_wide_activations_come_closer(changes):
    """Weights that elements hold exactly: what is left is the error of activations and KV rows."""
    spec = small_model(**changes)
    held = {n: np.rint(spec.tensor(n).clip(-1.9, 1.9) * 64) / 64 for n in spec.tensor_names}
    spec = ModelSpec.from_arrays(spec.shape, held)
    errors = []
    for bits in (16, 8):
        numbers = replace(ONE.numeric, act=Format(bits=bits), weight=Format(mantissa_bits=0))
        program = lower(plan(spec.shape, replace(ONE, numeric=numbers)), spec)
        errors.append(relative_error(logits(program), exact(spec)))
    assert errors[0] < errors[1] < 0.03 and errors[0] < 0.01, errors


def test_the_result_is_the_arg_max_and_its_value():
    spec = small_model()
    program = lower(plan(spec.shape, TINY), spec)
    machine = golden.Machine(program)
    for position, token in enumerate(FEED):
        step = machine.step(token, position)
        assert step.best == int(step.logits.argmax())
        value = machine.tiles[program.result_tile].vector[program.result_at]
        assert value == step.logits.max()
        assert step.saturations == step.overflows == 0


def test_labels_name_the_stages():
    spec = small_model()
    program = lower(plan(spec.shape, TINY), spec)
    stages = {label for labels in program.code[0].labels for label in labels}
    layers = {f"{layer}.{part}" for layer in range(2) for part in ("attention", "hidden")}
    assert stages == {"embed", "head"} | layers
    assert program.meta["model"] == "small" and program.meta["split"] == "2d"


def test_without_values_the_code_is_the_same():
    spec = small_model(qk_norm=True, attention_bias=True)
    mapping = plan(spec.shape, TINY)
    timing, full = lower(mapping, spec, values=False), lower(mapping, spec)
    assert timing.elements is timing.scales is None
    assert timing.code == full.code and timing.rules == full.rules
    timing.check()
    with_values = np.asarray(full.vector_shared)
    assert np.asarray(timing.vector_shared).shape == with_values.shape and with_values.any()


def test_the_code_is_stored_once_for_all_tiles():
    spec = small_model()
    for topology in ("mesh:2x2", "mesh:4x4"):
        program = lower(plan(spec.shape, TINY.on(topology)), spec)
        assert len(program.code) == 1
        ops = [row[COLUMN["op"]] for row in program.code[0].engines[Engine.COMPUTE]]
        assert ops.count(Op.DOT) == 1 + 2 * 5  # the head; q k v, o, gate, up and down of two layers


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        (
            {"operand_beats": 1},
            "an input row of small needs operand_beats 2 and tiny has 1; "
            "give an architecture with more, more tiles, or more --kv-shards",
        ),
        ({"score_rows": 31}, "the scores of a KV shard of small needs score_rows 32 and tiny"),
        ({"append_beats": 3}, "new K and V rows of small needs append_beats 4 and tiny has 3"),
        ({"code_words": 50}, "compute instructions and tiny code_words 50; give an arch"),
        ({"scratch_words": 100}, "the program needs more than 100 words of scratch a tile; give"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_machine_that_is_too_small_is_named(arch, message):
    spec = small_model()
    with pytest.raises(InputError) as refusal:
        lower(plan(spec.shape, replace(ONE, **arch)), spec)
    assert message in str(refusal.value)


def test_routers_in_which_packets_pass_each_other_run_no_values():
    spec = small_model()
    machine = replace(ROOMY, router=RouterParams.parse("vc2-d2"))
    mapping = plan(spec.shape, machine)
    with pytest.raises(InputError, match="router vc2-d2 lets packets of a tile pass each other"):
        lower(mapping, spec)
    assert lower(mapping, spec, values=False).elements is None
    one = replace(ROOMY, router=RouterParams.parse("vc1-d2"))
    assert lower(plan(spec.shape, one), spec).elements is not None
