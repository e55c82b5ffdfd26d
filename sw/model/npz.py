"""The format of the glassllm models: an .npz of [in, out] matrices and a character BPE."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model.files import brief, cannot_read, parse_json_object, read_json
from tokenpath.sw.model.shape import ModelShape, check_size, tensor_shapes
from tokenpath.sw.model.spec import FloatArray, ModelSpec
from tokenpath.sw.model.text import CharBpe

_PARTS = {
    "attn_norm": "norm1.gamma",
    "q": "attn.W_Q",
    "k": "attn.W_K",
    "v": "attn.W_V",
    "o": "attn.W_O",
    "ffn_norm": "norm2.gamma",
    "gate": "ffn.W1",
    "up": "ffn.W3",
    "down": "ffn.W2",
}
_CONFIG_LIMIT_BYTES = 1 << 16
_FETCH_AGAIN = "install glassllm==0.1.0 again"


def load(weights: Path, tokenizer: Path, *, name: str) -> ModelSpec:
    """The model in the .npz `weights` with its tokenizer's JSON file; InputError when unsound."""
    config, ffn = _config(weights)
    shape = _shape(config, ffn, name)
    text = load_char_bpe(tokenizer)
    if len(text) > shape.vocab:
        raise InputError(
            f"{tokenizer} has {len(text)} tokens, the model {shape.vocab}; use the tokenizer "
            "that belongs to the weights"
        )
    expected = tensor_shapes(shape)

    def stored_shape(canonical: str) -> tuple[int, ...]:
        return expected[canonical][:: -1 if _is_transposed(canonical) else 1]

    def read(canonical: str) -> FloatArray:
        with _member(weights, _stored_name(canonical)) as file:
            array = _read(weights, _stored_name(canonical), file, stored_shape(canonical))
        return np.ascontiguousarray(array.T) if _is_transposed(canonical) else array

    for canonical in expected:
        with _member(weights, _stored_name(canonical)) as file:
            _header(weights, _stored_name(canonical), file, stored_shape(canonical))
    return ModelSpec(shape, tokenizer=text, read=read, sources=[weights])


def load_char_bpe(path: Path) -> CharBpe:
    """The tokenizer of a {"alphabet": [...], "merges": [[left, right], ...]} file."""
    data = read_json(path)
    alphabet, merges = data.get("alphabet"), data.get("merges")
    if (
        isinstance(alphabet, list)
        and isinstance(merges, list)
        and all(isinstance(letter, str) for letter in alphabet)
        and all(isinstance(pair, list) and len(pair) == 2 for pair in merges)
        and all(isinstance(piece, str) for pair in merges for piece in pair)
    ):
        return CharBpe(alphabet, [(left, right) for left, right in merges])
    raise InputError(f"{path} has no alphabet and merges of text; {_FETCH_AGAIN}")


def _is_transposed(canonical: str) -> bool:
    return canonical.startswith("layers.") and not canonical.endswith("norm")


def _stored_name(canonical: str) -> str:
    if canonical in ("embed", "head"):
        return "E"
    if canonical == "final_norm":
        return "norm_f.gamma"
    _, layer, part = canonical.split(".")
    return f"blocks.{layer}.{_PARTS[part]}"


def _shape(config: dict[str, object], ffn: int, name: str) -> ModelShape:
    def size(key: str, field: str) -> int:
        return check_size(field, config.get(key), shown=key)

    def number(key: str) -> float:
        value = config.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputError(f"{name}: {key} {brief(value)} is not a number; {_FETCH_AGAIN}")
        return float(value)

    d_model, heads = size("d_model", "d_model"), size("n_heads", "heads")
    if d_model % heads:
        raise InputError(f"head count that doesn't divide: d_model {d_model} over {heads} heads")
    return ModelShape(
        name=name,
        layers=size("n_layers", "layers"),
        d_model=d_model,
        heads=heads,
        kv_heads=size("n_kv_heads", "kv_heads"),
        head_dim=d_model // heads,
        ffn=ffn,
        vocab=size("vocab_size", "vocab"),
        context=size("max_len", "context"),
        norm_eps=number("eps"),
        rope_theta=number("rope_base"),
        rope_pairing="adjacent",
        tied=True,
    )


def _config(weights: Path) -> tuple[dict[str, object], int]:
    """The configuration in an .npz, and the feed-forward width that only the arrays tell."""
    with _member(weights, "__config__") as file:
        shape, kind = _array_header(weights, "__config__", file)
        if shape != () or kind.kind != "U" or kind.itemsize > _CONFIG_LIMIT_BYTES:
            raise InputError(f"{weights}: __config__ is no short text; {_FETCH_AGAIN}")
        text = str(np.frombuffer(file.read(kind.itemsize), kind)[0])
    config = parse_json_object(text, f"the configuration in {weights}")
    gate = _stored_name("layers.0.gate")
    with _member(weights, gate) as file:
        shape, _ = _array_header(weights, gate, file)
    if len(shape) != 2:
        raise InputError(f"{weights}: array {gate} has shape {shape}, not (in, out)")
    return config, check_size("ffn", shape[1], shown=f"width of array {gate}")


@contextmanager
def _member(weights: Path, member: str) -> Iterator[IO[bytes]]:
    """An array's bytes in an .npz, to be read once; any damage met on the way is an InputError."""
    try:
        with zipfile.ZipFile(weights) as archive, archive.open(f"{member}.npy") as file:
            yield file
    except InputError:
        raise
    except KeyError as error:
        raise InputError(f"{weights} lacks array {member}; {_FETCH_AGAIN}") from error
    except FileNotFoundError as error:
        raise cannot_read(weights, error) from error
    except Exception as error:  # what zlib, lzma, zipfile and numpy raise has no common name
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            f"{weights} is damaged at array {member} ({reason}); {_FETCH_AGAIN}"
        ) from error


def _array_header(
    weights: Path, member: str, file: IO[bytes]
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype that an array claims; Fortran order and Python objects are refused."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, fortran, kind = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, kind = np.lib.format.read_array_header_2_0(file)
    else:
        raise InputError(f"{weights}: array {member} has .npy version {version}; save it as 1.0")
    if kind.hasobject:
        raise InputError(f"{weights}: array {member} holds pickled objects, which are never loaded")
    if fortran and len(shape) > 1:
        raise InputError(f"{weights}: array {member} is in Fortran order; save it in C order")
    return shape, kind


def _header(weights: Path, member: str, file: IO[bytes], shape: tuple[int, ...]) -> np.dtype[Any]:
    """The dtype of an array of `shape`; InputError for another shape or dtype."""
    claimed, kind = _array_header(weights, member, file)
    if claimed != shape:
        raise InputError(f"{weights}: array {member} has shape {claimed}, not {shape}")
    if kind not in (np.dtype("<f2"), np.dtype("<f4")):
        raise InputError(f"{weights}: array {member} has dtype {kind}; use float16 or float32")
    return kind


def _read(weights: Path, member: str, file: IO[bytes], shape: tuple[int, ...]) -> FloatArray:
    """An array of `shape` as float32; no more than its size is ever unpacked."""
    kind = _header(weights, member, file, shape)
    data = file.read(math.prod(shape) * kind.itemsize)
    if len(data) != math.prod(shape) * kind.itemsize:
        raise InputError(f"{weights}: array {member} is truncated; {_FETCH_AGAIN}")
    return np.frombuffer(data, kind).reshape(shape).astype(np.float32)
