"""Who sends what to whom: the put descriptors of each phase of a collective, for all tiles.

Pure functions of an arrangement and a vector's length on each tile, remembered because every
layer of a model asks for the same. ``digits`` are the digits by which the vector is split, the
last one is the line along which the phase moves. A row is (to tile, source offset, words,
target offset); a tile that sends to itself does so last.
"""

from functools import lru_cache
from itertools import product

from .mapping import Arrangement, Span

Descriptor = tuple[int, int, int, int]
Rows = tuple[tuple[Descriptor, ...], ...]
Digits = tuple[int, ...]
Words = tuple[int, ...]


@lru_cache(maxsize=256)
def spans(team: Arrangement, digits: Digits, words: Words) -> tuple[Span, ...]:
    """The interval of its vector that each tile holds."""
    return tuple(team.interval(t, digits, words[t]) for t in range(team.tiles))


@lru_cache(maxsize=256)
def shifted_spans(team: Arrangement, digits: Digits, words: Words, back: int) -> tuple[Span, ...]:
    """The interval of the tile ``back`` places before each tile on its ring along the last
    digit."""
    held, digit = spans(team, digits, words), digits[-1]
    return tuple(
        held[neighbour(team, t, digit, -back)] if t < team.active else (0, 0)
        for t in range(team.tiles)
    )


def neighbour(team: Arrangement, tile: int, digit: int, away: int) -> int:
    """The tile ``away`` places behind ``tile`` on its ring along ``digit``."""
    return team.peer(tile, digit, (team.coordinate(tile, digit) + away) % team.sizes[digit])


def _rows(team: Arrangement, rows: list[list[Descriptor]]) -> Rows:
    return tuple(map(tuple, rows + [[]] * (team.tiles - len(rows))))


@lru_cache(maxsize=256)
def scatter(team: Arrangement, digits: Digits, words: Words, stride: int) -> Rows:
    """Each part of a tile's interval to the tile of its line that sums it; a slot of ``stride``
    words a sender."""
    inner, outer = spans(team, digits, words), spans(team, digits[:-1], words)
    size, digit = team.sizes[digits[-1]], digits[-1]
    rows: list[list[Descriptor]] = []
    for tile in range(team.active):
        peers = [neighbour(team, tile, digit, away) for away in range(1, size)]
        rows.append(
            [
                (to, inner[to][0] - outer[tile][0], inner[to][1] - inner[to][0], slot * stride)
                for slot, to in zip(range(size - 2, -1, -1), peers, strict=True)
            ]
        )
    return _rows(team, rows)


@lru_cache(maxsize=256)
def gather(team: Arrangement, digits: Digits, words: Words, first: bool) -> Rows:
    """A tile's interval to its line; the ``first`` gather reads it from its own buffer and
    sends to itself, too."""
    held, digit = spans(team, digits, words), digits[-1]
    size = team.sizes[digit]
    rows: list[list[Descriptor]] = []
    for tile in range(team.active):
        low, high = held[tile]
        source = 0 if first else low
        peers = (neighbour(team, tile, digit, away) for away in range(1, size + first))
        rows.append([(to, source, high - low, low) for to in peers])
    return _rows(team, rows)


@lru_cache(maxsize=1024)
def ring_scatter(team: Arrangement, digits: Digits, words: Words, step: int) -> Rows:
    """Step of a ring reduce-scatter: a part to the successor, in the first step out of the own
    interval."""
    sent, outer = shifted_spans(team, digits, words, 1 + step), spans(team, digits[:-1], words)
    return _rows(
        team,
        [
            [
                (
                    neighbour(team, t, digits[-1], 1),
                    0 if step else sent[t][0] - outer[t][0],
                    sent[t][1] - sent[t][0],
                    0,
                )
            ]
            for t in range(team.active)
        ],
    )


@lru_cache(maxsize=1024)
def ring_gather(team: Arrangement, digits: Digits, words: Words, step: int) -> Rows:
    """Step of a ring all-gather: what came in the step before, to the successor."""
    sent = shifted_spans(team, digits, words, step)
    return _rows(
        team,
        [
            [(neighbour(team, t, digits[-1], 1), sent[t][0], sent[t][1] - sent[t][0], sent[t][0])]
            for t in range(team.active)
        ],
    )


@lru_cache(maxsize=256)
def to_self(team: Arrangement, digits: Digits, words: Words) -> Rows:
    """A tile's interval into its own vector."""
    held = spans(team, digits, words)
    return _rows(team, [[(t, 0, held[t][1] - held[t][0], held[t][0])] for t in range(team.active)])


@lru_cache(maxsize=256)
def one_shot(
    team: Arrangement, reduce: Digits, segments: Digits, words: Words, spread: bool
) -> Rows:
    """A tile's interval to all tiles of its lines, and to the idle ones; a slot for each
    summand."""
    held, stride = spans(team, segments, words), max(words)
    idle = list(range(team.active, team.tiles)) if spread else []
    rows: list[list[Descriptor]] = []
    for tile in range(team.active):
        low, high = held[tile]
        at = _mixed(team, tile, reduce) * stride + low
        peers = [*_line(team, tile, segments + reduce), *idle]
        own = peers.index(tile)
        rows.append([(to, 0, high - low, at) for to in [*peers[own + 1 :], *peers[: own + 1]]])
    return _rows(team, rows)


@lru_cache(maxsize=256)
def exchange(team: Arrangement, digit: int, words: int) -> Rows:
    """Whole vectors between all tiles of a line, a slot for each sender."""
    return _rows(
        team,
        [
            [
                (neighbour(team, t, digit, away), 0, words, team.coordinate(t, digit) * words)
                for away in range(1, team.sizes[digit] + 1)
            ]
            for t in range(team.active)
        ],
    )


@lru_cache(maxsize=256)
def spread(team: Arrangement, words: int) -> Rows:
    """The finished vector to the idle tiles, from the team's tiles in turn."""
    rows: list[list[Descriptor]] = [[] for _ in range(team.active)]
    for idle in range(team.active, team.tiles):
        rows[idle % team.active].append((idle, 0, words, 0))
    return _rows(team, rows)


def _mixed(team: Arrangement, tile: int, digits: Digits) -> int:
    """Number of a tile among those that differ in ``digits``."""
    value, weight = 0, 1
    for digit in digits:
        value += team.coordinate(tile, digit) * weight
        weight *= team.sizes[digit]
    return value


def _line(team: Arrangement, tile: int, digits: Digits) -> list[int]:
    """The tiles that agree with ``tile`` in all digits but ``digits``."""
    line = []
    for values in product(*(range(team.sizes[d]) for d in digits)):
        to = tile
        for digit, value in zip(digits, values, strict=True):
            to = team.peer(to, digit, value)
        line.append(to)
    return sorted(line)
