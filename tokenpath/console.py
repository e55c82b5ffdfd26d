"""What commands say: results on stdout, everything else on stderr."""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

if TYPE_CHECKING:  # rich takes a tenth of a second, which --json need not pay
    from rich.console import Console, RenderableType
    from rich.table import Table

PIPE_COLUMNS = 160  # a table in a pipe or file is not cut to a terminal's 80

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")
]


def console(stream: TextIO) -> "Console":
    """A rich console that prints text as it is: no markup, no emoji, no guessed colours."""
    from rich.console import Console

    wide = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_COLUMNS
    return Console(file=stream, width=wide, markup=False, emoji=False, highlight=False)


def emit(
    shown: "RenderableType | list[RenderableType]", payload: Mapping[str, Any], as_json: bool
) -> None:
    """Print a command's result: ``payload`` as one line of JSON, or ``shown`` for people."""
    if as_json:
        print(json.dumps(payload, default=_plain, allow_nan=False), flush=True)
        return
    console(sys.stdout).print(*(shown if isinstance(shown, list) else [shown]), sep="\n")


def facts(title: str, rows: Mapping[str, object]) -> "Table":
    """A table of two columns: what, and how much."""
    from rich.table import Table

    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in rows.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    return table


def _plain(value: Any) -> Any:
    """JSON's reading of numpy's numbers and arrays, and of paths."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def note(text: str) -> None:
    """Tell people something on stderr, such as that a compilation has started."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def progress(label: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """Yield ``advance(amount)`` for long work, with a bar on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda amount: None
        return
    from rich.progress import Progress

    with Progress(console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda amount: bar.advance(task, amount)


def show_logs() -> None:
    """Print what the rooms log, from INFO upwards, on stderr."""
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING)
    logging.getLogger("tokenpath").setLevel(logging.INFO)
