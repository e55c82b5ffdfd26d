import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
import typer

from tokenpath import __version__, cli
from tokenpath.commands import new_app
from tokenpath.hw.arch.errors import InputError

TOKENPATH = [sys.executable, "-m", "tokenpath"]

# A process whose command `models` is the body that a test gives.
STAND_IN = """
import sys, time
import typer
from tokenpath import cli, console, files
from tokenpath.__main__ import main
from tokenpath.commands import new_app

app = new_app()

@app.command()
def models() -> None:
{body}

cli.load_command = lambda name: typer.main.get_command(app)
sys.argv = ["tokenpath", "models"]
main()
"""


def tokenpath(*args, **settings):
    """Run the command line as a process of its own."""
    settings = {"capture_output": True, "text": True, "timeout": 60} | settings
    return subprocess.run([*TOKENPATH, *args], check=False, **settings)


def stand_in(body):
    """The command to run a process whose `tokenpath models` is the given body."""
    return [sys.executable, "-c", STAND_IN.format(body=textwrap.indent(body, "    "))]


@pytest.fixture
def fails_with(monkeypatch):
    """`fails_with(error)` makes the command `models` raise it."""

    def prepare(error):
        app = new_app()

        @app.command()
        def models(tokens: int = 1) -> None:
            raise error

        monkeypatch.setattr(cli, "load_command", lambda name: typer.main.get_command(app))

    return prepare


def test_help_lists_every_command_with_its_line():
    result = tokenpath("--help")
    assert result.returncode == 0
    assert result.stderr == ""
    for section, lines in cli.COMMANDS.items():
        assert f"{section}:" in result.stdout
        for name, line in lines.items():
            assert name in result.stdout
            assert line in result.stdout


def test_no_arguments_show_the_same_help():
    assert tokenpath().stdout == tokenpath("--help").stdout == tokenpath("-h").stdout


def test_help_loads_neither_numpy_nor_numba_nor_rich():
    script = """
        import sys
        from tokenpath.cli import run
        assert run(["--help"]) == 0
        loaded = sys.modules.keys() & {"numpy", "numba", "rich", "amaranth", "gguf"}
        assert not loaded, loaded
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", [name for lines in cli.COMMANDS.values() for name in lines])
def test_every_command_of_the_table_has_its_help(name, capsys):
    assert cli.run([name, "--help"]) == 0
    shown, _ = capsys.readouterr()
    assert shown.startswith(f"Usage: tokenpath {name}")
    assert "--help" in shown


def test_version(capsys):
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"tokenpath {__version__}\n"


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["--nothing"], "error: No such option: --nothing (see tokenpath --help)"),
        (
            ["modles"],
            "error: No such command 'modles'. Did you mean 'models'? (see tokenpath --help)",
        ),
        (
            ["models", "--tokns", "3"],
            "error: No such option: --tokns (Possible options: --tokens)"
            " (see tokenpath models --help)",
        ),
        (
            ["models", "--tokens", "many"],
            "error: Invalid value for '--tokens': Input should be a valid integer,"
            " unable to parse string as an integer, not 'many' (see tokenpath models --help)",
        ),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(args, line, fails_with, capsys):
    fails_with(AssertionError("never called"))
    assert cli.run(args) == 2
    assert capsys.readouterr() == ("", line + "\n")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("shape 'mush';\n use mesh"), 2, "error: shape 'mush'; use mesh"),
        (FileNotFoundError(2, "No such file", "a.toml"), 1, "error: No such file: a.toml"),
        (
            MemoryError(),
            1,
            "error: out of memory; try fewer tiles, a shorter context or a smaller model",
        ),
        (
            MemoryError("Unable to allocate 3 TiB"),
            1,
            "error: out of memory; try fewer tiles, a shorter context or a smaller model"
            " (Unable to allocate 3 TiB)",
        ),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_failure_is_one_line_and_its_exit_code(error, code, line, fails_with, capsys):
    fails_with(error)
    assert cli.run(["models"]) == code
    assert capsys.readouterr() == ("", line + "\n")


def test_an_error_of_our_own_is_not_hidden(fails_with):
    fails_with(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        cli.run(["models"])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_is_clean_and_leaves_no_file(number, code, tmp_path):
    body = """
with files.replacing(__import__("pathlib").Path("run.json")) as temporary:
    temporary.write_text("half")
    with console.progress("working", total=2) as advance:
        console.note("ready")
        time.sleep(60)
"""
    with subprocess.Popen(
        stand_in(body), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's & ignores it
    ) as process:  # fmt: skip
        assert process.stderr.readline() == "ready\n"
        assert os.listdir(tmp_path) != []
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert out == ""
    assert err == ("interrupted\n" if number == signal.SIGINT else "")
    assert os.listdir(tmp_path) == []


def test_a_closed_pipe_is_no_error_message():
    body = "for _ in range(100_000): print('x' * 100)"
    with subprocess.Popen(
        stand_in(body), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("option", ["--help", "--version"])  # flushed at once, and only at the end
def test_a_full_disk_is_one_line(option):
    with open("/dev/full", "w") as full:
        result = tokenpath(option, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (result.returncode, result.stderr) == (1, "error: No space left on device\n")


def test_json_is_one_object_and_logs_go_to_stderr():
    body = """
import logging
logging.getLogger("tokenpath.sim").info("compiling")
logging.getLogger("elsewhere").info("chatter")
console.emit("a table", {"text": "\\udce9 x", "tokens": [1, 2]}, as_json=True)
"""
    result = subprocess.run(stand_in(body), capture_output=True, text=True, check=False)
    assert result.returncode == 0
    assert json.loads(result.stdout) == {"text": "\udce9 x", "tokens": [1, 2]}
    assert result.stdout.count("\n") == 1
    assert result.stderr == "compiling\n"


def test_text_that_the_terminal_cannot_show_is_escaped():
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    result = subprocess.run(
        stand_in("print('caf\\u00e9')"), capture_output=True, env=environment, check=False
    )
    assert (result.returncode, result.stdout) == (0, b"caf\\xe9\n")


@pytest.mark.parametrize(
    ("words", "found"), [("tokenpath mod", ["models"]), ("tokenpath topology sh", ["show"])]
)
def test_the_shell_completes_commands(words, found):
    asked = {"_TOKENPATH_COMPLETE": "complete_bash", "COMP_WORDS": words}
    asked["COMP_CWORD"] = str(len(words.split()) - 1)
    result = tokenpath(env=os.environ | asked)
    assert result.stdout.split() == found
