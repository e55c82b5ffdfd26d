"""Who sends what to whom: each phase covers each vector once."""

import pytest

from tokenpath.sw import routes
from tokenpath.sw.mapping import Arrangement

TEAM = Arrangement(tiles=14, member_digits=(3,), group_digits=(2, 2))  # 12 in use, 2 idle


def covered(words: list[tuple[int, int]], total: int) -> bool:
    """Whether (first, count) pairs cover 0..total-1 once each."""
    return sorted(p for first, count in words for p in range(first, first + count)) == [
        *range(total)
    ]


@pytest.mark.parametrize("words", [1, 7, 24])
def test_a_scatter_sends_every_word_of_an_interval_but_its_own(words: int) -> None:
    length = (words,) * TEAM.tiles
    digits = (0, 1)
    inner, outer = routes.spans(TEAM, digits, length), routes.spans(TEAM, digits[:-1], length)
    for tile, row in enumerate(routes.scatter(TEAM, digits, length, stride=9)[: TEAM.active]):
        base = outer[tile][0]
        sent = [(base + source, count) for _, source, count, _ in row]
        low, high = inner[tile]
        mine = [(low, high - low)]
        whole = [(p - base, n) for p, n in sent + mine]
        assert covered(whole, outer[tile][1] - base)
        assert all(tile not in (to,) for to, *_ in row)


def test_no_two_senders_of_a_scatter_share_a_slot() -> None:
    rows = routes.scatter(TEAM, (0, 1, 2), (24,) * TEAM.tiles, stride=2)
    slots = [(to, target) for row in rows for to, _, _, target in row]
    assert len(slots) == len(set(slots))


@pytest.mark.parametrize("words", [5, 24])
def test_gathers_in_reverse_fill_the_vector_of_every_tile(words: int) -> None:
    length, order = (words,) * TEAM.tiles, (0, 1, 2)
    have = [set() for _ in range(TEAM.tiles)]  # type: list[set[int]]
    for left in range(len(order), 0, -1):
        first = left == len(order)
        before = [set(h) for h in have]
        for tile, row in enumerate(routes.gather(TEAM, order[:left], length, first)):
            assert not row or row[-1][0] == tile or not first, "to itself last"
            for to, source, count, target in row:
                span = set(range(target, target + count))
                assert first or (source == target and span <= before[tile])
                have[to] |= span
    assert all(h == set(range(words)) for h in have[: TEAM.active])
    assert not any(have[TEAM.active :])


def test_rings_pass_every_part_on() -> None:
    length, digits = (12,) * TEAM.tiles, (0,)
    size = TEAM.sizes[0]
    have = [set(range(*routes.spans(TEAM, digits, length)[t])) for t in range(TEAM.active)]
    for step in range(size - 1):
        before = [set(h) for h in have]
        for tile, row in enumerate(routes.ring_gather(TEAM, digits, length, step)[: TEAM.active]):
            ((to, source, count, target),) = row
            assert source == target and set(range(source, source + count)) <= before[tile]
            assert to == routes.neighbour(TEAM, tile, 0, 1)
            have[to] |= set(range(target, target + count))
    assert all(h == set(range(12)) for h in have)
    assert routes.shifted_spans(TEAM, digits, length, size) == routes.spans(TEAM, digits, length), (
        "the ring ends where it began"
    )


def test_one_shot_reaches_the_lines_and_the_idle_tiles_and_itself_last() -> None:
    rows = routes.one_shot(TEAM, (1, 2), (0,), (9,) * TEAM.tiles, spread=True)
    for tile, row in enumerate(rows[: TEAM.active]):
        assert sorted(to for to, *_ in row) == [*range(TEAM.tiles)]
        assert row[-1][0] == tile
    targets = [(to, p) for row in rows for to, _, n, at in row for p in range(at, at + n)]
    assert len(targets) == len(set(targets)) == TEAM.tiles * 9 * 4


def test_the_idle_tiles_are_served_in_turn() -> None:
    rows = routes.spread(TEAM, 9)
    assert [(tile, to) for tile, row in enumerate(rows) for to, *_ in row] == [(0, 12), (1, 13)]
