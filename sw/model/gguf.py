"""GGUF files of the Llama family, with the tokenizer they carry."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model.files import brief
from tokenpath.sw.model.gguf_file import GgufFile, StoredTensor, Value, read_header
from tokenpath.sw.model.shape import ModelShape, RopePairing, check_size, tensor_shapes
from tokenpath.sw.model.spec import FloatArray, ModelSpec
from tokenpath.sw.model.text import PRE_TOKENIZERS, FastTokenizer, byte_level_bpe, guarded

PAIRINGS: dict[str, RopePairing] = {"llama": "adjacent", "qwen2": "half", "qwen3": "half"}
"""The architectures that are understood; Llama's q and k rows are stored in adjacent pairs."""

_END_TOKENS = ("<|endoftext|>", "<|im_end|>", "<|end_of_text|>", "<|eot_id|>", "</s>")
_CONTROL, _USER_DEFINED = 3, 4  # values of tokenizer.ggml.token_type
_TOP = {"embed": "token_embd.weight", "head": "output.weight", "final_norm": "output_norm.weight"}
_IN_LAYER = {"attn_norm": "attn_norm", "ffn_norm": "ffn_norm", "o": "attn_output"}
_IN_LAYER |= {"gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}


def stored_name(name: str) -> str:
    """The name in a GGUF file of the canonical tensor `name`."""
    if name in _TOP:
        return _TOP[name]
    _, layer, part = name.split(".")
    if part in _IN_LAYER:
        return f"blk.{layer}.{_IN_LAYER[part]}.weight"
    letter, _, suffix = part.partition("_")
    inner = {"": f"attn_{letter}.weight", "bias": f"attn_{letter}.bias"}
    return f"blk.{layer}.{inner.get(suffix, f'attn_{part}.weight')}"


def load(path: Path, *, name: str | None = None) -> ModelSpec:
    """The model in a GGUF file; InputError names what is missing, wrong or not supported."""
    file = read_header(path)
    fields = _Fields(file)
    tokens = fields.texts("tokenizer.ggml.tokens")
    shape = _shape(file, fields, tokens, name or path.stem)
    if len(tokens) > shape.vocab:
        raise InputError(
            f"{path} has {len(tokens)} tokens and {shape.vocab} embeddings; fetch it again"
        )
    _check(file, shape)
    tokenizer = _tokenizer(file, fields, tokens)

    def read(canonical: str) -> FloatArray:
        return file.tensors[stored_name(canonical)].read()

    return ModelSpec(shape, tokenizer=tokenizer, read=read, sources=[path])


class _Fields:
    """Typed access to the metadata of a file."""

    def __init__(self, file: GgufFile) -> None:
        self._path = file.path
        self._metadata = file.metadata
        self.arch = self.text("general.architecture", "")
        if self.arch not in PAIRINGS:
            raise InputError(
                f"{file.path}: architecture {brief(self.arch)} is not supported; "
                f"give one of {', '.join(PAIRINGS)}"
            )

    def get(self, key: str) -> Value | None:
        return self._metadata.get(key)

    def _wrong(self, key: str, wanted: str) -> InputError:
        return InputError(f"{self._path}: {key} is {brief(self.get(key))}; it has to be {wanted}")

    def text(self, key: str, default: str) -> str:
        value = self._metadata.get(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "text")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._metadata.get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def number(self, key: str) -> float:
        value = self.get(f"{self.arch}.{key}")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(f"{self.arch}.{key}", "a number")
        return float(value)

    def size(self, key: str, field: str, default: int | None = None) -> int:
        key = f"{self.arch}.{key}"
        return check_size(field, self._metadata.get(key, default), shown=key)

    def texts(self, key: str) -> list[str]:
        value = self._metadata.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(key, "a list of texts")
        return [str(item) for item in value]

    def token(self, key: str) -> int | None:
        value = self.get(key)
        if value is not None and type(value) is not int:
            raise self._wrong(key, "a token id")
        return value


def _shape(file: GgufFile, fields: _Fields, tokens: list[str], name: str) -> ModelShape:
    heads = fields.size("attention.head_count", "heads")
    d_model = fields.size("embedding_length", "d_model")
    if d_model % heads and fields.get(f"{fields.arch}.attention.key_length") is None:
        raise InputError(
            f"{file.path}: head count that doesn't divide: {d_model} elements over {heads} heads; "
            f"give {fields.arch}.attention.key_length"
        )
    head_dim = fields.size("attention.key_length", "head_dim", d_model // heads)
    layers = fields.size("block_count", "layers")
    context = fields.size("context_length", "context")
    _refuse_unsupported(file, fields, head_dim)
    embed = file.tensors.get(_TOP["embed"])
    if embed is None or len(embed.shape) != 2:
        raise InputError(f"{file.path} lacks the matrix {_TOP['embed']}; fetch it again")
    window: int | None = None
    if fields.get(f"{fields.arch}.attention.sliding_window"):
        window = fields.size("attention.sliding_window", "context")
    return ModelShape(
        name=name,
        layers=layers,
        d_model=d_model,
        heads=heads,
        kv_heads=fields.size("attention.head_count_kv", "kv_heads", heads),
        head_dim=head_dim,
        ffn=fields.size("feed_forward_length", "ffn"),
        vocab=check_size("vocab", embed.shape[0], shown=f"rows of {_TOP['embed']}"),
        context=context,
        norm_eps=fields.number("attention.layer_norm_rms_epsilon"),
        rope_theta=_theta(fields),
        rope_pairing=PAIRINGS[fields.arch],
        tied=_TOP["head"] not in file.tensors,
        qk_norm=fields.arch == "qwen3",
        attention_bias=fields.arch == "qwen2",
        windows=(None if window is None or window >= context else window,) * layers,
        bos=_bos(fields),
        eos=_eos(fields, tokens),
    )


def _theta(fields: _Fields) -> float:
    """theta of RoPE; files of Llama 1 and 2 leave it out."""
    if fields.get(f"{fields.arch}.rope.freq_base") is None:
        return 10000.0
    return fields.number("rope.freq_base")


def _refuse_unsupported(file: GgufFile, fields: _Fields, head_dim: int) -> None:
    arch, path = fields.arch, file.path
    if fields.get(f"{arch}.expert_count"):
        raise InputError(f"{path}: a mixture of experts is not supported; give a model without")
    for key in ("attention.value_length", "rope.dimension_count"):
        other = fields.get(f"{arch}.{key}")
        if other is not None and other != head_dim:
            raise InputError(
                f"{path}: {arch}.{key} {brief(other)} is not the head size {head_dim}, which is "
                "not supported; give a model whose heads are all alike and rotate whole"
            )
    scaling = fields.get(f"{arch}.rope.scaling.type")
    if scaling not in (None, "none"):
        raise InputError(
            f"{path}: RoPE scaling {brief(scaling)} is not supported; give a file without"
        )
    if "rope_freqs.weight" in file.tensors:
        raise InputError(
            f"{path}: RoPE scaling (rope_freqs.weight) is not supported; give a file without"
        )


def _bos(fields: _Fields) -> int | None:
    """The token before a prompt; Llama 3 has one unless the file says no."""
    default = fields.text("tokenizer.ggml.pre", "") == "llama-bpe"
    if not fields.flag("tokenizer.ggml.add_bos_token", default):
        return None
    return fields.token("tokenizer.ggml.bos_token_id")


def _eos(fields: _Fields, tokens: list[str]) -> tuple[int, ...]:
    """The declared end tokens, then those that end a text by their name."""
    declared = [fields.token(f"tokenizer.ggml.{kind}_token_id") for kind in ("eos", "eot")]
    named = [index for index, token in enumerate(tokens) if token in _END_TOKENS]
    return tuple(dict.fromkeys([token for token in declared if token is not None] + named))


def _check(file: GgufFile, shape: ModelShape) -> None:
    """InputError for a tensor that is missing, has another shape or type, or is left over."""
    left: dict[str, StoredTensor] = dict(file.tensors)
    for canonical, expected in tensor_shapes(shape).items():
        if canonical == "head" and shape.tied:
            continue
        name = stored_name(canonical)
        tensor = left.pop(name, None)
        if tensor is None:
            raise InputError(f"{file.path} lacks tensor {name}; fetch the whole file")
        if tensor.shape != expected:
            raise InputError(
                f"{file.path}: tensor {name} has shape {tensor.shape}, the header says {expected}; "
                "fetch it again"
            )
        _ = tensor.stored_bytes  # refuses a type that isn't understood
    for name in left:
        raise InputError(
            f"{file.path}: tensor {brief(name)} has no place in a {shape.layers}-layer "
            "model of this architecture; use a plain Llama, Qwen2 or Qwen3 file"
        )


def _tokenizer(file: GgufFile, fields: _Fields, tokens: list[str]) -> FastTokenizer | None:
    """The tokenizer of a file, None for a file without one."""
    kind = fields.text("tokenizer.ggml.model", "none")
    if kind in ("none", "no_vocab"):
        return None
    pre = fields.text("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or pre not in PRE_TOKENIZERS:
        raise InputError(
            f"{file.path}: tokenizer {brief(kind)} with the split {brief(pre)} is not supported; "
            f"give byte-level BPE ('gpt2') with one of {', '.join(PRE_TOKENIZERS)}"
        )
    kinds = fields.get("tokenizer.ggml.token_type")
    types = kinds.tolist() if isinstance(kinds, np.ndarray) else [1] * len(tokens)
    merges = [tuple(merge.split(" ")) for merge in fields.texts("tokenizer.ggml.merges")]
    if len(types) != len(tokens) or any(len(merge) != 2 for merge in merges):
        raise InputError(f"{file.path}: the lists of the tokenizer are damaged; fetch it again")
    typed = list(zip(tokens, types, strict=True))
    control = [token for token, kind in typed if kind == _CONTROL]
    user_defined = [token for token, kind in typed if kind == _USER_DEFINED]
    return guarded(
        file.path,
        lambda: byte_level_bpe(
            tokens=tokens,
            merges=[(merge[0], merge[1]) for merge in merges],
            pre=pre,
            control=control,
            user_defined=user_defined,
        ),
    )
