"""A reader of GGUF files that trusts nothing in the header.

It reads the header itself: the library `gguf` takes seconds for a vocabulary and believes the
counts it meets. Every count is bounded before it is used, every extent by the file's size.
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model.files import bfloat16_to_float32, brief, cannot_read, read_bytes_at
from tokenpath.sw.model.spec import FloatArray

Scalar = int | float | bool | str
Value = Scalar | list[Scalar] | npt.NDArray[np.generic]

KINDS = {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 8: "Q8_0", 30: "BF16"}
"""The tensor types that are understood, by their number in a file."""

_BLOCK = {"F32": (1, 4), "F16": (1, 2), "BF16": (1, 2)}  # elements, bytes
_BLOCK |= {"Q4_0": (32, 18), "Q4_1": (32, 20), "Q8_0": (32, 34)}
_OTHER_KINDS = {6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K"}
_OTHER_KINDS |= {13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS"}
_OTHER_KINDS |= {18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S"}
_OTHER_KINDS |= {23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64"}
_OTHER_KINDS |= {29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4"}

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"}
_SCALARS |= {10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_HEADER_LIMIT_BYTES = 64 << 20  # a vocabulary of 262144 takes 15 MB
_ENTRY_LIMIT = 1 << 16  # metadata entries, and tensors


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies and how it is written; `shape` is in numpy's order, rows first."""

    path: Path
    name: str
    kind: str  # one of KINDS, or the name or number of one that isn't understood
    shape: tuple[int, ...]
    offset: int  # bytes from the beginning of the file

    @property
    def stored_bytes(self) -> int:
        """Size in the file; InputError for a type that isn't understood or a broken row."""
        if self.kind not in _BLOCK:
            raise InputError(
                f"{self.path}: tensor {self.name} has type {self.kind}; "
                f"convert it to one of {', '.join(KINDS.values())}"
            )
        elements, size = _BLOCK[self.kind]
        if self.shape[-1] % elements:
            raise InputError(
                f"{self.path}: rows of tensor {self.name} have {self.shape[-1]} elements, type "
                f"{self.kind} wants a multiple of {elements}; fetch it again"
            )
        return math.prod(self.shape) // elements * size

    def read(self) -> FloatArray:
        """The tensor as float32."""
        data = read_bytes_at(self.path, self.offset, self.stored_bytes)
        return dequantise(data, self.kind).reshape(self.shape)


def dequantise(data: npt.NDArray[np.uint8], kind: str) -> FloatArray:
    """Stored bytes of one of :data:`KINDS` as a flat float32 array, exactly as ggml does."""
    if kind == "BF16":
        return bfloat16_to_float32(data)
    if kind in ("F32", "F16"):
        return data.view("<f4" if kind == "F32" else "<f2").astype(np.float32)
    elements, size = _BLOCK[kind]
    blocks = data.reshape(-1, size)
    scales = blocks[:, : size - (32 if kind == "Q8_0" else 16)].copy().view("<f2")
    scales = scales.astype(np.float32)  # (blocks, 1 or 2): the factor, and Q4_1's offset
    codes = blocks[:, 2 * scales.shape[1] :]
    out = np.empty((len(blocks), elements), np.float32)
    if kind == "Q8_0":
        out[:] = codes.view(np.int8)
    else:
        out[:, :16] = codes & 15
        out[:, 16:] = codes >> 4
    if kind == "Q4_0":
        out -= 8
    out *= scales[:, :1]
    if kind == "Q4_1":
        out += scales[:, 1:]
    return out.reshape(-1)


@dataclass
class GgufFile:
    """The header of a GGUF file: its metadata and where its tensors lie."""

    path: Path
    metadata: dict[str, Value] = field(default_factory=dict)
    tensors: dict[str, StoredTensor] = field(default_factory=dict)


def read_header(path: Path) -> GgufFile:
    """The header of a GGUF file; InputError for whatever is not one in good order."""
    try:
        with path.open("rb", buffering=1 << 20) as file:
            return _Header(path, file).parse()
    except OSError as error:
        raise cannot_read(path, error) from error


