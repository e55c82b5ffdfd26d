"""The summary: the keys that are a contract, and tables whose rows add up."""

import io
from dataclasses import dataclass, field
from typing import Any

import pytest
from rich.console import Console

from tokenpath.sw.report import summary


@dataclass
class Step:
    position: int
    best: int
    cycles: int
    ledger: dict[str, int]
    stages: dict[str, dict[str, int]] = field(default_factory=dict)
    saturations: int = 1
    overflows: int = 2


def ledger(*values: int) -> dict[str, int]:
    return dict(zip(summary.LAYERS, values, strict=True))


STEPS = [
    Step(3, 7, 1000, ledger(400, 300, 200, 100), {"0.hidden": ledger(1, 2, 3, 4)}),
    Step(
        *(4, 9, 3000, ledger(1600, 700, 400, 300)),
        {"0.hidden": ledger(2, 0, 0, 0), "1.hidden": ledger(4, 4, 0, 0), "": ledger(0, 0, 0, 2)},
    ),
]
ABOUT: dict[str, Any] = {
    "text": "hi",
    "clock_hz": 10**9,
    "executor": "fast",
    "topology": "mesh:2x2",
    "bounds": {"compute": 11, "memory": 22, "interconnect": 3000},
    "wall_s": 0.5,
}


def cells(table) -> list[list[str]]:
    """What a table shows, row by row."""
    console = Console(file=io.StringIO(), width=200)
    columns = [list(column.cells) for column in table.columns]
    console.print(table)  # it can be printed
    return [list(row) for row in zip(*columns, strict=True)]


def test_the_keys_of_the_contract():
    payload = summary.payload(STEPS, ABOUT, logits_sha256="ab", arch_fingerprint="cd")
    assert payload == {
        "text": "hi",
        "tokens": [7, 9],
        "logits_sha256": "ab",
        "cycles_per_token": [1000, 3000],
        "clock_hz": 10**9,
        "tokens_per_s": 2 / (4000 / 10**9),
        "ledger": [step.ledger for step in STEPS],
        "bounds": ABOUT["bounds"],
        "executor": "fast",
        "topology": "mesh:2x2",
        "arch_fingerprint": "cd",
        "wall_s": 0.5,
        "saturations": 2,
        "overflows": 4,
    }
    for cycles, parts in zip(payload["cycles_per_token"], payload["ledger"], strict=True):
        assert sum(parts.values()) == cycles


def test_an_untimed_run_has_no_cycles_and_a_timed_one_without_values_no_tokens():
    untimed = summary.payload([Step(0, 5, 0, {})], ABOUT)
    assert untimed["cycles_per_token"] is None and untimed["ledger"] is None
    assert (untimed["tokens"], untimed["tokens_per_s"]) == ([5], 0.0)
    assert summary.payload(STEPS, ABOUT | {"values": False})["tokens"] is None


def test_the_ledger_table():
    rows = cells(summary.ledger_table(STEPS, ABOUT, ["a", "b"]))
    assert rows == [
        ["a", "3", "1,000", "400", "300", "200", "100"],
        ["b", "4", "3,000", "1,600", "700", "400", "300"],
        ["mean", "", "2,000", "1,000", "500", "300", "200"],
        ["share", "", "", "50%", "25%", "15%", "10%"],
        ["bound", "", "3,000", "11", "22", "3,000", ""],
    ]


def test_the_stage_table_sums_layers_of_a_kind_and_divides_by_tokens():
    assert cells(summary.stage_table(STEPS)) == [
        ["hidden", "10", *("4", "3", "2", "2")],  # 3.5, 3, 1.5, 2: the rest is rounded
        ["-", "1", *("0", "0", "0", "1")],
    ]


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        (
            STEPS,
            "2 tokens at 500,000 tokens/s (1,000 MHz); "
            "the longest part of the path is compute, 50% of the cycles",
        ),
        (
            [Step(0, 1, 10, ledger(1, 0, 2, 7))] * 2,
            "2 tokens at 100,000,000 tokens/s (1,000 MHz); "
            "the longest part of the path is wait, 70% of the cycles",
        ),
        ([Step(0, 1, 0, {})] * 3, "3 tokens, untimed (fast)"),
    ],
)
def test_the_closing_line(steps, line):
    assert summary.closing_line(steps, ABOUT) == line
