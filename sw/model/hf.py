"""Hugging Face directories: config.json, safetensors (one file or sharded), tokenizer.json."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model.files import read_json
from tokenpath.sw.model.hf_config import end_tokens, shape_from_config
from tokenpath.sw.model.safetensor import StoredTensor, read_header
from tokenpath.sw.model.spec import FloatArray, ModelShape, ModelSpec, Tokenizer, tensor_shapes
from tokenpath.sw.model.text import FastTokenizer, load_tokenizer_json

_TOP = {"embed": "model.embed_tokens.weight", "final_norm": "model.norm.weight"}
_HEAD = "lm_head.weight"
_IN_LAYER = {
    "attn_norm": "input_layernorm.weight",
    "ffn_norm": "post_attention_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}


def stored_name(name: str) -> str:
    """The name in a checkpoint of the canonical tensor `name`."""
    if name == "head":
        return _HEAD
    if name in _TOP:
        return _TOP[name]
    _, layer, part = name.split(".")
    if part in _IN_LAYER:
        return f"model.layers.{layer}.{_IN_LAYER[part]}"
    letter, _, suffix = part.partition("_")
    inner = {"": f"{letter}_proj.weight", "bias": f"{letter}_proj.bias", "norm": f"{part}.weight"}
    return f"model.layers.{layer}.self_attn.{inner[suffix]}"


def load(directory: Path, *, name: str | None = None) -> ModelSpec:
    """The model in a Hugging Face directory; InputError names what is missing or wrong."""
    config = read_json(directory / "config.json")
    shape = shape_from_config(config, name=name or directory.resolve().name)
    generation = directory / "generation_config.json"
    if generation.exists():
        more = end_tokens(read_json(generation), shape.vocab)
        shape = replace(shape, eos=tuple(dict.fromkeys([*shape.eos, *more])))
    tokenizer: Tokenizer | None = None
    if (directory / "tokenizer.json").exists():
        fast = load_tokenizer_json(directory / "tokenizer.json")
        shape = replace(shape, bos=_bos(directory, config, fast))
        tokenizer = fast
    return with_weights(directory, shape, tokenizer)


def load_shape(config: Path) -> ModelSpec:
    """The shape alone of a config.json."""
    name = config.resolve().parent.name if config.name == "config.json" else config.stem
    return ModelSpec(shape_from_config(read_json(config), name=name))


def with_weights(directory: Path, shape: ModelShape, tokenizer: Tokenizer | None) -> ModelSpec:
    """The model `shape` with the weights of a directory, every tensor checked by its header."""
    tensors, files = _stored_tensors(directory)
    _check(directory, shape, tensors)

    def read(canonical: str) -> FloatArray:
        return tensors[stored_name(canonical)].read()

    return ModelSpec(shape, tokenizer=tokenizer, read=read, sources=files)


def _bos(directory: Path, config: dict[str, object], tokenizer: FastTokenizer) -> int | None:
    """The token before a prompt: tokenizer_config.json decides, else the tokenizer's template."""
    settings = directory / "tokenizer_config.json"
    wanted = read_json(settings).get("add_bos_token") if settings.exists() else None
    if wanted is False:
        return None
    bos = config.get("bos_token_id")
    if wanted is True and type(bos) is int:
        return bos
    return tokenizer.first_special()


def _stored_tensors(directory: Path) -> tuple[dict[str, StoredTensor], list[Path]]:
    """All tensors of a directory by name, and the files that hold them."""
    single, index = directory / "model.safetensors", directory / "model.safetensors.index.json"
    if single.exists():
        return read_header(single), [single]
    if not index.exists():
        raise InputError(
            f"{directory} has neither model.safetensors nor model.safetensors.index.json; "
            "fetch the weights, or give config.json for the shape alone"
        )
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(f, str) for f in places.values()):
        raise InputError(f"{index} has no weight_map of tensor to file; fetch it again")
    tensors: dict[str, StoredTensor] = {}
    files = sorted(set(places.values()))
    for file in files:
        if Path(file).name != file or not file.endswith(".safetensors"):
            raise InputError(f"{index} names the file {file[:80]!r}; use files beside it")
        held = read_header(directory / file)
        wanted = [name for name, where in places.items() if where == file]
        tensors |= {name: held[name] for name in wanted if name in held}
    return tensors, [directory / file for file in files]


def _check(directory: Path, shape: ModelShape, tensors: dict[str, StoredTensor]) -> None:
    """InputError for a tensor that is missing, has another shape or dtype, or is left over."""
    left = dict(tensors)
    for canonical, expected in tensor_shapes(shape).items():
        if canonical == "head" and shape.tied:
            left.pop(_HEAD, None)  # some files repeat the embedding; it is not read
            continue
        name = stored_name(canonical)
        tensor = left.pop(name, None)
        if tensor is None:
            raise InputError(f"{directory} lacks tensor {name}; fetch the whole checkpoint")
        if tensor.shape != expected:
            raise InputError(
                f"{directory}: tensor {name} has shape {tensor.shape}, config.json says "
                f"{expected}; use the config.json of these weights"
            )
        tensor.check_dtype()
    for name in left:
        if not name.endswith("rotary_emb.inv_freq"):
            raise InputError(
                f"{directory}: tensor {name[:80]!r} has no place in a {shape.layers}-layer model "
                "of this type; use the config.json of these weights"
            )
