"""A folder of generated files, written whole or not at all."""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from tokenpath.hw.arch.errors import InputError


def check_folder(folder: Path, manifest: str, *, force: bool = False) -> Path:
    """Refuse a folder that cannot take generated files; call it before long work, not after.

    ``manifest`` names the file that lists a folder's generated files (``files``: their ``name``
    and ``sha256``). A folder with anything else in it is refused unless ``force``. Returns the
    path with its links followed.
    """
    target = folder.resolve()
    if target.exists() and not target.is_dir():
        raise InputError(f"cannot write into {folder}: it is a file; give a folder")
    if not target.exists() and not target.parent.is_dir():
        raise InputError(f"cannot make {folder}: no folder {folder.parent}; make it first")
    if not os.access(target if target.exists() else target.parent, os.W_OK | os.X_OK):
        raise InputError(f"cannot write into {folder}: permission denied; choose another place")
    if not target.exists() or force:
        return target
    others = sorted({entry.name for entry in target.iterdir()} - _generated(target, manifest))
    if others:
        raise InputError(
            f"{folder} holds {others[0]}, which isn't as this command writes it: "
            "give an empty or a new folder, or --force"
        )
    return target


def write_folder(
    folder: Path, files: Mapping[str, str], manifest: str, *, force: bool = False
) -> None:
    """Write ``files``, text by name, into ``folder``; ``manifest`` is one of them.

    Files that an earlier manifest lists and ``files`` hasn't are removed, others stay. All is
    written beside the folder first; an error or an interrupt leaves the folder as it was.
    """
    target = check_folder(folder, manifest, force=force)
    stage = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        stage.mkdir()
        for name, text in files.items():
            (stage / name).write_text(text, encoding="utf-8", newline="\n")
        if not target.exists():
            os.replace(stage, target)
            return
        stale = _generated(target, manifest) - files.keys()
        _move(stage, target, [*(name for name in files if name != manifest), manifest])
        for name in stale:
            (target / name).unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"cannot write into {folder}: {reason}; choose another place") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _move(stage: Path, target: Path, names: list[str]) -> None:
    """Move each file into place; an interrupt waits until the last one is."""
    interrupt: BaseException | None = None
    while names:
        try:
            os.replace(stage / names[0], target / names[0])
            names.pop(0)
        except FileNotFoundError:  # moved, and interrupted before it was struck off
            if interrupt is None:
                raise
            names.pop(0)
        except (KeyboardInterrupt, SystemExit) as caught:
            interrupt = caught
    if interrupt is not None:
        raise interrupt


def _generated(folder: Path, manifest: str) -> set[str]:
    """The files in ``folder`` that are as its manifest lists them, and the manifest."""
    try:
        listed = json.loads((folder / manifest).read_bytes())["files"]
        sums = {str(file["name"]): file["sha256"] for file in listed}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {manifest} | {
        name
        for name, digest in sums.items()
        if (folder / name).parent == folder
        and (folder / name).is_file()
        and hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    }
