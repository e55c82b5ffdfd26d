"""Programs in files: one zip without compression, a JSON header and the raw buffers.

``header.json`` has the format's version, the architecture with its fingerprint, the shape of each
buffer and everything of a Program that isn't a buffer; each buffer is a member of its own, little
endian. The same program gives the same bytes. A file is written whole or not at all. Whatever is
in a file that is read, it's refused in one line or gives a program that passes Program.check.
"""

import ctypes
import json
import math
import os
import secrets
import stat
import struct
import sys
import zipfile
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, BinaryIO

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import BUFFERS, Code, Program, StepRule
from tokenpath.hw.arch.reach import flat

KIND, VERSION = "tokenpath program", 1
HEADER = "header.json"
HEADER_BYTES = 1 << 28
"""Largest header that is read: code of a million instructions."""

_ITEMS = {"b": ctypes.c_int8, "h": ctypes.c_int16, "i": ctypes.c_int32}
_NUMBERS = (
    "store_beats_used",
    "shards",
    "page",
    "context",
    "vocab",
    "logits_at",
    "result_tile",
    "result_at",
)
_LISTS = ("tile_code", "shards_of", "logit_words", "logit_first")


# --- writing ---


def save(program: Program, path: Path) -> None:
    """Write a program to ``path``; an error or an interrupt leaves what was there before."""
    with _replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        _write(archive, HEADER, memoryview(json.dumps(_header(program)).encode()))
        for name in BUFFERS:
            view = getattr(program, name)
            if view is not None:
                _write(archive, name, _swapped(flat(view)))


def _header(program: Program) -> dict[str, Any]:
    views = {name: getattr(program, name) for name in BUFFERS}
    return {
        "kind": KIND,
        "version": VERSION,
        "fingerprint": program.arch.fingerprint,
        "arch": program.arch.as_dict(),
        "shapes": {n: None if view is None else list(view.shape) for n, view in views.items()},
        "code": [asdict(code) for code in program.code],
        "rules": [asdict(rule) for rule in program.rules],
        "meta": program.meta,
        **{name: getattr(program, name) for name in (*_NUMBERS, *_LISTS)},
    }


def _write(archive: zipfile.ZipFile, name: str, view: memoryview) -> None:
    info = zipfile.ZipInfo(name)  # its date is that of the format, not of today
    info.external_attr = 0o644 << 16
    with archive.open(info, "w", force_zip64=True) as member:
        member.write(view.cast("B") if view.nbytes else b"")


def _swapped(view: memoryview) -> memoryview:
    """A buffer in the other byte order where the machine isn't little endian."""
    if sys.byteorder == "little" or view.itemsize == 1:
        return view
    turned = array(view.format.lstrip("@=<"), view.tobytes())
    turned.byteswap()
    return memoryview(turned)


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that becomes ``path`` at the end of the block, and nothing if the block fails."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with temporary.open("xb") as file:
            yield file
        os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"can't write {path}: {reason}; choose another place") from None
    finally:
        temporary.unlink(missing_ok=True)


# --- reading ---


def load(path: Path, expect: Arch | None = None) -> Program:
    """Read a program and check it.

    Raises InputError for anything else, and for a program of another architecture than ``expect``.
    """
    try:
        with path.open("rb") as file:
            return _read(file, expect)
    except InputError as error:
        raise InputError(f"program {path}: {error}") from None
    except OSError as error:
        raise InputError(f"can't read program {path}: {error.strerror or error}") from None


def _read(file: BinaryIO, expect: Arch | None) -> Program:
    members = _members(file)
    header = _parse(_contents(file, members[HEADER]))
    arch = _arch(header)
    if expect is not None and expect.fingerprint != arch.fingerprint:
        raise InputError(
            f"it was compiled for architecture {arch.name!r} ({arch.fingerprint}), not for "
            f"{expect.name!r} ({expect.fingerprint}); compile it again for this one"
        )
    program = _program(arch, header, _buffers(file, members, header))
    program.check()
    return program


def _refuse(what: str) -> InputError:
    return InputError(f"{what}; it is damaged or no program, so compile it again")


