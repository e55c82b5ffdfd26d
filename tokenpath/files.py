"""Files written whole or not at all."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tokenpath.hw.arch.errors import InputError


def check_writable(path: Path) -> Path:
    """Refuse a path that cannot become a file; call it before long work, not after.

    Returns the path with its links followed, so that a link stays a link when it is written to.
    """
    target = path.resolve()
    if target.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; give a file name")
    if not target.parent.is_dir():
        raise InputError(f"cannot write {path}: no folder {path.parent}; make it first")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise InputError(f"cannot write {path}: permission denied; choose another place")
    return target


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to; it becomes ``path`` at the end of the block.

    An error or an interrupt inside the block removes what was written, and ``path`` stays what
    it was. The temporary file lies in the same folder and has the same suffix. What is not a
    regular file (``/dev/stdout``, a pipe) is written directly.
    """
    target = check_writable(path)
    if target.exists() and not target.is_file():
        yield target
        return
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(6)}{target.suffix}")
    try:
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"cannot write {path}: {reason}; choose another place") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_atomic(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path``, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)
