"""``tokenpath program``: the compiled schedule."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tokenpath.commands import new_app
from tokenpath.commands import options as o
from tokenpath.console import AsJson, emit, facts

app = new_app()


@app.callback()
def program() -> None:
    """Programs: compile one, look at its instructions, check it, keep it."""


def _compile(values: bool, model: str, **options: Any) -> Any:
    from tokenpath import pipeline

    return pipeline.prepare(
        pipeline.Options(model=model, **options), prompt="0+0=", values=values
    ).program


@app.command()
def dump(
    model: o.Model = "glassllm",
    topology: o.TopologyText = None,
    router: o.RouterText = None,
    arch: o.ArchName = "edge",
    kv_shards: o.KvShards = None,
    softmax: o.Softmax = "exact",
    split: o.Split = "2d",
    reduce: o.Reduce = "direct",
    context: o.Context = None,
    page: o.Page = 16,
    engine: Annotated[
        str | None, typer.Option("--engine", help="Only memory, compute or network.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the instructions of one decode step, engine by engine."""
    from tokenpath.hw.arch.errors import InputError
    from tokenpath.hw.arch.isa import Engine, disassemble

    names = [e.name.lower() for e in Engine]
    if engine is not None and engine not in names:
        raise InputError(f"unknown engine {engine!r}; give {', '.join(names)}")
    compiled = _compile(
        False,
        model,
        topology=topology,
        router=router,
        arch=arch,
        kv_shards=kv_shards,
        softmax=softmax,
        split=split,
        reduce=reduce,
        context=context,
        page=page,
    )
    lines: list[str] = []
    listing: dict[str, list[dict[str, str]]] = {}
    for code in compiled.code:
        for e in Engine:
            if engine is not None and e.name.lower() != engine:
                continue
            texts = [disassemble(row) for row in code.engines[e]]
            listing[e.name.lower()] = [
                {"stage": s, "text": t} for s, t in zip(code.labels[e], texts, strict=True)
            ]
            lines.append(f"; {e.name.lower()} engine, {len(texts)} instructions")
            lines += [
                f"{i:5d}  {s:14s} {t}"
                for i, (s, t) in enumerate(zip(code.labels[e], texts, strict=True))
            ]
    if as_json:
        emit(
            [],
            {"arch_fingerprint": compiled.arch.fingerprint, "meta": compiled.meta, "code": listing},
            True,
        )
    else:
        print("\n".join(lines))


@app.command()
def check(
    model: o.Model = "glassllm",
    topology: o.TopologyText = None,
    router: o.RouterText = None,
    arch: o.ArchName = "edge",
    kv_shards: o.KvShards = None,
    softmax: o.Softmax = "exact",
    split: o.Split = "2d",
    reduce: o.Reduce = "direct",
    context: o.Context = None,
    page: o.Page = 16,
    as_json: AsJson = False,
) -> None:
    """Prove a program: memory bounds, semaphores, deadlock and data races."""
    compiled = _compile(
        False,
        model,
        topology=topology,
        router=router,
        arch=arch,
        kv_shards=kv_shards,
        softmax=softmax,
        split=split,
        reduce=reduce,
        context=context,
        page=page,
    )
    compiled.check("full")
    counts = {
        f"{e} instructions": len(rows)
        for e, rows in zip(("memory", "compute", "network"), compiled.code[0].engines, strict=True)
    }
    found: dict[str, Any] = {
        "tiles": compiled.tiles,
        **counts,
        "store beats a tile": compiled.store_beats_used,
    }
    emit([facts("checked: no fault found", found)], {"ok": True, **found}, as_json)


@app.command()
def packets(
    path: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Where to write the trace.")],
    model: o.Model = "glassllm",
    topology: o.TopologyText = None,
    router: o.RouterText = None,
    arch: o.ArchName = "edge",
    kv_shards: o.KvShards = None,
    softmax: o.Softmax = "exact",
    split: o.Split = "2d",
    reduce: o.Reduce = "direct",
    context: o.Context = None,
    page: o.Page = 16,
    position: Annotated[
        int | None, typer.Option("--position", min=0, help="Of the token; else the last.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Record the packets of a token's decoding, for 'tokenpath traffic --trace'."""
    from tokenpath.files import check_writable, write_atomic
    from tokenpath.pipeline import position_of
    from tokenpath.sim.fast import FastMachine
    from tokenpath.sim.traffic_trace import Trace

    check_writable(path)
    compiled = _compile(
        False,
        model,
        topology=topology,
        router=router,
        arch=arch,
        kv_shards=kv_shards,
        softmax=softmax,
        split=split,
        reduce=reduce,
        context=context,
        page=page,
    )
    last = position_of(compiled, position)
    machine = FastMachine(compiled, values=False, trace=False, record=True)
    step = machine.step(0, last)
    trace = Trace(rows=machine.packets)
    write_atomic(path, trace.csv().encode())
    found = {
        "packets": len(trace.rows),
        "flits": int(trace.rows[:, 3].sum()),
        "position": last,
        "cycles": step.cycles,
    }
    emit([facts(f"{path}: packets of a token", found)], {"file": path, **found}, as_json)


@app.command()
def save(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the program.")],
    model: o.Model = "glassllm",
    topology: o.TopologyText = None,
    router: o.RouterText = None,
    arch: o.ArchName = "edge",
    kv_shards: o.KvShards = None,
    softmax: o.Softmax = "exact",
    split: o.Split = "2d",
    reduce: o.Reduce = "direct",
    context: o.Context = None,
    page: o.Page = 16,
    as_json: AsJson = False,
) -> None:
    """Compile a program with its weights into one file."""
    from tokenpath.files import check_writable

    check_writable(path)
    compiled = _compile(
        True,
        model,
        topology=topology,
        router=router,
        arch=arch,
        kv_shards=kv_shards,
        softmax=softmax,
        split=split,
        reduce=reduce,
        context=context,
        page=page,
    )
    compiled.save(path)
    found = {
        "file": str(path),
        "bytes": path.stat().st_size,
        "arch_fingerprint": compiled.arch.fingerprint,
    }
    emit([facts("saved", found)], found, as_json)
