"""GGUF models that the library writes: exact arrays, logits, tokenizer, and defects by name."""

import gguf
import numpy as np
import pytest

from tokenpath.sw.model import gguf as loader
from tokenpath.sw.model.reference import Reference

Kind = gguf.GGMLQuantizationType
IDS = [5, 39, 0, 17, 17, 2]


@pytest.fixture
def wide(maker):
    """A configuration whose rows are whole blocks of 32."""
    return maker.config(hidden_size=64, intermediate_size=96, num_attention_heads=4, head_dim=16)


@pytest.mark.parametrize("kind", [Kind.F32, Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q4_1])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_every_tensor_is_read_exactly(maker, wide, gguf_names, family, kind):
    config = {**wide, "model_type": family}
    arrays = maker.arrays(config)
    spec = loader.load(maker.gguf(config, arrays, arch=family, kind=kind))
    stored = {gguf_names(name): array for name, array in arrays.items()}
    assert len(spec.tensor_names) == len(stored)
    for name in spec.tensor_names:
        array = stored[loader.stored_name(name)]
        if array.ndim == 2:
            array = gguf.dequantize(gguf.quantize(array, kind), kind)
        assert np.array_equal(spec.tensor(name), array), name
    assert spec.tokenizer is None and spec.shape.name == "tiny"


def test_a_llama_file_rotates_adjacent_pairs_and_others_halves(maker, wide, logits):
    for family, adjacent in (("llama", True), ("qwen2", False), ("qwen3", False)):
        config = {**wide, "model_type": family}
        arrays = maker.arrays(config)
        spec = loader.load(maker.gguf(config, arrays, arch=family))
        assert spec.shape.rope_pairing == ("adjacent" if adjacent else "half")
        reference = Reference(spec)
        ours = np.array([reference.step(token) for token in IDS])
        expected = logits(config, arrays, IDS, adjacent=adjacent)
        np.testing.assert_allclose(ours, expected, rtol=5e-4, atol=5e-4)


def test_the_header_becomes_a_shape(maker, wide):
    def extra(writer):
        writer.add_key_length(16)
        writer.add_value_length(16)
        writer.add_rope_dimension_count(16)
        writer.add_sliding_window(8)

    arrays = maker.arrays({**wide, "tie_word_embeddings": True})
    shape = loader.load(maker.gguf(wide, arrays, extra=extra)).shape
    assert (shape.layers, shape.d_model, shape.heads, shape.kv_heads) == (2, 64, 4, 2)
    assert (shape.head_dim, shape.ffn, shape.vocab, shape.context) == (16, 96, 40, 32)
    assert shape.norm_eps == np.float32(1e-5) and shape.rope_theta == 1e4
    assert shape.tied and shape.windows == (8, 8) and shape.bos is None and shape.eos == ()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (lambda w: w.add_expert_count(8), "a mixture of experts is not supported"),
        (lambda w: w.add_rope_dimension_count(8), "llama.rope.dimension_count 8 is not the head"),
        (lambda w: w.add_value_length(32), "llama.attention.value_length 32 is not the head size"),
        (
            lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.YARN),
            "RoPE scaling 'yarn' is not supported",
        ),
        (
            lambda w: w.add_tensor("rope_freqs.weight", np.ones(8, np.float32)),
            "RoPE scaling (rope_freqs.weight)",
        ),
        (
            lambda w: w.add_tensor("blk.0.attn_output.bias", np.ones(64, np.float32)),
            "tensor 'blk.0.attn_output.bias' has no place in a 2-layer model",
        ),
        (lambda w: w.add_tokenizer_model("llama"), "tokenizer 'llama' with the split 'default'"),
        (
            lambda w: (w.add_tokenizer_model("gpt2"), w.add_tokenizer_pre("tekken")),
            "tokenizer 'gpt2' with the split 'tekken' is not supported",
        ),
        (
            lambda w: w.add_token_list([str(i) for i in range(41)]),
            "has 41 tokens and 40 embeddings",
        ),
        (
            lambda w: (
                w.add_tokenizer_model("gpt2"),
                w.add_token_list(["a"]),
                w.add_token_types([1, 1]),
            ),
            "lists of the tokenizer are damaged",
        ),
        (
            lambda w: (
                w.add_tokenizer_model("gpt2"),
                w.add_token_list(["a"]),
                w.add_token_merges(["a b c"]),
            ),
            "lists of the tokenizer are damaged",
        ),
        (
            lambda w: (
                w.add_tokenizer_model("gpt2"),
                w.add_token_list(["a"]),
                w.add_token_merges(["a b"]),
            ),
            "the tokenizer can't be read",
        ),
        (lambda w: w.add_string("tokenizer.ggml.tokens", "a"), "it has to be a list of texts"),
        (lambda w: w.add_eos_token_id(40), "bos or eos token 40 is outside the vocabulary"),
        (
            lambda w: w.add_string("tokenizer.ggml.eos_token_id", "x"),
            "tokenizer.ggml.eos_token_id is 'x'; it has to be a token id",
        ),
        (
            lambda w: w.add_uint32("tokenizer.ggml.add_bos_token", 1),
            "tokenizer.ggml.add_bos_token is 1; it has to be true or false",
        ),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(maker, wide, refused, extra, message):
    path = maker.gguf(wide, maker.arrays(wide), extra=extra)
    assert message in refused(loader.load, path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_attention_heads": 3, "num_key_value_heads": 1}, "head count that doesn't divide"),
        ({"num_key_value_heads": 3}, "head count that doesn't divide: 4 heads over 3 KV heads"),
        ({"num_hidden_layers": 1 << 31}, "llama.block_count 2147483648 is not a size"),
        ({"max_position_embeddings": 0}, "llama.context_length 0 is not a size"),
        ({"intermediate_size": 128}, "has shape (96, 64), the header says (128, 64)"),
        ({"num_hidden_layers": 3}, "lacks tensor blk.2.attn_norm.weight"),
        ({"num_hidden_layers": 1}, "has no place in a 1-layer model"),
        ({"rope_theta": float("inf")}, "rope_theta inf is outside"),
    ],
    ids=str,
)
def test_a_header_that_does_not_fit_the_tensors_is_refused(maker, wide, refused, changes, message):
    path = maker.gguf({**wide, **changes}, maker.arrays(wide))
    assert message in refused(loader.load, path)


