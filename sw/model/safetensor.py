"""A reader of safetensors files that trusts nothing in the header.

It reads the header itself: the library gives numpy no bfloat16, and the header is small.
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model.files import (
    bfloat16_to_float32,
    cannot_read,
    parse_json_object,
    read_bytes_at,
)
from tokenpath.sw.model.spec import FloatArray

DTYPE_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
"""The element types that are understood, with their size."""

_HEADER_LIMIT_BYTES = 16 << 20  # a shard of a large model has some 100 kB


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies and how it is written."""

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int  # bytes from the beginning of the file

    def read(self) -> FloatArray:
        """The tensor as float32; InputError for a dtype that isn't understood."""
        self.check_dtype()
        count = math.prod(self.shape) * DTYPE_BYTES[self.dtype]
        data = read_bytes_at(self.path, self.offset, count)
        if self.dtype == "BF16":
            return bfloat16_to_float32(data).reshape(self.shape)
        plain = data.view("<f4" if self.dtype == "F32" else "<f2")
        return plain.astype(np.float32).reshape(self.shape)

    def check_dtype(self) -> None:
        """InputError naming the tensor and a dtype that isn't understood."""
        if self.dtype not in DTYPE_BYTES:
            raise InputError(
                f"{self.path}: tensor {self.name} has dtype {self.dtype}; "
                f"convert it to one of {', '.join(DTYPE_BYTES)}"
            )


def read_header(path: Path) -> dict[str, StoredTensor]:
    """The tensors of a safetensors file by name, each checked to lie inside the file."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
            if length > min(size - 8, _HEADER_LIMIT_BYTES):
                raise InputError(
                    f"{path} is truncated or not a safetensors file: it has {size} bytes and "
                    f"its header claims {length}; fetch it again"
                )
            header = file.read(length)
    except OSError as error:
        raise cannot_read(path, error) from error
    entries = parse_json_object(header, f"the header of {path}")
    entries.pop("__metadata__", None)
    begin = 8 + length
    return {name: _stored(path, name, entry, begin, size) for name, entry in entries.items()}


def _stored(path: Path, name: str, entry: object, begin: int, size: int) -> StoredTensor:
    """One entry of the header, checked."""
    match entry:
        case {
            "dtype": str(dtype),
            "shape": [*shape],
            "data_offsets": [int(first), int(last)],
        } if len(shape) <= 8 and all(type(n) is int and 0 <= n < 1 << 48 for n in shape):
            pass
        case _:
            raise InputError(
                f"{path}: the header entry of tensor {name[:80]!r} is malformed; fetch it again"
            )
    if not 0 <= first <= last <= size - begin:
        raise InputError(
            f"{path} is truncated: tensor {name[:80]!r} ends at byte {begin + last} of "
            f"{size}; fetch it again"
        )
    tensor = StoredTensor(path, name, dtype, tuple(shape), begin + first)
    if dtype in DTYPE_BYTES and last - first != math.prod(shape) * DTYPE_BYTES[dtype]:
        raise InputError(
            f"{path}: tensor {name[:80]!r} has {last - first} bytes, its shape {shape} as {dtype} "
            f"needs {math.prod(shape) * DTYPE_BYTES[dtype]}; fetch it again"
        )
    return tensor
