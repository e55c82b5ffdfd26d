"""The command line: which commands there are, and how every one of them ends.

A command ``NAME`` lives in ``tokenpath/commands/NAME.py`` as a Typer application called ``app``,
which is imported when it is called: ``tokenpath --help`` needs neither numpy nor numba. The
commands are the only place where ``sw`` meets ``sim``.

Exit codes: 0 done, 1 the computer failed (memory, disk, closed pipe), 2 the input or the usage
was wrong, 130 interrupted. A failure is one line on stderr, never a traceback.
"""

import errno
import importlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tokenpath import __version__
from tokenpath.commands import new_app
from tokenpath.console import note, show_logs
from tokenpath.hw.arch.errors import InputError

COMMANDS = {
    "Run a model": {
        "decode": "Generate text on a simulated array of tiles.",
        "evaluate": "Compare with fp32, teacher-forced, position by position.",
        "report": "Print a saved run again.",
    },
    "Look at the parts": {
        "models": "The models at hand: list, show, get.",
        "arch": "Machines: presets and parameters.",
        "topology": "Networks: what a product of dimensions gives.",
        "traffic": "Networks: latency against load of their routers.",
        "routers": "Router microarchitectures side by side.",
        "program": "Compiled schedules: dump, check, save.",
        "verilog": "The hardware as Verilog, with a description of its ports.",
        "cost": "FPGA area, clock and gates of a unit.",
    },
}
"""Section of ``--help``: command: its line there."""


class Commands(TyperGroup):
    """The commands of the table; a command's module is imported when it is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command as usual, then put the real one in the place of its line of help."""
        name, line, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if line and name else None, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands under their sections."""
        for section, lines in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl(list(lines.items()))


def load_command(name: str) -> Any:
    """Import one command."""
    module = importlib.import_module(f"tokenpath.commands.{name}")
    return typer.main.get_command(module.app)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"tokenpath {__version__}")
        raise typer.Exit


app = new_app(cls=Commands, add_completion=True)


@app.callback(invoke_without_command=True)
def tokenpath(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it and end."),
    ] = False,
) -> None:
    """What each generated token costs on its way through compute, memory and interconnect."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
    show_logs()


for _section in COMMANDS.values():
    for _name, _line in _section.items():
        app.command(_name, help=_line)(lambda: None)


def run(args: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        try:
            code = app(list(args), prog_name="tokenpath", standalone_mode=False)
        finally:
            sys.stdout.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        code = 130
    except typer.TyperException as error:
        code = fail(error.exit_code, f"{error.format_message()}{_hint(error)}")
    except InputError as error:
        code = fail(2, str(error))
    except MemoryError as error:
        remedy = "try fewer tiles, a shorter context or a smaller model"
        code = fail(1, f"out of memory; {remedy}" + (f" ({error})" if str(error) else ""))
    except OSError as error:
        code = 1 if error.errno == errno.EPIPE else fail(1, _reason(error))
    if code == 130:
        note("interrupted")
    return code or 0


def fail(code: int, message: str) -> int:
    """Say in one line what went wrong."""
    note(f"error: {' '.join(message.split())}")
    return code


def _hint(error: typer.TyperException) -> str:
    """The value that was given, where typer's message leaves it out, and where to read on."""
    invalid = getattr(error.__cause__, "errors", None)  # pydantic's ValidationError
    given = f", not {invalid()[0]['input']!r}" if invalid else ""
    ctx = getattr(error, "ctx", None)
    return given + (f" (see {ctx.command_path} --help)" if ctx else "")


def _reason(error: OSError) -> str:
    where = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{where}"
