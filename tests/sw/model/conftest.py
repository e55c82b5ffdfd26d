"""Small checkpoints that the tests write themselves, and a second opinion on the arithmetic."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import safetensors.numpy

from tokenpath.hw.arch.errors import InputError

Arrays = dict[str, np.ndarray]

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 24,
    "vocab_size": 40,
    "max_position_embeddings": 32,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "eos_token_id": 2,
}


class Maker:
    """Writes checkpoints in `folder` from one configuration and one seed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def config(self, **changes: Any) -> dict[str, Any]:
        return {**CONFIG, **changes}

    def arrays(self, config: dict[str, Any], seed: int = 1) -> Arrays:
        """Random tensors under their Hugging Face names."""
        rng = np.random.default_rng(seed)
        d, ffn, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
        size = config.get("head_dim") or d // config["num_attention_heads"]
        q, kv = size * config["num_attention_heads"], size * config["num_key_value_heads"]
        shapes = {"model.embed_tokens.weight": (vocab, d), "model.norm.weight": (d,)}
        if not config["tie_word_embeddings"]:
            shapes["lm_head.weight"] = (vocab, d)
        for i in range(config["num_hidden_layers"]):
            attention, mlp = f"model.layers.{i}.self_attn", f"model.layers.{i}.mlp"
            shapes |= {f"{attention}.q_proj.weight": (q, d), f"{attention}.o_proj.weight": (d, q)}
            shapes |= {f"{attention}.{x}_proj.weight": (kv, d) for x in "kv"}
            shapes |= {f"{mlp}.{x}_proj.weight": (ffn, d) for x in ("gate", "up")}
            shapes |= {f"{mlp}.down_proj.weight": (d, ffn)}
            for norm in ("input_layernorm", "post_attention_layernorm"):
                shapes[f"model.layers.{i}.{norm}.weight"] = (d,)
            if config["model_type"] == "qwen3":
                shapes |= {f"{attention}.{x}_norm.weight": (size,) for x in "qk"}
            if config["model_type"] == "qwen2":
                rows = {"q": q, "k": kv, "v": kv}
                shapes |= {f"{attention}.{x}_proj.bias": (n,) for x, n in rows.items()}
        return {n: rng.normal(0, 0.5, s).astype(np.float32) for n, s in shapes.items()}

    def hf(
        self, config: dict[str, Any], arrays: Arrays, *, dtype: str = "F32", shards: int = 1
    ) -> Path:
        """A Hugging Face directory."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "config.json").write_text(json.dumps(config))
        names = sorted(arrays)
        places = {n: f"model-{i % shards}.safetensors" for i, n in enumerate(names)}
        for shard in range(shards):
            file = "model.safetensors" if shards == 1 else f"model-{shard}.safetensors"
            save_safetensors(
                self.folder / file, {n: arrays[n] for n in names[shard::shards]}, dtype
            )
        if shards > 1:
            index = json.dumps({"metadata": {}, "weight_map": places})
            (self.folder / "model.safetensors.index.json").write_text(index)
        return self.folder

    def gguf(
        self,
        config: dict[str, Any],
        arrays: Arrays,
        *,
        arch: str = "llama",
        kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
        extra: Callable[[gguf.GGUFWriter], None] | None = None,
    ) -> Path:
        """A GGUF file; norms stay F32 as in real files. q and k rows are left as they are."""
        path = self.folder.with_suffix(".gguf")
        writer = gguf.GGUFWriter(path, arch)
        writer.add_context_length(config["max_position_embeddings"])
        writer.add_embedding_length(config["hidden_size"])
        writer.add_block_count(config["num_hidden_layers"])
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_head_count(config["num_attention_heads"])
        writer.add_head_count_kv(config["num_key_value_heads"])
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        writer.add_rope_freq_base(config["rope_theta"])
        if extra is not None:
            extra(writer)
        for name, array in arrays.items():
            used = kind if array.ndim == 2 else gguf.GGMLQuantizationType.F32
            data = gguf.quantize(array, used)
            writer.add_tensor(gguf_name(name), data, raw_dtype=used)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def save_safetensors(path: Path, arrays: Arrays, dtype: str) -> None:
    """Arrays as the library writes them; it takes no bfloat16 from numpy, so U16 is renamed."""
    kinds = {"F32": np.float32, "F16": np.float16, "F64": np.float64}
    if dtype != "BF16":
        safetensors.numpy.save_file({n: a.astype(kinds[dtype]) for n, a in arrays.items()}, path)
        return
    upper = {n: (a.view(np.uint32) >> 16).astype(np.uint16) for n, a in arrays.items()}
    data = safetensors.numpy.save(upper)
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].replace(b'"U16"', b'"BF16"')
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])


def gguf_name(name: str) -> str:
    parts = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
        "model.layers": "blk",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    for theirs, ours in parts.items():
        name = name.replace(theirs, ours)
    return name


@pytest.fixture
def gguf_names() -> Callable[[str], str]:
    return gguf_name


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path / "tiny")


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, window: int) -> np.ndarray:
    """Causal attention of (positions, heads, size) over (positions, kv_heads, size)."""
    positions, heads, size = q.shape
    mixed = np.zeros(q.shape)
    for t in range(positions):
        for head in range(heads):
            seen, kv = slice(max(0, t + 1 - window), t + 1), head * k.shape[1] // heads
            p = np.exp(k[seen, kv] @ q[t, head] / np.sqrt(size))
            mixed[t, head] = p @ v[seen, kv] / p.sum()
    return mixed.reshape(positions, -1)


def plain_logits(
    config: dict[str, Any], arrays: Arrays, ids: list[int], *, adjacent: bool = False
) -> np.ndarray:
    """Logits (len(ids), vocab) in float64, written from the definitions and for nothing else."""
    w = {name: array.astype(np.float64) for name, array in arrays.items()}
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size = config.get("head_dim") or config["hidden_size"] // heads
    eps, window = config["rms_norm_eps"], config.get("sliding_window") or len(ids)

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * w[name]

    def rope(x: np.ndarray, position: int) -> np.ndarray:
        turn = np.exp(1j * position * config["rope_theta"] ** (-np.arange(0, size, 2) / size))
        pairs = x.reshape(-1, 2).T if adjacent else x.reshape(2, -1)
        turned = (pairs[0] + 1j * pairs[1]) * turn
        both = np.stack([turned.real, turned.imag])
        return both.T.reshape(-1) if adjacent else both.reshape(-1)

    def project(x: np.ndarray, prefix: str, letter: str, count: int) -> np.ndarray:
        """(positions, heads, size) with bias, q/k norm and rotation where there are some."""
        y = x @ w[f"{prefix}.{letter}_proj.weight"].T
        y = (y + w.get(f"{prefix}.{letter}_proj.bias", 0)).reshape(len(ids), count, size)
        if f"{prefix}.{letter}_norm.weight" in w:
            y = norm(y, f"{prefix}.{letter}_norm.weight")
        if letter == "v":
            return y
        return np.array([[rope(y[t, h], t) for h in range(count)] for t in range(len(ids))])

    x = w["model.embed_tokens.weight"][ids]
    for i in range(config["num_hidden_layers"]):
        attention, mlp = f"model.layers.{i}.self_attn", f"model.layers.{i}.mlp"
        h = norm(x, f"model.layers.{i}.input_layernorm.weight")
        q = project(h, attention, "q", heads)
        k, v = (project(h, attention, letter, kv_heads) for letter in "kv")
        x = x + attended(q, k, v, window) @ w[f"{attention}.o_proj.weight"].T
        h = norm(x, f"model.layers.{i}.post_attention_layernorm.weight")
        gate, up = h @ w[f"{mlp}.gate_proj.weight"].T, h @ w[f"{mlp}.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"{mlp}.down_proj.weight"].T
    head = w.get("lm_head.weight", w["model.embed_tokens.weight"])
    return norm(x, "model.norm.weight") @ head.T


@pytest.fixture
def logits() -> Callable[..., np.ndarray]:
    return plain_logits


@pytest.fixture
def refused() -> Callable[..., str]:
    """Calls something that must raise InputError; answers the message, which is one line."""

    def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
        with pytest.raises(InputError) as caught:
            function(*args, **kwargs)
        message = str(caught.value)
        assert "\n" not in message and len(message) < 600
        return message

    return call


@pytest.fixture
def peak_bytes() -> Callable[..., int]:
    """The most memory that a call held, whether it raised InputError or not."""

    def call(function: Callable[..., Any], *args: Any) -> int:
        tracemalloc.start()
        try:
            with contextlib.suppress(InputError):
                function(*args)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return call
