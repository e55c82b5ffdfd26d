"""``tokenpath decode``: a model generates text on a simulated array."""

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from tokenpath.commands import new_app
from tokenpath.commands import options as o
from tokenpath.console import AsJson, emit, note
from tokenpath.hw.arch.errors import InputError

app = new_app()

PROMPTS = {"mathformer": "7+8=", "glassllm-pt": "Era uma vez", "smollm2": "Once upon a time"}
PROMPT = "Alice was beginning to"


@app.command()
def decode(
    model: o.Model = "glassllm",
    prompt: Annotated[
        str | None, typer.Option("--prompt", "-p", help="Text to go on from.")
    ] = None,
    prompt_ids: Annotated[
        str | None,
        typer.Option("--prompt-ids", metavar="I,I,...", help="Token ids instead of a text."),
    ] = None,
    tokens: Annotated[
        int, typer.Option("--tokens", "-n", min=1, help="Most tokens to generate.")
    ] = 32,
    topology: o.TopologyText = None,
    router: o.RouterText = None,
    arch: o.ArchName = "edge",
    kv_shards: o.KvShards = None,
    softmax: o.Softmax = "exact",
    split: o.Split = "2d",
    reduce: o.Reduce = "direct",
    context: o.Context = None,
    page: o.Page = 16,
    executor: o.Executor = "fast",
    seed: o.Seed = None,
    timing_only: Annotated[
        bool,
        typer.Option(
            "--timing-only", help="Cycles without values; the way for shapes without weights."
        ),
    ] = False,
    position: Annotated[
        int | None,
        typer.Option(
            "--position",
            min=0,
            help="Timing only: position of the first token; else the context's end.",
        ),
    ] = None,
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="Go on behind an end-of-text token.")
    ] = False,
    program: Annotated[
        Path | None,
        typer.Option("--program", metavar="FILE", help="A saved program instead of compiling one."),
    ] = None,
    save: o.Save = None,
    vcd: Annotated[
        Path | None,
        typer.Option("--vcd", metavar="FILE", help="Waveform of all signals (rtl, verilator)."),
    ] = None,
    fst: Annotated[
        Path | None,
        typer.Option("--fst", metavar="FILE", help="The same, much smaller (verilator)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Generate text on a simulated array of tiles and say where each token's cycles went."""
    from tokenpath import pipeline
    from tokenpath.files import check_writable

    pipeline.check_executor(executor, vcd=vcd is not None, fst=fst is not None)
    for file in (save, vcd, fst):
        if file is not None:
            check_writable(file)
    options = pipeline.Options(
        model=model,
        arch=arch,
        topology=topology,
        router=router,
        kv_shards=kv_shards,
        split=split,
        reduce=reduce,
        softmax=softmax,
        context=context,
        page=page,
        program=program,
    )
    started = time.monotonic()
    if prompt is None and prompt_ids is None:
        prompt = next((text for name, text in PROMPTS.items() if model.startswith(name)), PROMPT)
    job = pipeline.prepare(options, prompt=prompt, values=not timing_only)
    values = job.program.elements is not None
    ids, first = _feed(job, prompt, prompt_ids, position, tokens, values)
    stop = () if ignore_eos else job.spec.shape.eos
    with _machine(job.program, executor, seed, vcd, fst) as machine:
        run = _run(job, machine, ids, first, tokens, stop, as_json, executor, values)
    from tokenpath.sw.bound import bounds

    run.about = pipeline.about(
        job,
        options,
        executor=executor,
        values=values,
        text=_text(job, run.tokens) if values else None,
        prompt=prompt if values else None,
        bounds=bounds(job.mapping, run.generated[-1].position),
        wall_s=round(time.monotonic() - started, 3),
    )
    if save is not None:
        from tokenpath.files import replacing

        with replacing(save) as path:
            run.save(path)
    show(run, as_json, job.spec.tokenizer.decode if values and job.spec.tokenizer else None)


@contextmanager
def _machine(
    program: Any, executor: str, seed: int | None, vcd: Path | None, fst: Path | None
) -> Iterator[Any]:
    """The machine; its waveform stays only if the block ends well."""
    from tokenpath import pipeline
    from tokenpath.files import replacing

    file = vcd or fst
    if file is None:
        yield pipeline.start(program, executor, seed)
        return
    with replacing(file) as path:
        waves = {"vcd": path} if vcd else {"fst": path}
        machine: Any = pipeline.start(program, executor, seed, **waves)
        with closing(machine):
            yield machine


def _text(job: Any, tokens: list[int]) -> str | None:
    eos = job.spec.shape.eos
    kept = [t for t in tokens if t not in eos]
    return job.spec.tokenizer.decode(kept) if job.spec.tokenizer else None


def _feed(
    job: Any,
    prompt: str | None,
    prompt_ids: str | None,
    position: int | None,
    tokens: int,
    values: bool,
) -> tuple[list[int], int]:
    """Token ids to feed first, and their first position."""
    context = job.mapping.context
    if values:
        if position is not None:
            raise InputError(
                f"--position {position} skips tokens whose values are needed; give "
                f"--timing-only with it"
            )
        ids = (
            o.token_ids(prompt_ids, "--prompt-ids")
            if prompt_ids is not None
            else job.spec.encode_prompt(prompt)
        )
        for token in ids:
            if token >= job.spec.shape.vocab:
                raise InputError(
                    f"token id {token} is outside the vocabulary 0..{job.spec.shape.vocab - 1}"
                )
        first = 0
    else:
        ids, first = [0], max(0, context - tokens) if position is None else position
    if first + len(ids) + tokens - 1 > context:
        raise InputError(
            f"{len(ids)} prompt tokens and {tokens} generated ones from position "
            f"{first} on don't fit a context of "
            f"{context}; give fewer --tokens or a larger --context"
        )
    return ids, first


def _run(
    job: Any,
    machine: Any,
    ids: list[int],
    first: int,
    tokens: int,
    stop: Any,
    quiet: bool,
    executor: str,
    values: bool,
) -> Any:
    """Drive the machine; the text streams to stdout as it comes unless ``quiet``."""
    from tokenpath.pipeline import Text
    from tokenpath.sim.run import Run, drive

    run = Run(executor=executor, arch_fingerprint=job.arch.fingerprint, prompt=ids)
    streams = values and not quiet and job.spec.tokenizer is not None
    text = Text(job.spec.tokenizer.decode) if streams else None
    if text:
        for token in ids:
            sys.stdout.write(text.push(token))
        sys.stdout.flush()

    def on_step(step: Any) -> None:
        if text and len(run.steps) >= len(ids) and step.best not in job.spec.shape.eos:
            sys.stdout.write(text.push(step.best))
            sys.stdout.flush()

    drive(machine, run, tokens, first=first, stop=stop if values else (), on_step=on_step)
    if text:
        sys.stdout.write("\n\n")
    return run


def show(run: Any, as_json: bool, decode_text: Any = None) -> None:
    """Print a run: one JSON object, or its tables."""
    from tokenpath.sw.report import summary

    steps, about = run.generated, run.about
    payload = summary.payload(
        steps,
        about,
        logits_sha256=run.logits_sha256() if about["values"] else None,
        arch_fingerprint=run.arch_fingerprint,
        prompt_ids=run.prompt if about["values"] else None,
    )
    if as_json:
        emit([], payload, True)
        return
    shown: list[Any] = []
    if any(step.cycles for step in steps):
        names = [repr(decode_text([s.best]))[1:-1] if decode_text else str(s.best) for s in steps]
        shown += [summary.ledger_table(steps, about, names), summary.stage_table(steps)]
    shown.append(summary.closing_line(steps, about))
    if about["values"]:
        shown.append(f"logits sha256 {payload['logits_sha256']}")
    if payload["saturations"] or payload["overflows"]:
        note(
            f"{payload['saturations']} summands or words were clamped and "
            f"{payload['overflows']} sums wrapped"
        )
    emit(shown, payload, False)
