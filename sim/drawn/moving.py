"""Registers that change from step to step in a drawn program."""

import random
from typing import Any

from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import StepRule

FIRST = 20
CONTEXT, VOCAB = 6, 12


class Moving:
    """Step rules of a program: registers from FIRST on.

    ``count`` and ``rows`` are registers with their largest value; a count is the same on all tiles.
    """

    def __init__(self, arch: Arch, rng: random.Random) -> None:
        self.rng, self.tiles = rng, arch.tiles
        self.page, self.shards = rng.choice((1, 2)), rng.randint(1, arch.tiles)
        shards = [*range(self.shards), *[-1] * (arch.tiles - self.shards)]
        rng.shuffle(shards)
        self.shards_of = tuple(shards)
        kinds: list[dict[str, Any]] = [
            {"kind": "position_low", "span": rng.randint(2, 3)},
            {"kind": "position_high", "span": rng.randint(2, 3)},
            {"kind": "kv_rows", "span": rng.choice((0, 3))},
            {"kind": "kv_next"},
            {"kind": "kv_append", "scale": rng.randint(1, 3)},
            {"kind": "kv_first", "span": rng.choice((0, 2))},
            {"kind": "token_row", "span": rng.randint(1, 5), "offset": rng.randint(0, 2)},
            {"kind": "token_owner", "span": -(-VOCAB // arch.tiles)},
            {"kind": "token_group", "span": -(-VOCAB // arch.tiles), "span2": 2},
        ]
        self.rules = tuple(StepRule(register=FIRST + k, **kind) for k, kind in enumerate(kinds))
        self.most = {rule.register: self._most(rule) for rule in self.rules}

    def _most(self, rule: StepRule) -> int:
        place = {"shards": self.shards, "page": self.page}
        return max(
            rule.value(position=p, token=t, tile=i, shard=shard, **place)
            for p in range(CONTEXT)
            for t in range(VOCAB)
            for i, shard in enumerate(self.shards_of)
        )

    def count(self) -> tuple[int, int]:
        """A register with a number that all tiles have in common, and its largest value."""
        register = self.rng.choice((FIRST, FIRST + 1, FIRST + 6))
        return register, self.most[register]

    def any(self) -> tuple[int, int]:
        """A register of any rule, and its largest value."""
        register = self.rng.choice(self.rules).register
        return register, self.most[register]

    def fields(self) -> dict[str, Any]:
        """Fields of Program."""
        return {
            "rules": self.rules, "shards_of": self.shards_of, "shards": self.shards,
            "page": self.page, "context": CONTEXT, "vocab": VOCAB,
        }  # fmt: skip
