"""Shapes of well-known models by name, without weights: for runs that ask only for time.

Sizes follow litgpt 0.5.13 (config.py) and torchtitan 0.3.0; theta, epsilon, context, tying and
special tokens follow the config.json that the makers publish with the weights. Llama 3.2 scales
its RoPE frequencies ("llama3"); that changes numbers, not cost, and a shape has no numbers.
"""

from __future__ import annotations

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model.shape import ModelShape


def _llama3(
    name: str,
    layers: int,
    d_model: int,
    heads: int,
    ffn: int,
    *,
    head_dim: int = 128,
    context: int = 8192,
    tied: bool = False,
) -> ModelShape:
    return ModelShape(
        name=name,
        layers=layers,
        d_model=d_model,
        heads=heads,
        kv_heads=8,
        head_dim=head_dim,
        ffn=ffn,
        vocab=128256,
        context=context,
        norm_eps=1e-5,
        rope_theta=500_000.0,
        rope_pairing="half",
        tied=tied,
        bos=128000,
        eos=(128001,),
    )


def _qwen3(
    name: str, layers: int, d_model: int, heads: int, ffn: int, *, tied: bool = False
) -> ModelShape:
    return ModelShape(
        name=name,
        layers=layers,
        d_model=d_model,
        heads=heads,
        kv_heads=8,
        head_dim=128,
        ffn=ffn,
        vocab=151936,
        context=40960,
        norm_eps=1e-6,
        rope_theta=1_000_000.0,
        rope_pairing="half",
        tied=tied,
        qk_norm=True,
        eos=(151645, 151643),
    )


_MISTRAL = ModelShape(
    name="mistral-7b-v0.1",
    layers=32,
    d_model=4096,
    heads=32,
    kv_heads=8,
    head_dim=128,
    ffn=14336,
    vocab=32000,
    context=32768,
    norm_eps=1e-5,
    rope_theta=10_000.0,
    rope_pairing="half",
    tied=False,
    windows=(4096,) * 32,
    bos=1,
    eos=(2,),
)

_SMOLLM2 = ModelShape(
    name="smollm2-135m",
    layers=30,
    d_model=576,
    heads=9,
    kv_heads=3,
    head_dim=64,
    ffn=1536,
    vocab=49152,
    context=8192,
    norm_eps=1e-5,
    rope_theta=100_000.0,
    rope_pairing="half",
    tied=True,
    eos=(0,),
)

_ALL = (
    _llama3("llama-3-8b", 32, 4096, 32, 14336),
    _llama3("llama-3-70b", 80, 8192, 64, 28672),
    _llama3("llama-3.2-1b", 16, 2048, 32, 8192, head_dim=64, context=131072, tied=True),
    _qwen3("qwen3-0.6b", 28, 1024, 16, 3072, tied=True),
    _qwen3("qwen3-8b", 36, 4096, 32, 12288),
    _qwen3("qwen3-32b", 64, 5120, 64, 25600),
    _MISTRAL,
    _SMOLLM2,
)

SHAPES: dict[str, ModelShape] = {shape.name: shape for shape in _ALL}
"""The shapes that can be had by name."""

NOT_YET: dict[str, str] = {
    "qwen3-30b-a3b": "a mixture of experts",
    "qwen3-235b-a22b": "a mixture of experts",
    "mixtral-8x7b": "a mixture of experts",
    "mixtral-8x22b": "a mixture of experts",
    "gemma-3-1b": "Gemma's norms and local attention",
    "gemma-3-4b": "Gemma's norms and local attention",
    "gemma-3-27b": "Gemma's norms and local attention",
    "gpt-oss-20b": "a mixture of experts with attention sinks",
    "gpt-oss-120b": "a mixture of experts with attention sinks",
    "deepseek-v3": "latent attention (MLA) with a mixture of experts",
}
"""Models that are known by name but can't be expressed yet, with the reason."""


def shape_named(name: str) -> ModelShape | None:
    """The preset `name`, None for an unknown one; InputError for one that isn't supported yet."""
    if name in NOT_YET:
        raise InputError(
            f"model {name!r} needs {NOT_YET[name]}, which is not supported yet; "
            f"give one of {', '.join(SHAPES)}"
        )
    return SHAPES.get(name)
