"""Shapes: what they refuse, and the tensors that follow from them."""

import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model.shape import SIZE_LIMITS, ModelShape, tensor_shapes

GOOD = {
    "name": "tiny",
    "layers": 2,
    "d_model": 16,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 6,
    "ffn": 24,
    "vocab": 40,
    "context": 32,
    "norm_eps": 1e-5,
    "rope_theta": 1e4,
    "rope_pairing": "half",
    "tied": False,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": 0}, "layers 0 is not a size; give an integer from 1 to 1024"),
        ({"vocab": True}, "vocab True is not a size"),
        ({"ffn": 24.0}, "ffn 24.0 is not a size"),
        (
            {"heads": 4, "kv_heads": 3},
            "head count that doesn't divide: 4 heads over 3 KV heads; give a multiple of the KV "
            "heads",
        ),
        ({"head_dim": 5}, "head_dim 5 is odd and RoPE rotates pairs; use an even one"),
        ({"norm_eps": float("nan")}, "norm_eps nan is outside 0..1"),
        ({"rope_theta": float("inf")}, "rope_theta inf is outside 1..1e12"),
        ({"rope_theta": 0.5}, "rope_theta 0.5 is outside"),
        ({"rope_pairing": "quarter"}, "rope_pairing 'quarter' is unknown; use half or adjacent"),
        ({"windows": (4,)}, "1 attention windows for 2 layers; give one a layer"),
        ({"windows": (None, 0)}, "attention window 0 isn't positive; give 1 or more"),
        ({"bos": 40}, "bos or eos token 40 is outside the vocabulary; give ids from 0 to 39"),
        ({"eos": (1, -1)}, "bos or eos token -1 is outside the vocabulary"),
    ],
)
def test_a_wrong_value_is_answered_with_the_value_and_the_remedy(changes, message):
    with pytest.raises(InputError) as caught:
        ModelShape(**{**GOOD, **changes})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("field", SIZE_LIMITS)
def test_each_size_has_a_limit_that_is_still_allowed(field):
    with pytest.raises(InputError, match=field):
        ModelShape(**{**GOOD, field: SIZE_LIMITS[field] + 1})
    more = {"heads": {"kv_heads": 1}, "kv_heads": {"heads": SIZE_LIMITS["kv_heads"]}}
    assert ModelShape(**{**GOOD, field: SIZE_LIMITS[field], **more.get(field, {})})


def test_no_windows_means_full_attention_in_every_layer():
    assert ModelShape(**GOOD).windows == (None, None)
    assert ModelShape(**GOOD, windows=(8, None)).windows == (8, None)


def test_tensors_follow_from_the_shape_as_out_by_in():
    shapes = tensor_shapes(ModelShape(**GOOD))
    assert shapes["embed"] == shapes["head"] == (40, 16)
    assert shapes["layers.1.q"] == (24, 16) and shapes["layers.1.k"] == (12, 16)
    assert shapes["layers.0.o"] == (16, 24) and shapes["layers.0.down"] == (16, 24)
    assert shapes["layers.0.gate"] == (24, 16)
    assert len(shapes) == 3 + 2 * 9
    more = tensor_shapes(ModelShape(**GOOD, qk_norm=True, attention_bias=True))
    assert more["layers.0.q_norm"] == more["layers.1.k_norm"] == (6,)
    assert more["layers.0.q_bias"] == (24,) and more["layers.0.v_bias"] == (12,)
    assert len(more) == 3 + 2 * 14


def test_parameters_count_a_tied_head_once():
    layer = 16 + 16 + 24 * 16 + 2 * 12 * 16 + 16 * 24 + 3 * 24 * 16
    assert ModelShape(**GOOD).parameters == 2 * 40 * 16 + 16 + 2 * layer
    assert ModelShape(**{**GOOD, "tied": True}).parameters == 40 * 16 + 16 + 2 * layer
