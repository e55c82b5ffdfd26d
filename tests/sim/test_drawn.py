"""Drawn programs are what they claim to be: legal, free of races, deterministic, and wild."""

import random
from collections import Counter
from itertools import takewhile

import pytest

from tokenpath.hw.arch.isa import Engine, Op, PutOp
from tokenpath.sim.drawn import draw_arch, random_program

RANDOM = range(40)


def drawn(seed: int, pieces: int = 0):
    rng = random.Random(seed)
    arch = draw_arch(rng, 1 + seed % 6)
    return random_program(arch, rng, pieces or rng.randint(5, 30) + 6 * arch.tiles)


@pytest.mark.parametrize("seed", RANDOM)
def test_a_drawn_program_passes_the_full_check(seed: int) -> None:
    drawn(seed)[0].check("full")


def test_every_operation_is_drawn() -> None:
    corners: Counter[str] = Counter()
    for seed in RANDOM:
        corners += drawn(seed)[1]
    names = [op.name for op in Op] + [f"PUT {op.name}" for op in PutOp]
    assert min(corners[name] for name in names) >= 10, corners


def test_a_seed_names_a_program() -> None:
    first, again, other = (drawn(seed)[0] for seed in (4, 4, 10))
    assert first.arch == again.arch and first.code == again.code
    assert first.vector_tile.tobytes() == again.vector_tile.tobytes()
    assert other.code != first.code


def test_fewer_pieces_are_the_front_of_the_same_program() -> None:
    whole, front = drawn(3, 30)[0], drawn(3, 10)[0]
    assert front.scales is not None and whole.scales is not None
    assert front.scales.tobytes() == whole.scales.tobytes()
    for engine in Engine:
        short, long = front.instructions(0, engine), whole.instructions(0, engine)
        common = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(short, long, strict=False))
        )
        assert common >= len(short) // 2, engine  # what is behind them closes the program
