"""Which words of a tile may be read and written by whom, while a program is being drawn."""

import random
from dataclasses import dataclass, field

from tokenpath.hw.arch.isa import PutOp

from . import layout
from .layout import Layout
from .operations import Place


@dataclass
class Area:
    """Words of an inbox that some puts fill. ``owner``: the only tile that may send, any PutOp;
    -1: any tile may, with ``op``."""

    first: int
    words: int
    op: PutOp
    owner: int


@dataclass
class Places:
    """Of one tile. ``arriving`` areas are being filled, ``known`` places may be read by compute.

    ``sendable`` places may be read by puts once the network engine has waited for what ``pending``
    counts: posts of the compute engine since the last PUT. ``takes`` counts the waits for arrivals.
    """

    layout: Layout
    rng: random.Random
    arriving: list[Area] = field(default_factory=list)
    known: list[Place] = field(default_factory=list)
    sendable: list[Place] = field(default_factory=list)
    pending: int = 0
    arrivals: int = 0
    takes: int = 0

    def __post_init__(self) -> None:
        self._inbox, self._outgoing = self.layout.inbox, self.layout.outgoing
        self._beats = self.layout.appended
        self.rows: list[Place] = []  # beats that are appended
        self.known += [(0, layout.WORK), (layout.WORK, self.layout.outgoing - layout.WORK)] * 2
        self.sendable.append((0, layout.WORK))

    @property
    def work(self) -> range:
        """Words that belong to the compute engine alone."""
        return range(layout.WORK, self.layout.outgoing)

    def target(self, words: int) -> int:
        """Where a compute instruction may write so many words; -1 if nowhere.

        Words behind ``work`` are written once and may be sent.
        """
        if self.rng.random() < 0.1 and 0 < words <= self.layout.scratch - self._outgoing:
            at = self._outgoing
            self._outgoing += words
            self.known.append((at, words))
            return at
        return self.private(words)

    def private(self, words: int) -> int:
        """Where compute may write so many words that aren't sent; -1 if nowhere."""
        room = len(self.work) - words
        return -1 if room < 0 else self.work.start + self.rng.randint(0, room)

    def inbox(self, words: int) -> int:
        """So many words of the inbox that nobody has been given; -1 if there are none."""
        if self._inbox + words > self.layout.end:
            return -1
        self._inbox += words
        return self._inbox - words

    def rows_for(self, beats: int) -> int:
        """So many beats of the store to append to; -1 if there are none."""
        if self._beats + beats > self.layout.beats:
            return -1
        self._beats += beats
        self.rows.append((self._beats - beats, beats))
        return self._beats - beats

    def release(self) -> None:
        """The compute engine has posted to the network engine: what it knows may be sent."""
        self.pending += 1
        self.sendable = [place for place in self.known if place[0] not in self.work]

    def take(self) -> int:
        """The compute engine waits for all arrivals; returns how many there are."""
        self.known += [(area.first, area.words) for area in self.arriving if area.words]
        self.arriving.clear()
        self.takes += 1
        count, self.arrivals = self.arrivals, 0
        return count
