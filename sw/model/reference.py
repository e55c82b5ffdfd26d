"""The decoder in plain numpy and fp32: what the integer machine is compared with.

It is also the speed baseline of a benchmark, so it does what a careful numpy programmer would:
one matrix product per fused matrix, all heads at once, a KV cache that grows by doubling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model.spec import FloatArray, ModelShape, ModelSpec

Probe = Callable[[str, int, FloatArray], None]
"""Called with what (see :class:`Reference`), the layer and the values; it must not change them."""

_FIRST_CAPACITY = 256  # positions the KV cache holds before it first grows


@dataclass(frozen=True)
class _Layer:
    """Weights of one layer, fused where they read the same vector; matrices are (out, in)."""

    attn_norm: FloatArray  # (d_model,)
    qkv: FloatArray  # ((heads + 2 kv_heads) * head_dim, d_model)
    qkv_bias: FloatArray | None  # ((heads + 2 kv_heads) * head_dim,)
    qk_norm: FloatArray | None  # (heads + kv_heads, head_dim)
    o: FloatArray  # (d_model, heads * head_dim)
    ffn_norm: FloatArray  # (d_model,)
    gate_up: FloatArray  # (2 ffn, d_model)
    down: FloatArray  # (d_model, ffn)
    window: int | None


def _load_layer(spec: ModelSpec, index: int) -> _Layer:
    shape = spec.shape

    def get(name: str) -> FloatArray:
        return spec.tensor(f"layers.{index}.{name}")

    bias = norm = None
    if shape.attention_bias:
        bias = np.concatenate([get("q_bias"), get("k_bias"), get("v_bias")])
    if shape.qk_norm:
        norm = np.concatenate(
            [np.tile(get("q_norm"), (shape.heads, 1)), np.tile(get("k_norm"), (shape.kv_heads, 1))]
        )
    return _Layer(
        attn_norm=get("attn_norm"),
        qkv=np.concatenate([get("q"), get("k"), get("v")]),
        qkv_bias=bias,
        qk_norm=norm,
        o=get("o"),
        ffn_norm=get("ffn_norm"),
        gate_up=np.concatenate([get("gate"), get("up")]),
        down=get("down"),
        window=shape.windows[index],
    )


class Reference:
    """An fp32 decoder with a KV cache, one sequence, one token a step.

    The weights are held in memory in fp32. `probe`, when given, sees at each step and layer:
    "residual" (d_model,) after attention and again after the feed-forward part, "q" (kv_heads,
    queries, head_dim) and "k" (kv_heads, head_dim) after RoPE, "v" (kv_heads, head_dim), "scores"
    (kv_heads, queries, positions) scaled, before softmax, and "act" (ffn,), silu(gate) * up;
    with layer -1 it sees "residual" of the embedding.
    """

    def __init__(self, spec: ModelSpec, *, probe: Probe | None = None) -> None:
        self.shape: ModelShape = spec.shape
        self._probe = probe
        self._embed = spec.tensor("embed")  # (vocab, d_model)
        self._head = self._embed if spec.shape.tied else spec.tensor("head")  # (vocab, d_model)
        self._final_norm = spec.tensor("final_norm")  # (d_model,)
        self._layers = [_load_layer(spec, i) for i in range(spec.shape.layers)]
        half = np.arange(0, self.shape.head_dim, 2, dtype=np.float64) / self.shape.head_dim
        self._inv_freq = self.shape.rope_theta**-half  # (head_dim / 2,) radians per position
        self._keys = self._values = np.empty((0, 0, 0, 0), np.float32)
        self.reset()

    @property
    def position(self) -> int:
        """How many tokens the cache holds."""
        return self._position

    def reset(self) -> None:
        """Forget the sequence."""
        self._position = 0

    def _reserve(self) -> None:
        """Make room for one more position in the (layers, kv_heads, positions, head_dim) caches."""
        shape, held = self.shape, self._keys.shape[2]
        if self._position < held:
            return
        capacity = min(shape.context, max(_FIRST_CAPACITY, 2 * held))
        size = (shape.layers, shape.kv_heads, capacity, shape.head_dim)
        keys, values = np.empty(size, np.float32), np.empty(size, np.float32)
        if held:
            keys[:, :, :held], values[:, :, :held] = self._keys, self._values
        self._keys, self._values = keys, values

    def step(self, token: int) -> FloatArray:
        """Append `token` to the sequence; the logits (vocab,) float32 of the next one.

        Raises InputError when the token is outside the vocabulary or the context is full.
        """
        shape = self.shape
        if not 0 <= token < shape.vocab:
            raise InputError(f"token {token} isn't in the vocabulary; give 0 to {shape.vocab - 1}")
        if self._position >= shape.context:
            raise InputError(
                f"{shape.name} has a context of {shape.context} tokens and it is full; "
                "give a shorter prompt or fewer tokens"
            )
        self._reserve()
        angles = self._position * self._inv_freq
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        x = self._embed[token]
        self._see("residual", -1, x)
        with np.errstate(over="ignore"):  # exp(-gate) may reach infinity: silu is then 0
            for index, layer in enumerate(self._layers):
                x = x + self._attend(index, layer, x, cos, sin)
                self._see("residual", index, x)
                x = x + self._feed_forward(index, layer, x)
                self._see("residual", index, x)
        self._position += 1
        logits: FloatArray = np.matmul(self._head, _rms_norm(x, self._final_norm, shape.norm_eps))
        return logits

    def _attend(
        self, index: int, layer: _Layer, x: FloatArray, cos: FloatArray, sin: FloatArray
    ) -> FloatArray:
        """Attention of the newest position over the cache, its own key included: (d_model,)."""
        shape, now = self.shape, self._position
        qkv = np.matmul(layer.qkv, _rms_norm(x, layer.attn_norm, shape.norm_eps))
        if layer.qkv_bias is not None:
            qkv += layer.qkv_bias
        rows = qkv.reshape(-1, shape.head_dim)
        qk, v = rows[: shape.heads + shape.kv_heads], rows[shape.heads + shape.kv_heads :]
        if layer.qk_norm is not None:
            qk = _rms_norm(qk, layer.qk_norm, shape.norm_eps)
        qk = _rotate(qk, cos, sin, adjacent=shape.rope_pairing == "adjacent")
        q = qk[: shape.heads].reshape(shape.kv_heads, shape.queries_per_kv, shape.head_dim)
        self._keys[index, :, now] = qk[shape.heads :]
        self._values[index, :, now] = v
        first = 0 if layer.window is None else max(0, now + 1 - layer.window)
        keys = self._keys[index, :, first : now + 1]  # (kv_heads, positions, head_dim)
        scores = np.matmul(q, keys.transpose(0, 2, 1)) * np.float32(shape.head_dim**-0.5)
        if self._probe is not None:
            for name, values in (("q", q), ("k", qk[shape.heads :]), ("v", v), ("scores", scores)):
                self._probe(name, index, values)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        mixed = np.matmul(p, self._values[index, :, first : now + 1])
        out: FloatArray = np.matmul(layer.o, mixed.reshape(-1))
        return out

    def _feed_forward(self, index: int, layer: _Layer, x: FloatArray) -> FloatArray:
        """SwiGLU: (d_model,)."""
        both = np.matmul(layer.gate_up, _rms_norm(x, layer.ffn_norm, self.shape.norm_eps))
        gate, up = both[: self.shape.ffn], both[self.shape.ffn :]
        act = gate / (1 + np.exp(-gate)) * up
        self._see("act", index, act)
        out: FloatArray = np.matmul(layer.down, act)
        return out

    def _see(self, what: str, layer: int, values: FloatArray) -> None:
        if self._probe is not None:
            self._probe(what, layer, values)

    def greedy(self, prompt_ids: Sequence[int], n: int) -> list[int]:
        """Up to `n` most likely tokens after the prompt; an end token is the last one.

        Starts a new sequence. Raises InputError for an empty prompt and for one that leaves no
        room for `n` tokens in the context.
        """
        if not prompt_ids:
            raise InputError("the prompt has no tokens; give at least one")
        if n < 0 or len(prompt_ids) + n - 1 > self.shape.context:
            raise InputError(
                f"{len(prompt_ids)} prompt tokens and {n} new ones don't fit in the context of "
                f"{self.shape.context}; give a shorter prompt or fewer tokens"
            )
        self.reset()
        for token in prompt_ids[:-1]:
            self.step(token)
        generated: list[int] = []
        token = prompt_ids[-1]
        while len(generated) < n and (not generated or token not in self.shape.eos):
            token = int(np.argmax(self.step(token)))
            generated.append(token)
        return generated


def _rms_norm(x: FloatArray, weight: FloatArray, eps: float) -> FloatArray:
    """RMSNorm over the last axis."""
    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    out: FloatArray = x / np.sqrt(mean_square + np.float32(eps)) * weight
    return out


def _rotate(x: FloatArray, cos: FloatArray, sin: FloatArray, *, adjacent: bool) -> FloatArray:
    """RoPE on (heads, head_dim) by the angles whose cos and sin are (head_dim / 2,)."""
    out = np.empty_like(x)
    half = x.shape[-1] // 2
    if adjacent:
        one, two, out_one, out_two = x[:, 0::2], x[:, 1::2], out[:, 0::2], out[:, 1::2]
    else:
        one, two, out_one, out_two = x[:, :half], x[:, half:], out[:, :half], out[:, half:]
    out_one[:] = one * cos - two * sin
    out_two[:] = two * cos + one * sin
    return out
