"""``tokenpath evaluate``: the integer machine beside fp32."""

import time
from typing import Annotated, Any

import typer

from tokenpath.commands import new_app
from tokenpath.commands import options as o
from tokenpath.console import AsJson, emit, progress
from tokenpath.hw.arch.errors import InputError

app = new_app()


@app.command()
def evaluate(
    prompt_ids: Annotated[
        str, typer.Option("--prompt-ids", metavar="I,I,...", help="Token ids of the prompt.")
    ],
    reference_ids: Annotated[
        str,
        typer.Option(
            "--reference-ids", metavar="I,I,...", help="Token ids that follow it; they are fed."
        ),
    ],
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
    executor: o.Executor = "fast",
    as_json: AsJson = False,
) -> None:
    """Feed a prompt and the tokens that follow it; compare each arg max and its likelihood with
    fp32's."""
    from tokenpath import pipeline
    from tokenpath.sim.run import Run, drive
    from tokenpath.sw.model.reference import Reference
    from tokenpath.sw.report import agreement

    prompt, wanted = (
        o.token_ids(prompt_ids, "--prompt-ids"),
        o.token_ids(reference_ids, "--reference-ids"),
    )
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
    )
    started = time.monotonic()
    job = pipeline.prepare(options, prompt=_operator(job_prompt=prompt))
    for token in [*prompt, *wanted]:
        if token >= job.spec.shape.vocab:
            raise InputError(
                f"token id {token} is outside the vocabulary 0..{job.spec.shape.vocab - 1}"
            )
    if len(prompt) + len(wanted) - 1 > job.mapping.context:
        raise InputError(
            f"{len(prompt)} + {len(wanted)} tokens don't fit a context of "
            f"{job.mapping.context}; give fewer"
        )
    machine = pipeline.start(job.program, executor)
    run = Run(executor=executor, arch_fingerprint=job.arch.fingerprint, prompt=prompt)
    with progress("evaluating", len(prompt) + len(wanted) - 1) as advance:
        drive(machine, run, len(wanted), forced=wanted[:-1], on_step=lambda _: advance(1))
    logits = [step.logits for step in run.generated]
    result = agreement.compare(
        Reference(job.spec), prompt, wanted, logits, job.arch.numeric.act_frac
    )
    about = pipeline.about(
        job, options, executor=executor, wall_s=round(time.monotonic() - started, 3)
    )
    more: dict[str, Any] = {
        "logits_sha256": run.logits_sha256(),
        "arch_fingerprint": run.arch_fingerprint,
        "saturations": sum(step.saturations for step in run.steps),
        "overflows": sum(step.overflows for step in run.steps),
    }
    emit([agreement.table(result), agreement.line(result)], result | about | more, as_json)


def _operator(job_prompt: list[int]) -> str | None:
    """Text of mathformer's ids, so that its family can pick the operator; None for other
    models."""
    signs = {14: "+", 15: "-", 16: "*", 17: "/"}
    return next((f"0{signs[i]}0=" for i in job_prompt if i in signs), None)