def test_another_architecture_is_refused_by_name(maker, wide, refused):
    path = maker.gguf(wide, maker.arrays(wide), arch="gemma3")
    assert "architecture 'gemma3' is not supported; give one of llama" in refused(loader.load, path)


def test_a_type_that_is_not_understood_is_refused_when_loading(maker, wide, refused):
    path = maker.gguf(wide, maker.arrays(wide), kind=Kind.Q5_0)
    assert "has type Q5_0; convert it" in refused(loader.load, path)


def test_a_missing_tensor_is_named(maker, wide, refused):
    for name in ("token_embd", "output_norm"):
        arrays = maker.arrays(wide)
        theirs = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}[name]
        del arrays[f"{theirs}.weight"]
        path = maker.gguf(wide, arrays)
        assert f"{name}.weight" in refused(loader.load, path)


def test_weights_that_are_no_numbers_are_refused_by_name(maker, wide, refused):
    arrays = maker.arrays(wide)
    arrays["model.norm.weight"][3] = np.nan
    spec = loader.load(maker.gguf(wide, arrays))
    assert "tensor final_norm of tiny has NaN" in refused(spec.tensor, "final_norm")


def test_every_truncation_of_a_model_is_refused(maker, refused):
    config = maker.config(num_hidden_layers=1)
    path = maker.gguf(config, maker.arrays(config))
    whole = path.read_bytes()
    assert loader.load(path)
    path.write_bytes(whole[:-1])  # the library pads the last tensor with nothing
    for size in [*range(0, 2000, 7), *range(2000, len(whole), 997), len(whole) - 1]:
        path.write_bytes(whole[:size])
        refused(loader.load, path)


WORDS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<mark>", *"ab1Ċ", "Ġ", "ab", "Ġab"]


@pytest.mark.parametrize(
    ("add_bos", "ids"),
    [(None, [9, 10, 6, 6, 1]), (False, [9, 10, 6, 6, 1]), (True, [1, 9, 10, 6, 6, 1])],
)
def test_the_tokenizer_of_the_file_is_used(maker, wide, add_bos, ids):
    def extra(writer):
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("smollm")
        writer.add_token_list(WORDS)
        writer.add_token_types([3, 3, 3, 4] + [1] * 7)
        writer.add_token_merges(["a b", "Ġ ab"])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        if add_bos is not None:
            writer.add_add_bos_token(add_bos)

    spec = loader.load(maker.gguf(wide, maker.arrays(wide), extra=extra))
    assert spec.encode_prompt("ab ab11<|im_start|>") == ids
    assert spec.tokenizer.encode("a<mark>b<|im_end|>\n") == [4, 3, 5, 2, 7]
    assert spec.tokenizer.decode([4, 3, 5, 2, 7, 10]) == "a<mark>b\n ab"
    assert spec.shape.eos == (2, 0)
