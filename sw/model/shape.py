"""The shape of a language model: its sizes and the few choices inside the Llama family."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model.files import brief

RopePairing = Literal["half", "adjacent"]

SIZE_LIMITS = {
    "layers": 1024,
    "d_model": 1 << 16,
    "heads": 1024,
    "kv_heads": 1024,
    "head_dim": 1024,
    "ffn": 1 << 18,
    "vocab": 1 << 20,
    "context": 1 << 24,
}
"""The largest value a shape may have: far above any known model, far below a harmful one."""


def check_size(field: str, value: object, *, shown: str | None = None) -> int:
    """`value` as an int between 1 and the limit of `field`; InputError naming it as `shown`."""
    limit = SIZE_LIMITS[field]
    if type(value) is not int or not 1 <= value <= limit:
        raise InputError(
            f"{shown or field} {brief(value)} is not a size; give an integer from 1 to {limit}"
        )
    return value


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """A decoder-only transformer of the Llama family, without its weights.

    `windows` holds for each layer the number of newest positions (the current one included)
    that attention reads, None for all; an empty tuple means None for every layer. `rope_pairing`
    says which elements of a head rotate together: "half" is (i, i + head_dim / 2), "adjacent"
    is (2i, 2i + 1). `bos` is the token put before an encoded prompt (None: no token), `eos` the
    tokens that end a text. Raises InputError for a value that can't be.
    """

    name: str
    layers: int
    d_model: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    context: int
    norm_eps: float
    rope_theta: float
    rope_pairing: RopePairing
    tied: bool
    qk_norm: bool = False
    attention_bias: bool = False
    windows: tuple[int | None, ...] = ()
    bos: int | None = None
    eos: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for field in SIZE_LIMITS:
            check_size(field, getattr(self, field))
        if self.heads % self.kv_heads:
            raise InputError(
                f"head count that doesn't divide: {self.heads} heads over {self.kv_heads} "
                "KV heads; give a multiple of the KV heads"
            )
        if self.head_dim % 2:
            raise InputError(
                f"head_dim {self.head_dim} is odd and RoPE rotates pairs; use an even one"
            )
        self._check_numbers()
        self._check_windows()
        for token in (*self.eos, *(() if self.bos is None else (self.bos,))):
            if type(token) is not int or not 0 <= token < self.vocab:
                raise InputError(
                    f"bos or eos token {brief(token)} is outside the vocabulary; "
                    f"give ids from 0 to {self.vocab - 1}"
                )

    def _check_numbers(self) -> None:
        if not (math.isfinite(self.norm_eps) and 0 <= self.norm_eps <= 1):
            raise InputError(f"norm_eps {self.norm_eps} is outside 0..1; use one like 1e-5")
        if not (math.isfinite(self.rope_theta) and 1 <= self.rope_theta <= 1e12):
            raise InputError(f"rope_theta {self.rope_theta} is outside 1..1e12; use one like 1e4")
        if self.rope_pairing not in ("half", "adjacent"):
            raise InputError(f"rope_pairing {self.rope_pairing!r} is unknown; use half or adjacent")

    def _check_windows(self) -> None:
        if not self.windows:
            object.__setattr__(self, "windows", (None,) * self.layers)
        if len(self.windows) != self.layers:
            raise InputError(
                f"{len(self.windows)} attention windows for {self.layers} layers; give one a layer"
            )
        for window in self.windows:
            if window is not None and (type(window) is not int or window < 1):
                raise InputError(f"attention window {brief(window)} isn't positive; give 1 or more")

    @property
    def queries_per_kv(self) -> int:
        """Query heads that share one KV head."""
        return self.heads // self.kv_heads

    @cached_property
    def parameters(self) -> int:
        """How many weights the model has; a tied head counts once."""
        shapes = tensor_shapes(self)
        return sum(math.prod(s) for n, s in shapes.items() if not (self.tied and n == "head"))

    def to_dict(self) -> dict[str, object]:
        """The fields as plain JSON values."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]


def layer_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Tensors of one layer by short name, matrices as (out, in)."""
    q_rows, kv_rows = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    tensors: dict[str, tuple[int, ...]] = {
        "attn_norm": (shape.d_model,),
        "q": (q_rows, shape.d_model),
        "k": (kv_rows, shape.d_model),
        "v": (kv_rows, shape.d_model),
        "o": (shape.d_model, q_rows),
        "ffn_norm": (shape.d_model,),
        "gate": (shape.ffn, shape.d_model),
        "up": (shape.ffn, shape.d_model),
        "down": (shape.d_model, shape.ffn),
    }
    if shape.attention_bias:
        tensors |= {"q_bias": (q_rows,), "k_bias": (kv_rows,), "v_bias": (kv_rows,)}
    if shape.qk_norm:
        tensors |= {"q_norm": (shape.head_dim,), "k_norm": (shape.head_dim,)}
    return tensors


def tensor_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Every tensor of the model by canonical name, matrices as (out, in)."""
    tensors: dict[str, tuple[int, ...]] = {"embed": (shape.vocab, shape.d_model)}
    for layer in range(shape.layers):
        tensors |= {f"layers.{layer}.{name}": s for name, s in layer_shapes(shape).items()}
    return tensors | {"final_norm": (shape.d_model,), "head": (shape.vocab, shape.d_model)}
