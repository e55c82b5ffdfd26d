"""From options to a program and a machine: the one place where compiler and executors meet."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Program
from tokenpath.sim.run import Machine
from tokenpath.sw.mapping import Mapping, plan
from tokenpath.sw.model import ModelSpec, load

EXECUTORS = ("fast", "golden", "rtl", "verilator")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What decides a program: the model, the machine and the mapping.

    None leaves a choice to the machine or the model.
    """

    model: str = "glassllm"
    arch: str = "edge"
    topology: str | None = None
    router: str | None = None
    kv_shards: int | None = None
    split: str = "2d"
    reduce: str = "direct"
    softmax: str = "exact"
    context: int | None = None
    page: int = 16
    program: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Job:
    """A model mapped to a machine, and its program."""

    spec: ModelSpec
    mapping: Mapping
    program: Program

    @property
    def arch(self) -> Arch:
        """The machine."""
        return self.mapping.arch


def machine_of(options: Options) -> Arch:
    """The machine that the options name."""
    return Arch.load(options.arch).on(options.topology, options.router)


def prepare(options: Options, *, prompt: str | None = None, values: bool = True) -> Job:
    """Load, map and compile; a model without weights gives a program for timing only."""
    from tokenpath.sw.lower import lower

    arch = machine_of(options)
    spec = load(options.model, prompt)
    mapping = plan(
        spec.shape,
        arch,
        kv_shards=options.kv_shards,
        split=options.split,
        softmax=options.softmax,
        reduce=options.reduce,
        context=options.context,
        page=options.page,
    )
    if options.program is not None:
        return Job(spec=spec, mapping=mapping, program=_saved(options.program, mapping, spec))
    program = lower(mapping, spec, values=values and spec.has_weights)
    return Job(spec=spec, mapping=mapping, program=program)


def position_of(program: Program, position: int | None) -> int:
    """The position asked for, or the last. Raises InputError for one behind the context."""
    if position is not None and not 0 <= position < program.context:
        raise InputError(
            f"position {position} is outside of a context of {program.context}; give 0 to "
            f"{program.context - 1}, or a larger --context"
        )
    return program.context - 1 if position is None else position


def _saved(path: Path, mapping: Mapping, spec: ModelSpec) -> Program:
    """A program from a file, refused when it was compiled for something else."""
    program = Program.load(path, mapping.arch)
    for what, mine, theirs in (
        ("model", spec.shape.name, program.meta.get("model")),
        ("vocabulary", spec.shape.vocab, program.vocab),
        ("context", mapping.context, program.context),
    ):
        if mine != theirs:
            raise InputError(
                f"{path} was compiled for {what} {theirs} and {mine} is asked for; "
                f"give {theirs}, or compile it again with 'tokenpath program save'"
            )
    return program


def start(
    program: Program,
    executor: str,
    seed: int | None = None,
    *,
    vcd: Path | None = None,
    fst: Path | None = None,
) -> Machine:
    """A machine that runs ``program``; ``seed`` draws the golden model's order of engines.

    One with ``vcd`` or ``fst`` writes its signals there and has a ``close``.
    """
    check_executor(executor, vcd=vcd is not None, fst=fst is not None)
    if executor != "fast" and program.elements is None:
        what = "the golden model has no cycles" if executor == "golden" else "hardware has values"
        raise InputError(f"{what}: give a model with weights, or --executor fast")
    if executor == "golden":
        from tokenpath.sim.golden import Machine as Golden

        return Golden(program, seed)
    if seed is not None:
        raise InputError(
            "--seed draws the order of the golden model's engines; give --executor golden with it"
        )
    if executor == "rtl":
        from tokenpath.sim.rtl import RtlMachine

        return RtlMachine(program, vcd=vcd)
    if executor == "verilator":
        from tokenpath.sim.verilated import VerilatedMachine

        return VerilatedMachine(program, vcd=vcd, fst=fst)
    from tokenpath.sim.fast import FastMachine

    return FastMachine(program)


def check_executor(executor: str, *, vcd: bool, fst: bool) -> None:
    """Refuse an unknown executor, and waveforms that it can't write."""
    if executor not in EXECUTORS:
        raise InputError(f"unknown executor {executor!r}; give {', '.join(EXECUTORS)}")
    if vcd and fst:
        raise InputError("--vcd and --fst are the same signals in two formats; give one of them")
    if (vcd or fst) and executor not in ("rtl", "verilator"):
        option = "--vcd" if vcd else "--fst"
        raise InputError(
            f"the {executor} executor has no signals for {option}; give --executor rtl or verilator"
        )
    if fst and executor == "rtl":
        raise InputError(
            "Amaranth's simulator writes no FST; give --vcd, or --executor verilator with --fst"
        )


class Text:
    """Text of tokens as they come: what is new since the last call."""

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._shown = ""

    def push(self, token: int) -> str:
        """The characters that one more token settles; incomplete ones are held back."""
        self._ids.append(token)
        text = self._decode(self._ids)
        if text.endswith("\ufffd") or not text.startswith(self._shown):
            return ""
        new, self._shown = text[len(self._shown) :], text
        return new


def about(job: Job, options: Options, **more: Any) -> dict[str, Any]:
    """What a saved run says of itself."""
    mapping = job.mapping
    return {
        "model": job.spec.shape.name,
        "model_fingerprint": job.spec.fingerprint,
        "topology": str(job.arch.topology),
        "arch": job.arch.name,
        "clock_hz": job.arch.clock_hz,
        "softmax": mapping.softmax,
        "split": mapping.split,
        "reduce": mapping.reduce,
        "kv_shards": mapping.attention.members,
        "groups": mapping.attention.groups,
        "context": mapping.context,
        **more,
    }
