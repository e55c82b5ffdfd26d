"""Small readers of files that somebody else wrote: every surprise becomes an InputError."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tokenpath.hw.arch.errors import InputError

_JSON_LIMIT_BYTES = 16 << 20  # configurations and indices are far below 1 MB


def brief(value: object) -> str:
    """`value` as it stands in a one-line message, cut when it is long."""
    text = " ".join(repr(value).split("\n"))
    return text if len(text) <= 60 else text[:57] + "..."


def read_json(path: Path) -> dict[str, object]:
    """The object in a JSON file of at most 16 MB; InputError naming the file otherwise."""
    try:
        if path.stat().st_size > _JSON_LIMIT_BYTES:
            raise InputError(f"{path} is larger than 16 MB; give the checkpoint's own file")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8; give the checkpoint's own file") from error
    except OSError as error:
        raise cannot_read(path, error) from error
    return parse_json_object(text, str(path))


def parse_json_object(text: str | bytes, where: str) -> dict[str, object]:
    """The JSON object `text`; InputError about `where` when it is anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error) or "nested too deep"
        raise InputError(f"{where} is no valid JSON ({reason}); fetch it again") from error
    if not isinstance(value, dict):
        raise InputError(f"{where} holds a JSON {type(value).__name__}; it has to be an object")
    return value


def cannot_read(path: Path, error: OSError) -> InputError:
    """The InputError for a file that the system doesn't give."""
    return InputError(f"{path} can't be read ({error.strerror}); check path and permissions")


def read_bytes_at(path: Path, offset: int, count: int) -> npt.NDArray[np.uint8]:
    """`count` bytes of a file from `offset`; InputError when the file ends before."""
    try:
        data = np.fromfile(path, np.uint8, count, offset=offset)
    except OSError as error:
        raise cannot_read(path, error) from error
    if data.size != count:
        raise InputError(
            f"{path} is truncated: it ends at byte {offset + data.size}, "
            f"weights lie up to byte {offset + count}; fetch it again"
        )
    return data


def bfloat16_to_float32(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """bfloat16 in little-endian bytes as float32, exactly."""
    return (data.view("<u2").astype(np.uint32) << 16).view(np.float32)
