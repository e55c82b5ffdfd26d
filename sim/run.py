"""Run: what every executor returns for the steps that it executed, and how one is driven, saved
and read back."""

import hashlib
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.errors import InputError

I64 = NDArray[np.int64]
FORMAT = "tokenpath run 1"
LARGEST_FILE = 1 << 32
_UNREADABLE = (
    *(OSError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error, struct.error),
    *(ValueError, TypeError, AttributeError, LookupError, OverflowError),
)


@dataclass(kw_only=True)
class Step:
    """One decode step: ``logits`` (vocab,) int32 or None (timing only), the arg max, cycles (0
    if untimed).

    ``saturations`` counts clamped summands and words, ``overflows`` the word sums that wrapped (how
    often a word wraps to which several tiles add depends on their order).
    ``ledger`` has the cycles of the critical path by layer (their sum is ``cycles``),
    ``stages`` the same for each stage of the model, ``network`` parts its interconnect into
    inject, hop, serialisation and contention; ``counters`` are arrays over tiles and links.
    """

    position: int
    token: int
    logits: NDArray[np.int32] | None
    best: int
    cycles: int = 0
    saturations: int = 0
    overflows: int = 0
    ledger: dict[str, int] = field(default_factory=dict)
    stages: dict[str, dict[str, int]] = field(default_factory=dict)
    network: dict[str, int] = field(default_factory=dict)
    counters: dict[str, I64] = field(default_factory=dict)


@dataclass(kw_only=True)
class Run:
    """Steps of one executor on one program; ``about`` says what was run (model, topology,
    options, text)."""

    executor: str
    arch_fingerprint: str
    prompt: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def generated(self) -> list[Step]:
        """The steps whose arg max is a generated token: from the prompt's last token on."""
        return self.steps[max(0, len(self.prompt) - 1) :]

    @property
    def tokens(self) -> list[int]:
        """Generated tokens."""
        return [step.best for step in self.generated]

    def logits_sha256(self) -> str:
        """Hex digest over the little-endian integer logits of every generated step."""
        digest = hashlib.sha256()
        for step in self.generated:
            if step.logits is not None:
                digest.update(step.logits.astype("<i4").tobytes())
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        """Write one zip file: a JSON header and the arrays, without pickles. The caller makes the
        write atomic."""
        header: dict[str, Any] = {"format": FORMAT, "steps": []}
        header |= {f.name: getattr(self, f.name) for f in fields(self) if f.name != "steps"}
        arrays: dict[str, NDArray[Any]] = {}
        for index, step in enumerate(self.steps):
            plain = {k: v for k, v in asdict(step).items() if k not in ("logits", "counters")}
            header["steps"].append(plain)
            named = dict(step.counters) | ({} if step.logits is None else {"logits": step.logits})
            arrays |= {f"{index}.{name}": array for name, array in named.items()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("run.json", json.dumps(header))
            for name, array in arrays.items():
                data = io.BytesIO()
                np.save(data, array, allow_pickle=False)
                file.writestr(f"{name}.npy", data.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Run":
        """Read a saved run.

        Raises InputError when the file is not one.
        """
        try:
            with zipfile.ZipFile(path) as file:
                return cls._read(file)
        except FileNotFoundError:
            raise InputError(
                f"no run {str(path)!r}; save one with 'tokenpath decode --save FILE'"
            ) from None
        except _UNREADABLE as error:
            raise InputError(
                f"{str(path)!r} is not a saved run ({type(error).__name__}); make one "
                f"with 'tokenpath decode --save FILE'"
            ) from None

    @classmethod
    def _read(cls, file: zipfile.ZipFile) -> "Run":
        if sum(member.file_size for member in file.infolist()) > LARGEST_FILE:
            raise ValueError("too large")
        header = json.loads(file.read("run.json"))
        if header.pop("format") != FORMAT:
            raise ValueError("unknown format")
        steps = [Step(logits=None, **plain) for plain in header.pop("steps")]
        for name in file.namelist():
            if name.endswith(".npy"):
                index, key = name.removesuffix(".npy").split(".", 1)
                array = np.load(io.BytesIO(file.read(name)), allow_pickle=False)
                if key == "logits":
                    steps[int(index)].logits = array
                else:
                    steps[int(index)].counters[key] = array
        run = cls(steps=steps, **header)
        if not _is_sound(run):
            raise TypeError("wrong types")
        return run


def _is_sound(run: Run) -> bool:
    """Whether the fields of a run that was read have the types that they should."""
    numbers: list[Any] = list(run.prompt) if isinstance(run.about, dict) else [None]
    texts = [run.executor, run.arch_fingerprint]
    for step in run.steps:
        numbers += [step.position, step.token, step.best, step.cycles]
        numbers += [step.saturations, step.overflows]
        numbers += [*step.ledger.values(), *step.network.values()]
        numbers += [value for parts in step.stages.values() for value in parts.values()]
    return all(isinstance(n, int) for n in numbers) and all(isinstance(t, str) for t in texts)


class Machine(Protocol):
    """What an executor is: it keeps the array's memories and runs one step at a time."""

    def step(self, token: int, position: int) -> Step:
        """Feed ``token`` at ``position``."""
        ...


def drive(
    machine: Machine,
    run: Run,
    tokens: int,
    *,
    first: int = 0,
    stop: Sequence[int] = (),
    forced: Sequence[int] = (),
    on_step: Callable[[Step], None] | None = None,
) -> Run:
    """Feed ``run.prompt`` from position ``first`` on, then generate up to ``tokens`` tokens
    greedily.

    Generation ends early behind a token of ``stop``. ``forced`` tokens are fed in place of the
    generated ones (teacher forcing).
    """
    feed = [*run.prompt, *forced]
    for index in range(len(run.prompt) + tokens - 1):
        if index >= len(feed):
            feed.append(run.steps[-1].best)
        step = machine.step(feed[index], first + index)
        run.steps.append(step)
        if on_step is not None:
            on_step(step)
        if index >= len(run.prompt) - 1 and step.best in stop:
            break
    return run
