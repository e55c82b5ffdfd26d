"""Drawn programs are what they claim to be: legal, free of races, deterministic, and wild."""

import random
from collections import Counter
from itertools import takewhile

import numpy as np
import pytest

from tokenpath.hw.arch.isa import Engine, Op, PutOp
from tokenpath.hw.arch.topology import Topology
from tokenpath.sim.drawn import draw_arch, random_program
from tokenpath.sim.drawn.packets import FLITS, LONGEST, SHAPES, draw_packets

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


def packets(shape: str, seed: int, text: str = "mesh:3x2") -> np.ndarray:
    return draw_packets(np.random.default_rng(seed), shape, Topology.parse(text)).rows


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("text", ["line:1", "mesh:3x3", "switch:4"])
def test_drawn_packets_are_in_order_of_time_and_inside_their_bounds(shape: str, text: str) -> None:
    tiles = Topology.parse(text).tiles
    for seed in range(20):
        rows = packets(shape, seed, text)
        assert (rows >= 0).all() and (rows[:, 1:3] < tiles).all()
        assert (np.diff(rows[:, 0]) >= 0).all() and (rows[:, 3] >= 1).all()
        assert (rows[:, 3] <= LONGEST).all()
        assert 5 <= rows[:, 3].sum() <= 4 * FLITS * (tiles + 1)
        assert (packets(shape, seed, text) == rows).all()


def test_shapes_are_what_they_are_called() -> None:
    tiles = 6
    for seed in range(20):
        assert len(set(packets("hot", seed)[:, 2])) == 1
        flood = packets("flood", seed)
        assert (flood[:, 3] == 1).all() and (flood[:, 0] == np.arange(len(flood)) // tiles).all()
        assert sorted(flood[:tiles, 1]) == list(range(tiles)), "all in each cycle"
        trains = packets("trains", seed)
        assert (trains[:, 3] == LONGEST).all() and not trains[:, 0].any()
        pairs = {tuple(pair) for pair in packets("permutation", seed)[:, 1:3]}
        assert len(pairs) <= tiles
        assert len({tuple(row) for row in packets("one against all", seed) if row[3] == 1}) > 5
    spots = [np.bincount(packets("two hot", seed)[:, 2], minlength=tiles) for seed in range(20)]
    assert np.mean([np.sort(each)[-2:].sum() / each.sum() for each in spots]) > 0.85
    bursts = [np.unique(packets("bursts", seed)[:, 0]) for seed in range(20)]
    assert all(len(np.unique(np.diff(cycles))) <= 1 for cycles in bursts)
    assert max(np.diff(cycles).max(initial=0) for cycles in bursts) > 40
    lengths = {n for seed in range(40) for n in packets("uniform", seed)[:, 3].tolist()}
    assert lengths == set(range(1, LONGEST + 1))
