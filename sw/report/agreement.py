"""Agreement of integer logits with the fp32 model, teacher-forced."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from tokenpath.sw.model.reference import Reference


def negative_log_likelihood(logits: NDArray[np.floating], token: int) -> float:
    """-ln softmax(logits)[token]."""
    logits = np.asarray(logits, np.float64)
    top = logits.max()
    return float(top + np.log(np.exp(logits - top).sum()) - logits[token])


def compare(
    reference: Reference,
    prompt: Sequence[int],
    wanted: Sequence[int],
    logits: Sequence[NDArray[np.int32] | None],
    frac: int,
) -> dict[str, Any]:
    """Both arg maxes and the NLL of each wanted token under both; ``logits[i]`` are integers
    with ``frac`` fraction bits.

    ``agreement`` at a position is whether the machine's arg max equals fp32's.
    """
    reference.reset()
    feed = [*prompt, *wanted[:-1]]
    exact = [reference.step(token) for token in feed][len(prompt) - 1 :]
    machine = [np.asarray(row, np.float64) / 2**frac for row in logits if row is not None]
    argmax = [int(row.argmax()) for row in machine]
    argmax_fp32 = [int(row.argmax()) for row in exact]
    nll = [negative_log_likelihood(row, token) for row, token in zip(machine, wanted, strict=True)]
    nll_fp32 = [
        negative_log_likelihood(row, token) for row, token in zip(exact, wanted, strict=True)
    ]
    agreement = [a == b for a, b in zip(argmax, argmax_fp32, strict=True)]
    return {
        "argmax": argmax,
        "argmax_fp32": argmax_fp32,
        "agreement": agreement,
        "agreement_mean": sum(agreement) / len(agreement),
        "reference_ids": list(wanted),
        "nll": nll,
        "nll_fp32": nll_fp32,
        "nll_mean": float(np.mean(nll)),
        "nll_fp32_mean": float(np.mean(nll_fp32)),
    }


def table(result: dict[str, Any]) -> Table:
    """One row a position."""
    shown = Table("position", "fed next", "arg max", "fp32", "equal", "NLL", "NLL fp32")
    for index, wanted in enumerate(result["reference_ids"]):
        shown.add_row(
            str(index),
            str(wanted),
            str(result["argmax"][index]),
            str(result["argmax_fp32"][index]),
            "yes" if result["agreement"][index] else "no",
            f"{result['nll'][index]:.4f}",
            f"{result['nll_fp32'][index]:.4f}",
        )
    return shown


def line(result: dict[str, Any]) -> str:
    """The figures in one line."""
    count = len(result["agreement"])
    return (
        f"arg max equal at {sum(result['agreement'])} of {count} positions; mean NLL "
        f"{result['nll_mean']:.4f}, "
        f"fp32 {result['nll_fp32_mean']:.4f}"
    )