def _members(file: BinaryIO) -> dict[str, zipfile.ZipInfo]:
    """The members by name: known ones, each once, stored as they are, all of them in the file."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise InputError("it isn't a regular file; give one that was saved")
    try:
        with zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
    except (
        zipfile.BadZipFile,
        ValueError,
        struct.error,
        NotImplementedError,
        OverflowError,
        EOFError,
    ):
        raise _refuse("it isn't a complete zip file") from None
    members = {info.filename: info for info in infos}
    if (
        len(members) != len(infos)
        or HEADER not in members
        or not members.keys() <= {HEADER, *BUFFERS}
    ):
        raise _refuse("it has other members than a program")
    for info in infos:
        if info.compress_type or info.flag_bits & 1 or info.file_size != info.compress_size:
            raise _refuse(f"member {info.filename} is compressed or encrypted")
    if sum(info.file_size for info in infos) > status.st_size:
        raise _refuse("its members are larger than the file")
    if members[HEADER].file_size > HEADER_BYTES:
        raise _refuse(f"its header has {members[HEADER].file_size} bytes of at most {HEADER_BYTES}")
    return members


def _contents(file: BinaryIO, info: zipfile.ZipInfo) -> bytearray:
    """The bytes of a member, read straight to where they stay."""
    buffer = bytearray(info.file_size)
    try:
        file.seek(info.header_offset)
        local = struct.unpack("<4s22xHH", file.read(30))
        file.seek(info.header_offset + 30 + local[1] + local[2])
        count = file.readinto(buffer)  # type: ignore[attr-defined]
    except (struct.error, ValueError):
        raise _refuse(f"member {info.filename} isn't where it should be") from None
    if count != len(buffer) or zlib.crc32(buffer) != info.CRC:
        raise _refuse(f"member {info.filename} has other bytes than were written")
    return buffer


def _parse(text: bytearray) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise _refuse("its header isn't JSON") from None
    if not isinstance(header, dict) or header.get("kind") != KIND:
        raise _refuse("its header is of something else")
    if header.get("version") != VERSION:
        version = str(header.get("version"))[:20]
        raise InputError(f"it has format version {version}, this is {VERSION}; compile it again")
    return header


def _arch(header: dict[str, Any]) -> Arch:
    arch = Arch.from_dict(_of(header, "arch", dict))
    if arch.fingerprint != header.get("fingerprint"):
        shown = str(header.get("fingerprint"))[:20]
        raise _refuse(f"its fingerprint {shown} isn't that of its architecture, {arch.fingerprint}")
    return arch


def _of(header: dict[str, Any], name: str, kind: type) -> Any:
    if type(header.get(name)) is not kind:
        raise _refuse(f"its {name} isn't {'a' if kind is not int else 'an'} {kind.__name__}")
    return header[name]


def _ints(values: Any, what: str) -> tuple[int, ...]:
    if type(values) is not list or any(type(v) is not int for v in values):
        raise _refuse(f"its {what} isn't a list of integers")
    return tuple(values)


# --- parts ---


def _buffers(
    file: BinaryIO, members: dict[str, zipfile.ZipInfo], header: dict[str, Any]
) -> dict[str, memoryview | None]:
    """The buffers in their shapes; sizes are compared before anything is read."""
    given = _of(header, "shapes", dict)
    shapes = {
        n: None if given.get(n) is None else _ints(given[n], f"shape of {n}") for n in BUFFERS
    }
    for name, shape in shapes.items():
        if (shape is None) != (name not in members):
            raise _refuse(f"it has no {name}, or no shape for them")
        if shape is not None:
            size = math.prod(shape) * struct.calcsize(BUFFERS[name])
            if min(shape, default=-1) < 0 or members[name].file_size != size:
                have = members[name].file_size
                raise _refuse(f"its {name} have {have} bytes and shape {_brief(shape)}")
    views: dict[str, memoryview | None] = {}
    for name, shape in shapes.items():
        content = None if shape is None else _contents(file, members[name])
        views[name] = content if content is None else _view(content, BUFFERS[name], shape or ())
    return views


def _brief(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape[:4])) if max(shape, default=0) < 1 << 63 else "out of this world"


def _view(content: bytearray, kind: str, shape: tuple[int, ...]) -> memoryview:
    if 0 in shape:  # memoryview.cast has no such shapes
        empty: Any = _ITEMS[kind]
        for size in reversed(shape):
            empty = empty * size
        return memoryview(empty())
    return _swapped(memoryview(content).cast(kind)).cast("B").cast(kind, shape)  # type: ignore[call-overload,no-any-return]


def _program(arch: Arch, header: dict[str, Any], views: dict[str, memoryview | None]) -> Program:
    required = [name for name in BUFFERS if name not in ("elements", "scales")]
    missing = [name for name in required if views[name] is None]
    if missing:
        raise _refuse(f"it has no {missing[0]}")
    values: dict[str, Any] = dict(views)
    values |= {name: _of(header, name, int) for name in _NUMBERS}
    values |= {name: _ints(header.get(name), name) for name in _LISTS}
    return Program(
        arch=arch,
        code=tuple(_code(code) for code in _of(header, "code", list)),
        rules=tuple(_rule(rule) for rule in _of(header, "rules", list)),
        meta=_of(header, "meta", dict),
        **values,
    )


def _code(code: Any) -> Code:
    engines, labels = (
        code.get(name) if isinstance(code, dict) else None for name in ("engines", "labels")
    )
    for parts in (engines, labels):
        if type(parts) is not list or [type(part) for part in parts] != [list] * 3:
            raise _refuse("its code isn't that of three engines")
    if any(type(label) is not str for names in labels for label in names):  # type: ignore[union-attr]
        raise _refuse("its labels aren't text")
    rows: Any = tuple(tuple(_ints(row, "code") for row in queue) for queue in engines)  # type: ignore[union-attr]
    return Code(engines=rows, labels=tuple(tuple(names) for names in labels))  # type: ignore[union-attr,arg-type]


def _rule(rule: Any) -> StepRule:
    known = {f.name: str if f.name == "kind" else int for f in fields(StepRule)}
    if type(rule) is not dict or {name: type(value) for name, value in rule.items()} != known:
        raise _refuse("its step rules have other fields")
    return StepRule(**rule)
