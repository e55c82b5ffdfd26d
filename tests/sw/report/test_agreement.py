"""Agreement with fp32: integer logits that are fp32's own agree, others don't."""

import io
import math

import numpy as np
import pytest
from rich.console import Console
from synthetic import small_model

from tokenpath.sw.model.reference import Reference
from tokenpath.sw.report import agreement

PROMPT, WANTED, FRAC = [3, 1, 4], [1, 5, 9, 2], 16


def fp32() -> list[np.ndarray]:
    """Logits behind the prompt and each wanted token but the last."""
    reference = Reference(small_model())
    rows = [reference.step(token) for token in [*PROMPT, *WANTED[:-1]]]
    return rows[len(PROMPT) - 1 :]


def integers() -> list[np.ndarray]:
    return [np.rint(row * 2**FRAC).astype(np.int32) for row in fp32()]


def compared(logits) -> dict:
    reference = Reference(small_model())
    reference.step(7)  # what it has seen before doesn't matter
    return agreement.compare(reference, PROMPT, WANTED, logits, FRAC)


@pytest.mark.parametrize("offset", [0.0, 1e4, -1e4])
def test_negative_log_likelihood(offset):
    logits = np.log([0.5, 0.25, 0.25]) + offset
    assert agreement.negative_log_likelihood(logits, 0) == pytest.approx(math.log(2))
    assert agreement.negative_log_likelihood(logits, 2) == pytest.approx(math.log(4))


def test_the_reference_agrees_with_itself():
    result = compared(integers())
    wanted = [row.argmax() for row in fp32()]
    assert result["argmax"] == result["argmax_fp32"] == wanted
    assert result["agreement"] == [True] * 4 and result["agreement_mean"] == 1.0
    assert result["nll"] == pytest.approx(result["nll_fp32"], abs=1e-4)
    exact = [
        -math.log(np.exp(row.astype(float))[token] / np.exp(row.astype(float)).sum())
        for row, token in zip(fp32(), WANTED, strict=True)
    ]
    assert result["nll_fp32"] == pytest.approx(exact, abs=1e-5)
    assert result["nll_fp32_mean"] == pytest.approx(sum(exact) / 4, abs=1e-5)
    assert result["reference_ids"] == WANTED


def test_another_arg_max_is_seen_where_it_is():
    logits = integers()
    logits[2][17] = 9 << FRAC
    result = compared(logits)
    assert result["agreement"] == [True, True, False, True]
    assert (result["agreement_mean"], result["argmax"][2]) == (0.75, 17)
    assert result["nll"][2] > result["nll_fp32"][2] + 1
    assert result["nll_mean"] == pytest.approx(np.mean(result["nll"]))


def test_missing_logits_are_no_agreement():
    with pytest.raises(ValueError):
        compared(integers()[:-1])
    with pytest.raises(ValueError):
        compared([*integers()[:-1], None])


def test_the_table_and_the_line():
    logits = integers()
    logits[1] = np.roll(logits[1], 1)
    result = compared(logits)
    table = agreement.table(result)
    Console(file=io.StringIO()).print(table)
    columns = [list(column.cells) for column in table.columns]
    assert columns[:2] == [["0", "1", "2", "3"], ["1", "5", "9", "2"]]
    assert columns[2] == [str(token) for token in result["argmax"]]
    assert columns[3] == [str(token) for token in result["argmax_fp32"]]
    assert columns[4] == ["yes", "no", "yes", "yes"]
    assert columns[5] == [f"{value:.4f}" for value in result["nll"]]
    assert columns[6] == [f"{value:.4f}" for value in result["nll_fp32"]]
    assert agreement.line(result) == (
        f"arg max equal at 3 of 4 positions; mean NLL {result['nll_mean']:.4f}, "
        f"fp32 {result['nll_fp32_mean']:.4f}"
    )
