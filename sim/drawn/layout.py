"""Where a drawn program keeps what in the memories of a tile, and what its semaphores mean."""

from dataclasses import dataclass

from tokenpath.hw.arch.params import Arch

RMS, TABLE, BELOW, MAXIMA, GAINS, WORK = 0, 16, 48, 56, 64, 96
"""First words of: four sets of RMS constants, 16 pairs of cosine and sine, 8 denominators,
8 maxima, 32 gains; behind them what the compute engine works on."""

SUMS = 64
"""Words at the front of the inbox into which anybody adds; as many behind them take maxima."""

SLOTS = 3
"""Semaphores of each engine that carry no data: 1..3, 4..6, 7..9, posted by anybody."""

READY, MOVED, QUANTED, APPENDED = range(10, 14)
"""Semaphores of data: compute's words (network waits), counts that move with the step (compute),
the append buffer filled (memory) and emptied (compute)."""

ARRIVED = range(20, 128)
"""Arrivals (compute waits): another one behind each wait, since a later put may overtake."""


@dataclass(frozen=True)
class Layout:
    """Scratch: constants, ``WORK``, then from ``outgoing`` on words that are written once a step.

    Store: weights, then from ``appended`` on beats that are appended to once a step.
    """

    scratch: int
    outgoing: int
    inbox: int
    end: int
    appended: int
    beats: int

    @classmethod
    def of(cls, arch: Arch) -> "Layout":
        """The layout of a machine with at least 256 words of scratch and inbox, 32 beats."""
        return cls(
            scratch=arch.scratch_words,
            outgoing=arch.scratch_words * 3 // 4,
            inbox=arch.scratch_words + 2 * SUMS,
            end=arch.vector_words,
            appended=arch.store_beats * 3 // 4,
            beats=arch.store_beats,
        )