class _Header:
    """A bounded walk through the header."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._left = min(self._size, _HEADER_LIMIT_BYTES)

    def parse(self) -> GgufFile:
        if self._size < 24 or self._bytes(4) != b"GGUF":
            raise InputError(f"{self._path} is not a GGUF file; give one that starts with GGUF")
        version = self._number("<I")
        if version not in (2, 3):
            raise InputError(
                f"{self._path} has GGUF version {version}; convert it to version 3, little-endian"
            )
        tensors = self._count("<Q", _ENTRY_LIMIT, "tensors")
        entries = self._count("<Q", _ENTRY_LIMIT, "metadata entries")
        result = GgufFile(self._path)
        for _ in range(entries):
            key = self._text("a metadata key")
            if key in result.metadata:
                raise self._broken(f"metadata key {brief(key)} stands twice")
            result.metadata[key] = self._value(int(self._number("<I")), key)
        infos = [self._tensor_info() for _ in range(tensors)]
        begin = self._data_begin(result.metadata)
        for name, kind, shape, offset in infos:
            if name in result.tensors:
                raise self._broken(f"tensor {brief(name)} stands twice")
            result.tensors[name] = self._placed(name, kind, shape, begin + offset)
        return result

    def _broken(self, what: str) -> InputError:
        return InputError(f"{self._path}: {what}; fetch it again")

    def _bytes(self, count: int) -> bytes:
        if count > self._left:
            raise self._broken(
                f"the header is truncated or damaged: {count} more bytes at byte "
                f"{self._file.tell()} of {self._size}"
            )
        self._left -= count
        data = self._file.read(count)
        if len(data) != count:
            raise self._broken("the file became shorter while it was read")
        return data

    def _number(self, form: str) -> int | float | bool:
        number: int | float | bool = struct.unpack(form, self._bytes(struct.calcsize(form)))[0]
        return number

    def _count(self, form: str, limit: int, what: str) -> int:
        count = int(self._number(form))
        if count > limit:
            raise self._broken(f"the header claims {count} {what}, more than {limit}")
        return count

    def _text(self, what: str) -> str:
        try:
            return self._bytes(int(self._number("<Q"))).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._broken(f"{what} is not text in UTF-8") from error

    def _scalar(self, kind: int, key: str) -> Scalar:
        if kind == _STRING:
            return self._text(f"metadata {brief(key)}")
        if kind not in _SCALARS:
            raise self._broken(f"metadata {brief(key)} has the unknown type {kind}")
        if kind == 7:
            return self._bytes(1) != b"\0"
        return self._number(_SCALARS[kind])

    def _value(self, kind: int, key: str) -> Value:
        if kind != _ARRAY:
            return self._scalar(kind, key)
        inner = int(self._number("<I"))
        if inner == _ARRAY:
            raise self._broken(f"metadata {brief(key)} is an array of arrays")
        least = 8 if inner == _STRING else struct.calcsize(_SCALARS.get(inner, "<B"))
        count = self._count("<Q", self._left // least, f"elements of {brief(key)}")
        if inner == _STRING or inner not in _SCALARS:
            return [self._scalar(inner, key) for _ in range(count)]
        return np.frombuffer(self._bytes(count * least), _SCALARS[inner])

    def _tensor_info(self) -> tuple[str, int, tuple[int, ...], int]:
        name = self._text("a tensor's name")
        count = self._count("<I", 4, f"dimensions of tensor {brief(name)}")
        dims = [self._count("<Q", 1 << 48, f"elements in {brief(name)}") for _ in range(count)]
        kind, offset = int(self._number("<I")), int(self._number("<Q"))
        return name, kind, tuple(reversed(dims)), offset

    def _data_begin(self, metadata: dict[str, Value]) -> int:
        """The first byte after the header that tensors may use."""
        step = metadata.get("general.alignment", 32)
        if type(step) is not int or not 1 <= step <= 1 << 20 or step & (step - 1):
            raise self._broken(f"general.alignment {brief(step)} is no power of two up to 2^20")
        return -(-self._file.tell() // step) * step

    def _placed(self, name: str, kind: int, shape: tuple[int, ...], offset: int) -> StoredTensor:
        if not shape or 0 in shape:
            raise self._broken(f"tensor {brief(name)} is empty")
        known = KINDS.get(kind) or _OTHER_KINDS.get(kind, f"number {kind}")
        tensor = StoredTensor(self._path, name, known, shape, offset)
        end = offset + (tensor.stored_bytes if known in _BLOCK else 0)
        if end > self._size:
            raise self._broken(
                f"the file is truncated: tensor {brief(name)} ends at byte {end} of {self._size}"
            )
        return tensor
