"""Run: what every executor returns for the steps that it executed."""

import hashlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]


@dataclass(kw_only=True)
class Step:
    """One decode step: ``logits`` (vocab,) int32 or None (timing only), the arg max, cycles (0 if untimed).

    ``saturations`` counts clamped summands and words, ``overflows`` the word sums that wrapped.
    """

    position: int
    token: int
    logits: NDArray[np.int32] | None
    best: int
    cycles: int = 0
    saturations: int = 0
    overflows: int = 0
    ledger: dict[str, int] = field(default_factory=dict)


@dataclass(kw_only=True)
class Run:
    """Steps of one executor on one program."""

    executor: str
    arch_fingerprint: str
    steps: list[Step] = field(default_factory=list)

    def logits_sha256(self, first: int = 0) -> str:
        """Hex digest over the little-endian integer logits of the steps from ``first`` on."""
        digest = hashlib.sha256()
        for step in self.steps[first:]:
            if step.logits is not None:
                digest.update(step.logits.astype("<i4").tobytes())
        return digest.hexdigest()
