"""The summary of a run: its JSON object, and tables of where each token's cycles went."""

from collections.abc import Sequence
from typing import Any, Protocol

from rich.table import Table

LAYERS = ("compute", "memory", "interconnect", "wait")
"""Columns of the ledger; they sum to a token's cycles."""


class StepLike(Protocol):
    """What a summary needs of one step of a run."""

    position: int
    best: int
    cycles: int
    saturations: int
    overflows: int
    ledger: dict[str, int]
    stages: dict[str, dict[str, int]]


def tokens_per_s(steps: Sequence[StepLike], clock_hz: int) -> float:
    """Generated tokens a second at the clock; 0 for an untimed run."""
    cycles = sum(step.cycles for step in steps)
    return clock_hz * len(steps) / cycles if cycles else 0.0


def payload(steps: Sequence[StepLike], about: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The JSON object of a run; ``steps`` are the generating ones."""
    timed = any(step.cycles for step in steps)
    return {
        "text": about.get("text"),
        "tokens": [step.best for step in steps] if about.get("values", True) else None,
        "cycles_per_token": [step.cycles for step in steps] if timed else None,
        "clock_hz": about["clock_hz"],
        "tokens_per_s": tokens_per_s(steps, about["clock_hz"]),
        "ledger": [{name: step.ledger.get(name, 0) for name in LAYERS} for step in steps]
        if timed
        else None,
        "saturations": sum(step.saturations for step in steps),
        "overflows": sum(step.overflows for step in steps),
        **{k: v for k, v in about.items() if k not in ("text", "clock_hz")},
        **more,
    }


def ledger_table(steps: Sequence[StepLike], about: dict[str, Any], names: Sequence[str]) -> Table:
    """One row a token: its cycles by layer; below, the mean and the lower bound of each
    layer."""
    table = Table(title="Where the cycles of each token went", title_justify="left")
    for column in ("token", "position", "cycles", *LAYERS):
        table.add_column(column, justify="left" if column == "token" else "right")
    for step, name in zip(steps, names, strict=True):
        table.add_row(name, str(step.position), *(f"{v:,}" for v in _row(step)))
    table.add_section()
    count = len(steps)
    means = [sum(column) / count for column in zip(*(_row(step) for step in steps), strict=True)]
    table.add_row("mean", "", *(f"{value:,.0f}" for value in means))
    table.add_row("share", "", "", *(f"{value / max(1, means[0]):.0%}" for value in means[1:]))
    bounds = about.get("bounds", {})
    table.add_row(
        "bound",
        "",
        f"{max(bounds.values(), default=0):,}",
        *(f"{bounds.get(n, 0):,}" for n in LAYERS[:3]),
        "",
    )
    return table


def _row(step: StepLike) -> list[int]:
    return [step.cycles, *(step.ledger.get(name, 0) for name in LAYERS)]


def stage_table(steps: Sequence[StepLike]) -> Table:
    """Mean cycles of a token by stage of the model; the layers of one kind are summed."""
    sums: dict[str, dict[str, float]] = {}
    for step in steps:
        for label, parts in step.stages.items():
            into = sums.setdefault(label.split(".")[-1], dict.fromkeys(LAYERS, 0.0))
            for name in LAYERS:
                into[name] += parts.get(name, 0) / len(steps)
    table = Table(title="By stage of the model, mean of a token", title_justify="left")
    for column in ("stage", "cycles", *LAYERS):
        table.add_column(column, justify="left" if column == "stage" else "right")
    for label, means in sums.items():
        cells = (f"{means[name]:,.0f}" for name in LAYERS)
        table.add_row(label or "-", f"{sum(means.values()):,.0f}", *cells)
    return table


def _tokens(steps: Sequence[StepLike]) -> str:
    return f"{len(steps)} token" + ("s" if len(steps) != 1 else "")


def closing_line(steps: Sequence[StepLike], about: dict[str, Any]) -> str:
    """Tokens a second and what limits them, in a sentence."""
    clock, rate = about["clock_hz"], tokens_per_s(steps, about["clock_hz"])
    if not rate:
        return f"{_tokens(steps)}, untimed ({about['executor']})"
    sums = {name: sum(step.ledger.get(name, 0) for step in steps) for name in LAYERS}
    most = max(sums, key=lambda name: sums[name])
    share = sums[most] / max(1, sum(sums.values()))
    return (
        f"{_tokens(steps)} at {rate:,.0f} tokens/s ({clock / 1e6:,.0f} MHz); "
        f"the longest part of the path is {most}, {share:.0%} of the cycles"
    )
