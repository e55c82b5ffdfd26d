"""config.json: what becomes a shape, and what is refused by name."""

import pytest

from tokenpath.sw.model.hf_config import end_tokens, shape_from_config


def test_a_llama_config_becomes_a_shape(maker):
    shape = shape_from_config(maker.config(), name="tiny")
    assert (shape.layers, shape.d_model, shape.heads, shape.kv_heads) == (2, 16, 4, 2)
    assert (shape.head_dim, shape.ffn, shape.vocab, shape.context) == (4, 24, 40, 32)
    assert (shape.norm_eps, shape.rope_theta, shape.rope_pairing) == (1e-5, 1e4, "half")
    assert (shape.tied, shape.qk_norm, shape.attention_bias) == (False, False, False)
    assert shape.windows == (None, None) and shape.eos == (2,) and shape.name == "tiny"


def test_families_differ_in_norms_and_biases(maker):
    qwen2, qwen3 = (
        shape_from_config(maker.config(model_type=t), name="t") for t in ("qwen2", "qwen3")
    )
    assert (qwen2.attention_bias, qwen2.qk_norm, qwen2.head_dim) == (True, False, 4)
    assert (qwen3.attention_bias, qwen3.qk_norm, qwen3.head_dim) == (False, True, 128)


def test_an_old_llama_has_as_many_kv_heads_as_heads(maker, refused):
    config = maker.config()
    del config["num_key_value_heads"]
    assert shape_from_config(config, name="t").kv_heads == 4
    config["model_type"] = "mistral"
    assert "lacks num_key_value_heads" in refused(shape_from_config, config, name="t")


def test_rope_theta_is_found_in_both_generations(maker):
    new = {"rope_type": "default", "rope_theta": 5e5}
    assert shape_from_config(maker.config(rope_parameters=new), name="t").rope_theta == 5e5
    old = maker.config(rope_scaling={"type": "default"}, rope_theta=3e4)
    assert shape_from_config(old, name="t").rope_theta == 3e4


@pytest.mark.parametrize(
    ("changes", "windows"),
    [
        ({"model_type": "llama", "sliding_window": 8}, (None, None)),
        ({"model_type": "mistral", "sliding_window": 8}, (8, 8)),
        ({"model_type": "mistral", "sliding_window": None}, (None, None)),
        ({"model_type": "mistral", "sliding_window": 32}, (None, None)),
        ({"model_type": "qwen2", "sliding_window": 8}, (None, None)),
        (
            {
                "model_type": "qwen2",
                "sliding_window": 8,
                "use_sliding_window": True,
                "max_window_layers": 1,
            },
            (None, 8),
        ),
        (
            {
                "model_type": "qwen3",
                "sliding_window": 8,
                "use_sliding_window": True,
                "layer_types": ["sliding_attention", "full_attention"],
            },
            (8, None),
        ),
    ],
)
def test_windows_are_given_for_each_layer(maker, changes, windows):
    assert shape_from_config(maker.config(**changes), name="t").windows == windows


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mixtral"}, "model_type 'mixtral' (a mixture of experts) is not supported"),
        ({"model_type": "deepseek_v3"}, "'deepseek_v3' (latent attention (MLA)) is not supported"),
        ({"model_type": "gemma3"}, "'gemma3' (Gemma's norms and embedding scale)"),
        ({"model_type": "gpt2"}, "'gpt2' is not supported; give a model of type llama, mistral"),
        ({"model_type": None}, "model_type None is not supported"),
        ({"model_type": ["llama"]}, "is not supported"),
        ({"num_local_experts": 8}, "a mixture of experts (num_local_experts 8) is not supported"),
        ({"kv_lora_rank": 512}, "latent attention (kv_lora_rank 512) is not supported"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported"),
        ({"mlp_bias": True}, "mlp_bias true is not supported"),
        ({"attention_bias": True}, "attention_bias true is not supported"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5 is not supported"),
        (
            {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}},
            "partial_rotary_factor 0.25 is not supported",
        ),
        (
            {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
            "RoPE scaling 'llama3' is not supported",
        ),
        ({"rope_scaling": {"type": "yarn"}}, "RoPE scaling 'yarn' is not supported"),
        ({"rope_parameters": {"rope_type": "linear"}}, "RoPE scaling 'linear'"),
        ({"rope_scaling": 4}, "rope_scaling 4 is not an object"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config 'gptq'"),
        ({"num_attention_heads": 3, "num_key_value_heads": 1}, "head count that doesn't divide"),
        ({"num_key_value_heads": 3}, "head count that doesn't divide: 4 heads over 3 KV heads"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers 1000000000000 is not a size"),
        ({"vocab_size": 1 << 40}, "vocab_size 1099511627776 is not a size"),
        ({"hidden_size": "16"}, "hidden_size '16' is not a size"),
        ({"head_dim": 3}, "head_dim 3 is odd"),
        ({"rms_norm_eps": "1e-5"}, "rms_norm_eps '1e-5' is not a number"),
        ({"rope_theta": 10**400}, "rope_theta is too large"),
        ({"rms_norm_eps": float("nan")}, "norm_eps nan is outside"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings 'yes' is not true or false"),
        ({"eos_token_id": 40}, "eos_token_id 40 is not a token; give ids from 0 to 39"),
        ({"eos_token_id": ["a"]}, "eos_token_id ['a'] is not a token"),
        (
            {"model_type": "mistral", "sliding_window": 8, "layer_types": ["full_attention"]},
            "is not a list of 2; give one a layer",
        ),
        (
            {"model_type": "mistral", "sliding_window": 8, "layer_types": ["chunked"] * 2},
            "layer type 'chunked' is not supported",
        ),
    ],
    ids=str,
)
def test_what_is_not_supported_is_refused_by_name(maker, refused, changes, message):
    assert message in refused(shape_from_config, maker.config(**changes), name="t")


@pytest.mark.parametrize(
    "key",
    [
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "vocab_size",
        "max_position_embeddings",
    ],
)
def test_a_size_that_is_missing_is_named(maker, refused, key):
    config = maker.config()
    del config[key]
    assert refused(shape_from_config, config, name="t").startswith(f"config.json lacks {key}")


def test_end_tokens_are_one_a_list_or_none():
    assert end_tokens({}, 40) == ()
    assert end_tokens({"eos_token_id": None}, 40) == ()
    assert end_tokens({"eos_token_id": 3}, 40) == (3,)
    assert end_tokens({"eos_token_id": [3, 5, 3]}, 40) == (3, 5)
