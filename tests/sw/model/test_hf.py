"""Hugging Face directories that the test writes: exact arrays, and every defect by name."""

import json

import numpy as np
import pytest
import tokenizers

from tokenpath.sw.model import hf


def expected(arrays, dtype):
    if dtype == "F16":
        return {n: a.astype(np.float16).astype(np.float32) for n, a in arrays.items()}
    if dtype == "BF16":
        return {n: (a.view(np.uint32) & 0xFFFF0000).view(np.float32) for n, a in arrays.items()}
    return arrays


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_every_tensor_is_read_exactly(maker, family, dtype, shards):
    config = maker.config(model_type=family, head_dim=6)
    arrays = maker.arrays(config)
    spec = hf.load(maker.hf(config, arrays, dtype=dtype, shards=shards))
    known = expected(arrays, dtype)
    assert len(spec.tensor_names) == len(known)
    for name in spec.tensor_names:
        assert np.array_equal(spec.tensor(name), known[hf.stored_name(name)])
    assert spec.shape.name == "tiny" and spec.tokenizer is None and spec.has_weights


def test_names_of_a_checkpoint():
    names = {
        "embed": "model.embed_tokens.weight",
        "head": "lm_head.weight",
        "final_norm": "model.norm.weight",
        "layers.3.attn_norm": "model.layers.3.input_layernorm.weight",
        "layers.3.ffn_norm": "model.layers.3.post_attention_layernorm.weight",
        "layers.3.o": "model.layers.3.self_attn.o_proj.weight",
        "layers.10.down": "model.layers.10.mlp.down_proj.weight",
        "layers.3.v_bias": "model.layers.3.self_attn.v_proj.bias",
        "layers.3.q_norm": "model.layers.3.self_attn.q_norm.weight",
    }
    assert {name: hf.stored_name(name) for name in names} == names


def test_a_tied_model_needs_no_head_and_ignores_one(maker):
    config = maker.config(tie_word_embeddings=True)
    arrays = maker.arrays(config)
    with_head = {**arrays, "lm_head.weight": np.zeros((40, 16), np.float32)}
    for held in (arrays, with_head):
        spec = hf.load(maker.hf(config, held))
        assert np.array_equal(spec.tensor("head"), arrays["model.embed_tokens.weight"])


def test_the_fingerprint_follows_one_changed_weight(maker):
    config, prints = maker.config(), set()
    for value in (0.0, 1.0):
        arrays = maker.arrays(config)
        arrays["model.layers.1.mlp.up_proj.weight"][2, 3] = value
        prints.add(hf.load(maker.hf(config, arrays)).fingerprint)
    assert len(prints) == 2


def test_a_missing_tensor_is_named(maker, refused):
    config = maker.config()
    for name in ("model.layers.1.self_attn.k_proj.weight", "lm_head.weight"):
        arrays = maker.arrays(config)
        del arrays[name]
        assert f"lacks tensor {name}; fetch" in refused(hf.load, maker.hf(config, arrays))


def test_a_tensor_of_another_shape_is_named(maker, refused):
    arrays = maker.arrays(maker.config())
    name = "model.layers.0.mlp.gate_proj.weight"
    arrays[name] = np.ascontiguousarray(arrays[name].T)
    message = refused(hf.load, maker.hf(maker.config(), arrays))
    assert f"tensor {name} has shape (16, 24), config.json says (24, 16)" in message


def test_a_tensor_that_has_no_place_is_named(maker, refused):
    arrays = maker.arrays(maker.config())
    rotary = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.zeros(2, np.float32)}
    assert hf.load(maker.hf(maker.config(), {**arrays, **rotary}))
    bias = {"model.layers.0.self_attn.o_proj.bias": np.zeros(16, np.float32)}
    message = refused(hf.load, maker.hf(maker.config(), {**arrays, **bias}))
    assert "o_proj.bias' has no place in a 2-layer model" in message
    one = maker.config(num_hidden_layers=1)
    assert "has no place in a 1-layer model" in refused(hf.load, maker.hf(one, arrays))


def test_another_dtype_is_refused_when_the_model_is_loaded(maker, refused):
    arrays = maker.arrays(maker.config())
    message = refused(hf.load, maker.hf(maker.config(), arrays, dtype="F64"))
    assert "has dtype F64" in message


