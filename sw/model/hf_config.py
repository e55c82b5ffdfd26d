"""A Hugging Face config.json as a ModelShape; what it can't express is refused by name."""

from __future__ import annotations

from collections.abc import Mapping

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model.files import brief
from tokenpath.sw.model.shape import ModelShape, check_size

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""The values of "model_type" that are understood."""

_MIXTURE = ("num_experts", "num_local_experts", "n_routed_experts", "moe_intermediate_size")
_LATENT = ("kv_lora_rank", "q_lora_rank")
_REASONS = {
    "mixtral": "a mixture of experts",
    "qwen2_moe": "a mixture of experts",
    "qwen3_moe": "a mixture of experts",
    "gpt_oss": "a mixture of experts with attention sinks",
    "deepseek_v2": "latent attention (MLA)",
    "deepseek_v3": "latent attention (MLA)",
    "gemma": "Gemma's norms and embedding scale",
    "gemma2": "Gemma's norms and embedding scale",
    "gemma3": "Gemma's norms and embedding scale",
    "gemma3_text": "Gemma's norms and embedding scale",
}

Config = Mapping[str, object]


def shape_from_config(config: Config, *, name: str) -> ModelShape:
    """The shape of a config.json; InputError names what is missing, wrong or not supported."""
    family = _family(config)
    _refuse_unsupported(config)
    layers = _size(config, "num_hidden_layers", "layers")
    heads = _size(config, "num_attention_heads", "heads")
    d_model = _size(config, "hidden_size", "d_model")
    context = _size(config, "max_position_embeddings", "context")
    vocab = _size(config, "vocab_size", "vocab")
    return ModelShape(
        name=name,
        layers=layers,
        d_model=d_model,
        heads=heads,
        kv_heads=_kv_heads(config, family, heads),
        head_dim=_head_dim(config, family, d_model, heads),
        ffn=_size(config, "intermediate_size", "ffn"),
        vocab=vocab,
        context=context,
        norm_eps=_number(config, "rms_norm_eps", 1e-6),
        rope_theta=_rope_theta(config),
        rope_pairing="half",
        tied=_flag(config, "tie_word_embeddings"),
        qk_norm=family == "qwen3",
        attention_bias=family == "qwen2",
        windows=_windows(config, family, layers, context),
        bos=None,
        eos=end_tokens(config, vocab),
    )


def _family(config: Config) -> str:
    family = config.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        reason = f" ({_REASONS[str(family)]})" if str(family) in _REASONS else ""
        raise InputError(
            f"model_type {brief(family)}{reason} is not supported; "
            f"give a model of type {', '.join(FAMILIES)}"
        )
    return family


def _refuse(what: str, instead: str) -> None:
    raise InputError(f"{what} is not supported; give a model {instead}")


def _refuse_unsupported(config: Config) -> None:
    for key in _MIXTURE:
        if config.get(key):
            _refuse(f"a mixture of experts ({key} {brief(config[key])})", "without experts")
    for key in _LATENT:
        if config.get(key):
            _refuse(f"latent attention ({key} {brief(config[key])})", "with grouped queries")
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        _refuse(f"hidden_act {brief(activation)}", "whose hidden_act is silu")
    for key in ("mlp_bias", "attention_bias"):
        if _flag(config, key):
            _refuse(f"{key} true", "without it (Qwen2's q, k and v biases are fine)")
    rotary = _number(config, "partial_rotary_factor", 1.0)
    if rotary != 1.0:
        _refuse(f"partial_rotary_factor {rotary}", "that rotates whole heads")
    quantised = config.get("quantization_config")
    if quantised:
        method = quantised.get("quant_method") if isinstance(quantised, dict) else quantised
        _refuse(f"quantization_config {brief(method)}", "in F32, F16 or BF16, or a GGUF file")


def _rope_theta(config: Config) -> float:
    """theta of plain RoPE, from either generation of config.json."""
    nested = config.get("rope_parameters")
    for key in ("rope_parameters", "rope_scaling"):
        scaling = config.get(key)
        if scaling is None:
            continue
        if not isinstance(scaling, dict):
            raise InputError(f"{key} {brief(scaling)} is not an object; give the model's own")
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        if kind != "default":
            _refuse(f"RoPE scaling {brief(kind)}", f'whose {key} has the type "default"')
        rotary = _number(scaling, "partial_rotary_factor", 1.0)
        if rotary != 1.0:
            _refuse(f"partial_rotary_factor {rotary}", "that rotates whole heads")
    if isinstance(nested, dict) and "rope_theta" in nested:
        return _number(nested, "rope_theta", 1e4)
    return _number(config, "rope_theta", 1e4)


def _kv_heads(config: Config, family: str, heads: int) -> int:
    if config.get("num_key_value_heads") is None and family == "llama":
        return heads  # Llama 1 and 2 had no such key
    return _size(config, "num_key_value_heads", "kv_heads")


def _head_dim(config: Config, family: str, d_model: int, heads: int) -> int:
    if config.get("head_dim") is not None:
        return _size(config, "head_dim", "head_dim")
    if family == "qwen3":
        return 128  # what transformers takes for Qwen3 when the key is missing
    if d_model % heads:
        raise InputError(
            f"head count that doesn't divide: hidden_size {d_model} over {heads} heads; "
            "give head_dim or a multiple"
        )
    return d_model // heads


def _windows(config: Config, family: str, layers: int, context: int) -> tuple[int | None, ...]:
    """The sliding window of each layer; one as long as the context is none."""
    window: int | None = None
    if config.get("sliding_window") is not None and family != "llama":
        window = _size(config, "sliding_window", "context")
    if family != "mistral" and not _flag(config, "use_sliding_window"):
        window = None
    if window is None or window >= context:
        return (None,) * layers
    kinds = config.get("layer_types")
    if kinds is None:
        first = config.get("max_window_layers", 28) if family != "mistral" else 0
        if type(first) is not int:
            raise InputError(f"max_window_layers {brief(first)} is not an integer; give one")
        return tuple(window if i >= first else None for i in range(layers))
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise InputError(f"layer_types {brief(kinds)} is not a list of {layers}; give one a layer")
    for kind in kinds:
        if kind not in ("full_attention", "sliding_attention"):
            _refuse(f"layer type {brief(kind)}", "of full and sliding attention")
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)


def _size(config: Config, key: str, field: str) -> int:
    if key not in config:
        raise InputError(f"config.json lacks {key}; add it (an integer)")
    return check_size(field, config[key], shown=key)


def _number(config: Config, key: str, default: float) -> float:
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{key} {brief(value)} is not a number; give one like {default}")
    try:
        return float(value)
    except OverflowError as error:
        raise InputError(f"{key} is too large; give a number like {default}") from error


def _flag(config: Config, key: str) -> bool:
    value = config.get(key, False)
    if value is not None and not isinstance(value, bool):
        raise InputError(f"{key} {brief(value)} is not true or false; give one of them")
    return bool(value)


def end_tokens(config: Config, vocab: int) -> tuple[int, ...]:
    """The eos_token_id of a config.json or generation_config.json: one id, a list, or none."""
    key = "eos_token_id"
    value = config.get(key)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if len(ids) > 64 or not all(type(i) is int and 0 <= i < vocab for i in ids):
        raise InputError(f"{key} {brief(value)} is not a token; give ids from 0 to {vocab - 1}")
    return tuple(dict.fromkeys(ids))
