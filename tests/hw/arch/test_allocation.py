"""Allocators: matchings, their quality and their fairness."""

import random

import pytest

from tokenpath.hw.arch.allocation import Allocator, Arbiter

KINDS = [("input_first", 1), ("output_first", 1), ("output_first", 3), ("wavefront", 1)]


def drawn(rng: random.Random, ports: int, vcs: int) -> list[tuple[int, int, int]]:
    return [
        (i, vc, rng.randrange(ports))
        for i in range(ports)
        for vc in range(vcs)
        if rng.random() < 0.6
    ]


@pytest.mark.parametrize("arbiter", ["round_robin", "matrix"])
@pytest.mark.parametrize(("kind", "iterations"), KINDS)
def test_grants_are_a_matching_of_requests(kind: str, iterations: int, arbiter: str) -> None:
    rng, router = (
        random.Random(1),
        Allocator(ports=5, vcs=3, kind=kind, iterations=iterations, arbiter=arbiter),
    )
    for _ in range(300):
        requests = drawn(rng, 5, 3)
        granted = router.cycle(requests)
        assert set(granted) <= set(requests)
        assert len({i for i, _, _ in granted}) == len({o for _, _, o in granted}) == len(granted)
        assert bool(granted) == bool(requests)


def test_a_wavefront_leaves_no_pair_that_could_go_too() -> None:
    rng, router = random.Random(2), Allocator(ports=4, vcs=2, kind="wavefront")
    for _ in range(300):
        requests = drawn(rng, 4, 2)
        granted = router.cycle(requests)
        inputs, outputs = {i for i, _, _ in granted}, {o for _, _, o in granted}
        assert all(i in inputs or o in outputs for i, _, o in requests)


def test_more_iterations_match_more() -> None:
    total = []
    for iterations in (1, 2, 3):
        rng = random.Random(3)
        router = Allocator(ports=6, vcs=4, kind="output_first", iterations=iterations)
        total.append(sum(len(router.cycle(drawn(rng, 6, 4))) for _ in range(500)))
    assert total[0] < total[1] < total[2]


def test_islip_leaves_outputs_unsynchronised_under_full_load() -> None:
    """With all pairs asked for all the time, iSLIP serves every output in every cycle in the end
    (McKeown 1999)."""
    router = Allocator(ports=4, vcs=4, kind="output_first")
    everything = [(i, o, o) for i in range(4) for o in range(4)]
    for _ in range(20):
        granted = router.cycle(everything)
    assert len(granted) == 4


@pytest.mark.parametrize("arbiter", ["round_robin", "matrix"])
@pytest.mark.parametrize(("kind", "iterations"), KINDS)
def test_everyone_is_served(kind: str, iterations: int, arbiter: str) -> None:
    router = Allocator(ports=3, vcs=2, kind=kind, iterations=iterations, arbiter=arbiter)
    left = {(i, vc, (i + vc) % 3): 0 for i in range(3) for vc in range(2)}
    for cycle in range(60):
        for one in router.cycle(left):
            assert cycle - left[one] <= 12
            left[one] = cycle
    assert min(left.values()) > 45


def test_round_robin_and_matrix_differ() -> None:
    robin, matrix = Arbiter(3, "round_robin"), Arbiter(3, "matrix")
    for one in (robin, matrix):
        one.serve(1)
    assert robin.pick([0, 2]) == 2 and matrix.pick([0, 2]) == 0
    assert robin.pick([0, 1]) == 0 and matrix.pick([0, 1]) == 0
