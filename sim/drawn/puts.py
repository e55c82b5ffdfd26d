"""Puts of a drawn program: words from anywhere to anywhere, but no races."""

from collections import defaultdict
from typing import TYPE_CHECKING

from tokenpath.hw.arch.isa import Engine, Op, PutOp

from .layout import ARRIVED, SLOTS, SUMS
from .places import Area

if TYPE_CHECKING:
    from .writer import Writer

RACING = "sums of several tiles"
"""The corner of words that several tiles add to: how often they wrap depends on the order."""


class Puts:
    """Writes PUTs; ``adders`` are the tiles that add to each place of a tile's inbox."""

    def __init__(self, writer: "Writer") -> None:
        self.writer, self.arch, self.rng = writer, writer.arch, writer.rng
        self.adders: defaultdict[tuple[int, int], set[int]] = defaultdict(set)

    def write(self, tile: int, targets: list[int], words: int) -> None:
        """One PUT with a descriptor for each target."""
        writer, rng, arch = self.writer, self.rng, self.arch
        rows = writer.descriptors[tile]
        op = rng.choice(list(PutOp))
        epoch = self.writer.places[rng.choice(targets)].takes if targets else 0
        known = rng.random() < 0.7 and all(self.writer.places[to].takes == epoch for to in targets)
        wait, base = writer.ready(tile), rng.randint(0, 20)
        aux = len(rows)
        for to in targets:
            source, size = self._source(tile, words)
            target = self._area(tile, to, op, size) if known else self._anywhere(to, op, size)
            if target >= 0:
                self._count_add(op, tile, to, known, target)
                rows.append([to, source - base, size, target - arch.scratch_words])
        sent = rows[aux:]
        semaphore = ARRIVED[epoch] if known else rng.choice([0, *range(1, 3 * SLOTS + 1)])
        self._count_put(tile, sent, op)
        writer.write(
            tile, Engine.NETWORK, Op.PUT, src=writer.operand(tile, base),
            dst=writer.operand(tile, arch.scratch_words), aux=writer.operand(tile, aux),
            m=writer.operand(tile, len(sent)), x=int(op), y=semaphore, **wait,
        )  # fmt: skip
        for to, *_ in sent:
            if known:
                self.writer.places[to].arrivals += 1
            else:
                writer.posted[to, semaphore] += bool(semaphore)

    def _count_add(self, op: PutOp, tile: int, to: int, known: bool, target: int) -> None:
        """Sums of several tiles arrive in any order, and so does what wraps."""
        if op == PutOp.ADD:
            adders = self.adders[to, target if known else 0]
            adders.add(tile)
            self.writer.corners[RACING] += len(adders) > 1

    def _count_put(self, tile: int, sent: list[list[int]], op: PutOp) -> None:
        names = [f"PUT {op.name}"] * len(sent)
        for to, _, words, _ in sent:
            names += ["put over packets"] * (words > self.arch.max_packet_words)
            names += ["put to itself"] * (to == tile) + ["empty put"] * (words == 0)
        self.writer.corners.update(names)
        targets = [to for to, *_ in sent]
        self.writer.corners["back to back to one tile"] += len(set(targets)) < len(targets)

    def _source(self, tile: int, words: int) -> tuple[int, int]:
        """Words that may be sent: where, and how many of those wanted."""
        first, size = self.rng.choice(self.writer.places[tile].sendable)
        words = min(words, size)
        return first + self.rng.randint(0, size - words), words

    def _area(self, tile: int, to: int, op: PutOp, words: int) -> int:
        """Where words go that the receiver will wait for, -1 if there is no room."""
        places = self.writer.places[to]
        for area in places.arriving:
            shared = area.owner < 0 and area.op == op and area.words == words
            if (area.owner == tile or shared) and words <= area.words and self.rng.random() < 0.7:
                self.writer.corners["put upon put"] += 1
                at: int = area.first + self.rng.randint(0, area.words - words)
                return at
        at = places.inbox(words)
        if at >= 0:
            owner = tile if op == PutOp.STORE or self.rng.random() < 0.3 else -1
            places.arriving.append(Area(at, words, op, owner))
        return at

    def _anywhere(self, to: int, op: PutOp, words: int) -> int:
        """Where words go that nobody waits for."""
        if op == PutOp.STORE:
            return self.writer.places[to].inbox(words)
        at = self.rng.randint(0, max(0, SUMS - words)) if words <= SUMS else 0
        return self.arch.scratch_words + at + (SUMS if op == PutOp.MAX else 0)
