"""One prompt, one model, many machines: with exact softmax the logits are the same bits.

Serving systems don't have that: how the KV cache is split changes their tokens.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from synthetic import small_model

from tokenpath.hw.arch.params import PRESETS, Format
from tokenpath.hw.arch.program import Program
from tokenpath.sim import golden
from tokenpath.sim.run import Run
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import plan

TINY = PRESETS["tiny"]
SPEC = small_model(seed=3, windows=(5, None))
PROMPT, TOKENS = [7, 2, 11, 0, 18], 4  # eight positions, so that each of 8 shards has a row


@dataclass(frozen=True)
class Place:
    """A machine and how the model lies on it; ``order`` draws the order of the engines."""

    topology: str
    shards: int | None
    split: str = "2d"
    reduce: str = "direct"
    page: int = 1
    order: int | None = None
    softmax: str = "exact"
    act_bits: int = 8

    def __str__(self) -> str:
        return "-".join(str(value) for value in vars(self).values())

    def program(self) -> Program:
        numbers = replace(TINY.numeric, act=Format(bits=self.act_bits))
        arch = replace(TINY, numeric=numbers).on(self.topology)
        mapping = plan(
            SPEC.shape,
            arch,
            kv_shards=self.shards,
            split=self.split,
            reduce=self.reduce,
            page=self.page,
            softmax=self.softmax,
        )
        return lower(mapping, SPEC)

    def run(self) -> Run:
        return golden.run(self.program(), PROMPT, TOKENS, seed=self.order)


PLACES = [
    Place("mesh:2x1", 1, "input", "oneshot", 2, 1),
    Place("mesh:2x1", 2, "output", "ring", 1, 2),
    Place("mesh:2x2", 1, "2d", "direct", 1, 3),
    Place("mesh:2x2", 2, "input", "ring", 2, 4),
    Place("mesh:2x2", 4, "output", "oneshot", 1),
    Place("mesh:3x2", 3, "2d", "ring", 1, 5),
    Place("mesh:4x2", 8, "2d", "direct", 1, 6),
    Place("mesh:4x4", 8, "output", "direct", 1),
    Place("torus:2x2", 2, "2d", "oneshot", 1, 7),
    Place("torus:3x3", 4, "input", "direct", 2, 8),
    Place("torus:4x2", 4, "output", "ring", 1, 9),
    Place("torus:4x2", 8, "input", "oneshot", 1),
    Place("torus:2x2x2", 2, "2d", "ring", 2, 10),
    Place("flat:2", 2, "2d", "oneshot", 2, 11),
    Place("flat:3", 1, "output", "direct", 1, 12),
    Place("flat:5", 4, "input", "ring", 1, 13),
    Place("flat:6", None, "2d", "direct", 2, 14),
    Place("flat:8", 8, "2d", "oneshot", 1, 15),
    Place("switch:7", 2, "output", "oneshot", 1, 16),
    Place("tiered:2x2", 1, "output", "ring", 1, 17),
    Place("tiered:2x2", 4, "2d", "oneshot", 2, 18),
    Place("tiered:2x2x2", 4, "input", "direct", 1, 19),
    Place("tiered:2x2x2", 8, "output", "direct", 1, 20),
    Place("tiered:4x2", 2, "input", "oneshot", 2),
    Place("line2@die,full3@board", 2, "2d", "direct", 2, 21),
    Place("line2@die,ring4@rack", 8, "2d", "ring", 1, 22),
]


@cache
def alone() -> Run:
    return Place("mesh:1x1", 1).run()


def test_there_are_enough_places():
    kinds = {place.topology.partition(":")[0] for place in PLACES}
    assert len(set(PLACES)) >= 24 and kinds >= {"mesh", "torus", "flat", "tiered"}
    assert {place.shards for place in PLACES} >= {1, 2, 4, 8}
    assert {place.split for place in PLACES} == {"2d", "input", "output"}
    assert {place.reduce for place in PLACES} == {"direct", "ring", "oneshot"}
    assert len({place.order for place in PLACES}) >= 20


def test_the_logits_say_something():
    rows = np.stack([step.logits for step in alone().generated])
    assert len(set(alone().tokens)) > 1 and rows.std(axis=0).min() > 1000


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_exact_softmax_gives_the_same_bits_everywhere(place):
    run = place.run()
    assert run.tokens == alone().tokens
    assert run.logits_sha256() == alone().logits_sha256()


@pytest.mark.parametrize(
    "place",
    [
        Place("mesh:2x2", 4, softmax="merge"),
        Place("torus:4x2", 8, "input", "ring", 2, 1, "merge"),
        Place("flat:3", 3, "output", "oneshot", 1, 2, "merge"),
    ],
    ids=str,
)
def test_the_merge_finish_comes_close(place):
    for step, exact in zip(place.run().generated, alone().generated, strict=True):
        wanted = exact.logits.astype(float)
        assert np.linalg.norm(step.logits - wanted) < 0.05 * np.linalg.norm(wanted)


def test_the_merge_finish_is_not_order_free():
    """Otherwise the exact one would be for nothing; 16 bits, for its shifts to be seen."""

    def logits(softmax):
        places = [Place("flat:4", n, softmax=softmax, act_bits=16) for n in (1, 4)]
        return [place.run().logits_sha256() for place in places]

    assert len(set(logits("merge"))) > 1
    assert len(set(logits("exact"))) == 1


def test_the_merge_finish_has_no_order_of_engines():
    eager, random = (
        Place("mesh:2x2", 4, order=order, softmax="merge").run() for order in (None, 1)
    )
    assert eager.logits_sha256() == random.logits_sha256()


@pytest.mark.parametrize("place", [*PLACES[3:20:6], Place("flat:4", 4, softmax="merge")], ids=str)
def test_the_programs_are_free_of_races(place):
    place.program().check("full", [(0, 3), (7, 18)])