def test_weights_that_are_no_numbers_are_refused_by_name(maker, refused):
    arrays = maker.arrays(maker.config())
    arrays["model.layers.0.self_attn.v_proj.weight"][0, 0] = np.inf
    spec = hf.load(maker.hf(maker.config(), arrays, dtype="BF16"))
    assert "tensor layers.0.v of tiny has NaN or infinite" in refused(spec.tensor, "layers.0.v")


def test_missing_files_are_named(maker, refused):
    folder = maker.hf(maker.config(), maker.arrays(maker.config()))
    (folder / "model.safetensors").unlink()
    assert "has neither model.safetensors nor" in refused(hf.load, folder)
    (folder / "config.json").unlink()
    assert "config.json can't be read (No such file" in refused(hf.load, folder)


def test_an_index_is_not_trusted(maker, refused, tmp_path):
    config = maker.config()
    folder = maker.hf(config, maker.arrays(config), shards=2)
    index = folder / "model.safetensors.index.json"
    places = json.loads(index.read_text())["weight_map"]
    (tmp_path / "model-0.safetensors").write_bytes((folder / "model-0.safetensors").read_bytes())
    for bad in ("../model-0.safetensors", str(tmp_path / "model-0.safetensors"), "x.bin", ".."):
        index.write_text(json.dumps({"weight_map": {**places, "lm_head.weight": bad}}))
        assert "use files beside it" in refused(hf.load, folder)
    for bad in ([], None, {"a": 1}):
        index.write_text(json.dumps({"weight_map": bad}))
        assert "has no weight_map" in refused(hf.load, folder)
    index.write_text(json.dumps({"weight_map": {**places, "lm_head.weight": "gone.safetensors"}}))
    assert "gone.safetensors can't be read" in refused(hf.load, folder)
    moved = {**places, "lm_head.weight": "model-0.safetensors"}
    if places["lm_head.weight"] == "model-0.safetensors":
        moved["lm_head.weight"] = "model-1.safetensors"
    index.write_text(json.dumps({"weight_map": moved}))
    assert "lacks tensor lm_head.weight" in refused(hf.load, folder)


def write_tokenizer(folder, *, template):
    """Whole words as tokens, <s> put before them by the template."""
    words = {"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "good": 4, "day": 5}
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    library.add_special_tokens(["<s>", "</s>"])
    if template:
        library.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 1)]
        )
    library.enable_truncation(2)
    library.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize(
    ("template", "setting", "ids"),
    [
        (True, None, [1, 3, 4, 5, 2, 0]),
        (False, None, [3, 4, 5, 2, 0]),
        (True, False, [3, 4, 5, 2, 0]),
        (False, True, [1, 3, 4, 5, 2, 0]),
    ],
)
def test_the_tokenizer_of_the_directory_is_used_and_decides_on_bos(maker, template, setting, ids):
    config = maker.config(bos_token_id=1)
    folder = maker.hf(config, maker.arrays(config))
    write_tokenizer(folder, template=template)
    if setting is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps({"add_bos_token": setting}))
    spec = hf.load(folder)
    assert spec.encode_prompt("a good day </s> sir") == ids
    assert spec.tokenizer.decode([3, 4, 5, 2]) == "a good day"


def test_a_broken_tokenizer_is_refused(maker, refused):
    folder = maker.hf(maker.config(), maker.arrays(maker.config()))
    for content in ("", "[]", '{"model": {"type": "BPE"}}', '{"version": "9"}'):
        (folder / "tokenizer.json").write_text(content)
        assert "tokenizer.json: the tokenizer can't be read" in refused(hf.load, folder)


def test_end_tokens_of_the_generation_config_are_added(maker, refused):
    folder = maker.hf(maker.config(), maker.arrays(maker.config()))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 2]}))
    assert hf.load(folder).shape.eos == (2, 7)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 99}))
    assert "eos_token_id 99 is not a token" in refused(hf.load, folder)


def test_a_config_alone_is_a_shape(maker):
    folder = maker.hf(maker.config(), maker.arrays(maker.config()))
    spec = hf.load_shape(folder / "config.json")
    assert not spec.has_weights and spec.shape.name == "tiny" and spec.shape.layers == 2
