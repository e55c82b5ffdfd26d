"""Small models with random weights, for the tests of what compiles and runs them."""

from typing import Any

import numpy as np

from tokenpath.sw.model import ModelShape, ModelSpec
from tokenpath.sw.model.spec import tensor_shapes

SMALL: dict[str, Any] = {
    "name": "small",
    "layers": 2,
    "d_model": 12,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 4,
    "ffn": 11,
    "vocab": 19,
    "context": 16,
    "norm_eps": 1e-5,
    "rope_theta": 100.0,
    "rope_pairing": "half",
    "tied": False,
}


def small_shape(**changes: Any) -> ModelShape:
    """A Llama-like shape whose sizes are no multiples of blocks or lanes."""
    return ModelShape(**(SMALL | changes))


def small_model(seed: int = 1, **changes: Any) -> ModelSpec:
    """A model of that shape; matrices keep the size of a vector, gains are around 1."""
    shape, rng = small_shape(**changes), np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    for name, size in tensor_shapes(shape).items():
        if "norm" in name:
            arrays[name] = rng.normal(1, 0.2, size)
        else:
            arrays[name] = rng.normal(0, 1 if name == "embed" else size[-1] ** -0.5, size)
    if shape.tied:
        del arrays["head"]
    return ModelSpec.from_arrays(shape, arrays)
