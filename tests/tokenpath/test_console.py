import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.table import Table

from tokenpath.console import console, emit, note, progress


def table():
    """A table with text that rich would read as markup, wider than 80 columns."""
    columns = Table("name", "[what]")
    columns.add_row("mesh:4x4", "[4x4] :smile: " + "x" * 90)
    return columns


def test_a_table_in_a_pipe_is_neither_cut_nor_interpreted(capsys):
    emit(table(), {}, as_json=False)
    out, err = capsys.readouterr()
    assert "[4x4] :smile: " + "x" * 90 in out
    assert "[what]" in out
    assert err == ""


def test_several_renderables_follow_each_other(capsys):
    emit(["first", "second"], {}, as_json=False)
    assert capsys.readouterr().out == "first\nsecond\n"


def test_json_takes_numpy_and_paths(capsys):
    payload = {"n": np.int64(3), "v": np.arange(2), "p": Path("a/b"), "x": np.float32(0.5)}
    emit(table(), payload, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"n": 3, "v": [0, 1], "p": "a/b", "x": 0.5}


def test_json_refuses_what_has_no_json_form(capsys):
    with pytest.raises(TypeError, match="object has no JSON form"):
        emit("", {"x": object()}, as_json=True)
    with pytest.raises(ValueError, match="not JSON compliant"):
        emit("", {"x": float("nan")}, as_json=True)
    assert capsys.readouterr().out == ""


def test_notes_go_to_stderr(capsys):
    note("compiling")
    assert capsys.readouterr() == ("", "compiling\n")


def test_progress_is_silent_without_a_terminal(capsys):
    with progress("tokens", total=2) as advance:
        advance(1)
        advance(1)
    assert capsys.readouterr() == ("", "")


def test_progress_draws_a_bar_on_a_terminal_and_takes_it_away(monkeypatch, capsys):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress("tokens", total=2) as advance:
        advance(2)
    assert "tokens" in stream.getvalue()
    assert "100%" in stream.getvalue()
    assert stream.getvalue().rstrip().endswith("\x1b[2K")
    assert capsys.readouterr().out == ""


def test_a_terminal_decides_on_its_own_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "44")
    assert console(Terminal()).width == 44
    assert console(io.StringIO()).width == 44


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self):
        return True
