"""Single faults planted in the hardware, one at a time: do the tests notice?

Each fault replaces one exact text of hw/ in a private copy of the repository. First the nearest
tests of tests/hw run, then, if they pass, a small differential campaign in Amaranth's simulator; of
faults of routers that choose, some cases of the network differential on one machine instead. A
fault is *killed* when one of them fails or hangs. They pass without the fault.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .common import ROOT, markdown
from .faults import FAULTS, Fault

TEST_SECONDS, CAMPAIGN_SECONDS = 150, 420
GATE = 0.9

IGNORED = (
    ".git",
    ".venv",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    "*.egg-info",
)
CAMPAIGN = """
import sys, warnings
warnings.simplefilter("ignore")
from benchmarks.differential import Campaign
campaign = Campaign().run(1, 24, (0, 1, 14), "rtl")
sys.exit(bool(campaign.failures))
"""
NETWORK_CASES = """
import sys, warnings
warnings.simplefilter("ignore")
from benchmarks.network_differential import Bench, Case, machine
one = sys.argv[1:]
bench = Bench(machine(*one))
sys.exit(any(bench.compare(Case(1, *one, number)).difference for number in range(16)))
"""

EXPLAINED: dict[str, str] = {}
"""Why a fault survives, by its name."""


@dataclass
class Outcome:
    """What killed a fault: the tests, the campaign, or nothing ("")."""

    fault: Fault
    killer: str
    seconds: float


class Copy:
    """A private copy of the repository."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        shutil.copytree(ROOT, self.root, symlinks=True, ignore=shutil.ignore_patterns(*IGNORED))
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "NUMBA_CACHE_DIR": str(folder / "numba"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.sound: dict[tuple[str, ...], str] = {}

    @contextmanager
    def planted(self, fault: Fault) -> Iterator[None]:
        """The copy with a fault in it."""
        path = self.root / "hw" / f"{fault.file}.py"
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")

    def fails(self, command: Sequence[str], seconds: float) -> str:
        """How a command of Python ends: "" well, else "fails" or "hangs"."""
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", *command], cwd=self.root, env=self.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            return "fails" if process.wait(seconds) else ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return "hangs"

    def tests(self, names: Sequence[str]) -> str:
        """How these tests end."""
        options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
        return self.fails(["-m", "pytest", *options, *names], TEST_SECONDS)

    def network(self, machine: Sequence[str]) -> str:
        """How cases of the network differential on a machine end."""
        return self.fails(["-c", NETWORK_CASES, *machine], CAMPAIGN_SECONDS)

    def judge(self, fault: Fault) -> Outcome:
        """Plant a fault and look for a test that fails."""
        start, names = time.monotonic(), fault.machine or tuple(fault.nearest)
        check = self.network if fault.machine else self.tests
        if names not in self.sound:
            self.sound[names] = check(names)
        if self.sound[names]:
            raise SystemExit(f"{' '.join(names)} fail without a fault; mend them first")
        killer = ""
        with self.planted(fault):
            if how := check(names):
                killer = f"{' '.join(Path(name).name for name in names)} ({how})"
            elif not fault.machine and (how := self.fails(["-c", CAMPAIGN], CAMPAIGN_SECONDS)):
                killer = f"differential ({how})"
        return Outcome(fault, killer, time.monotonic() - start)


def lost() -> list[str]:
    """Faults whose text isn't in the source exactly once."""
    found = []
    for fault in FAULTS:
        count = (ROOT / "hw" / f"{fault.file}.py").read_text(encoding="utf-8").count(fault.old)
        if count != 1 or fault.old == fault.new:
            found.append(f"{fault.name}: hw/{fault.file}.py has {count} of {fault.old!r}")
    return found


def measure(options: Sequence[str] = ()) -> str | None:
    """Plant all faults, or those whose name has the text of ``--only``, which isn't recorded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks mutation")
    parser.add_argument("--only", default="", help="part of the names of some faults")
    only = parser.parse_args(options).only
    if missing := lost():
        raise SystemExit("\n".join(["benchmarks/faults.py no longer fits:", *missing]))
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        for fault in FAULTS:
            if only in fault.name:
                outcomes.append(copy.judge(fault))
                print(
                    fault.name, "|", outcomes[-1].killer or "SURVIVES", file=sys.stderr, flush=True
                )
    text = report(outcomes)
    return text if not only else print(text)


def report(outcomes: Sequence[Outcome]) -> str:
    """The table, as Markdown."""
    killed = sum(bool(outcome.killer) for outcome in outcomes)
    rows = [
        (one.fault.name, f"hw/{one.fault.file}.py", one.killer or f"**survives**: {_why(one)}")
        for one in outcomes
    ]
    head = (
        f"{killed} of {len(outcomes)} killed ({killed / max(1, len(outcomes)):.0%}; gate 90 %).\n"
    )
    return f"{head}\n{markdown(['fault', 'in', 'killed by'], rows)}"


def _why(outcome: Outcome) -> str:
    return EXPLAINED.get(outcome.fault.name, "not explained")
