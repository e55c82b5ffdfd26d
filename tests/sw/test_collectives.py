"""Collectives on their own: known vectors in, exact sums on every tile, in any order of engines."""

from collections.abc import Callable
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenpath.hw.arch.isa import REGISTERS, Op
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.program import Code, Program
from tokenpath.sim.golden import Machine
from tokenpath.sw.collectives import Collective
from tokenpath.sw.emit import Emitter
from tokenpath.sw.mapping import REDUCES, Arrangement

TINY = PRESETS["tiny"]
ROUNDS = 3  # as many as show that buffers of two parities are enough


class Bench:
    """Emits collectives on one team, one round after the other, and runs them."""

    def __init__(self, members: tuple[int, ...], groups: tuple[int, ...], idle: int = 0) -> None:
        tiles = prod(members) * prod(groups) + idle
        self.team = Arrangement(tiles=tiles, member_digits=members, group_digits=groups)
        self.arch = TINY.on(f"flat:{tiles}")
        self.emitter = Emitter(self.arch)
        self.words: list[np.ndarray] = []
        self.places: dict[str, int] = {}
        self.sources: list[int] = []

    def give(self, vectors: np.ndarray) -> int:
        """Address of constants, a row for each tile."""
        self.words.append(vectors)
        return self.emitter.scratch(vectors.shape[1])

    def collective(self, turn: int) -> Collective:
        return Collective(self.emitter, self.team, "test", turn % 2, self.places)

    def meet(self, turn: int, at: int) -> None:
        """A sum over all tiles, behind which no tile is a round ahead; so do the hidden layers
        between two attention layers, of which idle tiles get the result only."""
        everybody = Arrangement(
            tiles=self.team.tiles, member_digits=(), group_digits=(self.team.tiles,)
        )
        collective = Collective(self.emitter, everybody, "meet", turn % 2, self.places)
        ones = [1] * self.team.tiles
        collective.all_reduce(at, ones, reduce=(0,), segments=(), algorithm="oneshot")
        self.emitter.compute(Op.SYNC)

    def run(self, seed: int | None) -> Machine:
        emitter, tiles = self.emitter, self.arch.tiles
        registers = np.zeros((tiles, REGISTERS), np.int32)
        registers[:, : len(emitter.columns)] = np.array(emitter.columns).T
        table = np.array(emitter.tables, np.int32).reshape(tiles, -1, 4)
        code = Code(
            engines=tuple(tuple(i.columns() for i in queue) for queue in emitter.code),
            labels=tuple(map(tuple, emitter.labels)),
        )
        program = Program(
            arch=self.arch,
            code=(code,),
            tile_code=(0,) * tiles,
            registers=memoryview(registers),
            descriptors=memoryview(table),
            vector_shared=memoryview(np.zeros(0, np.int32)),
            vector_tile=memoryview(np.concatenate(self.words, axis=1).astype(np.int32)),
            elements=None,
            scales=None,
            store_beats_used=0,
            rules=(),
            shards_of=(-1,) * tiles,
            **dict.fromkeys(("shards", "page", "context", "vocab"), 1),
            **dict.fromkeys(("logits_at", "result_tile", "result_at"), 0),
            logit_words=(0,) * tiles,
            logit_first=(0,) * tiles,
        )
        program.check("full")  # no deadlock, no race, no post that nobody takes
        machine = Machine(program, seed)
        machine.step(0, 0)
        return machine


def rounds(bench: Bench, seeds: list[int | None], values: Callable[[int], np.ndarray], one):
    """Run ``one(turn, source)`` for each round; the words that each round must leave behind."""
    given_words = [values(turn) for turn in range(ROUNDS)]
    sources = [bench.give(words) for words in given_words]
    results = []
    for turn, source in enumerate(sources):
        bench.emitter.compute(Op.SYNC)
        results.append(one(turn, source))
    for seed in seeds:
        machine = bench.run(seed)
        yield (
            [
                [tile.vector[at : at + words].tolist() for tile in machine.tiles]
                for at, words in results
            ],
            given_words,
        )


def check_all_reduce(members, groups, idle, words, algorithm, *, split, seeds, spread=True):
    """All-reduce over the groups of vectors that the members hold in parts (``split``) or whole."""
    bench = Bench(members, groups, idle)
    team = bench.team
    segments = team.member_lines if split else ()
    digits = team.group_lines if split else team.member_lines + team.group_lines
    rng = np.random.default_rng(words)
    spans = [team.interval(t, segments, words) for t in range(team.tiles)]
    lengths = [words] * team.tiles

    def one(turn, source):
        at, slots, stride = bench.collective(turn).all_reduce(
            source, lengths, reduce=digits, segments=segments, algorithm=algorithm, spread=spread
        )
        out = bench.emitter.scratch(words)
        bench.emitter.compute(Op.SUM, dst=out, src=at, aux=stride, n=words, m=slots)
        if spread and idle:
            bench.meet(turn, out)
        return out, words

    def values(_):
        return rng.integers(-(2**20), 2**20, (team.tiles, words))

    for results, vectors in rounds(bench, seeds, values, one):
        for tiles, held in zip(results, vectors, strict=True):
            total = np.zeros(words, np.int64)
            for tile in range(team.active):
                first, end = spans[tile]
                total[first:end] += held[tile, : end - first]
            for tile, got in enumerate(tiles):
                if tile < team.active or spread:
                    assert got == total.tolist(), f"tile {tile}"


@pytest.mark.parametrize("algorithm", REDUCES)
@pytest.mark.parametrize(
    ("members", "groups", "idle", "words", "split"),
    [
        ((4,), (2,), 0, 11, True),  # an uneven split
        ((2, 3), (2,), 1, 13, True),
        ((), (2, 4), 0, 9, False),
        ((3,), (1,), 0, 2, True),  # fewer words than tiles
        ((1,), (5,), 2, 3, True),
        ((2, 2), (1,), 0, 7, False),
        ((1,), (1,), 3, 5, True),  # one tile works, all get the result
    ],
)
def test_sums_are_exact_on_every_tile(members, groups, idle, words, split, algorithm):
    check_all_reduce(members, groups, idle, words, algorithm, split=split, seeds=[None, 1, 2])


@settings(max_examples=15)
@given(
    st.lists(st.integers(1, 3), max_size=2).map(tuple),
    st.lists(st.integers(1, 3), max_size=2).map(tuple),
    st.integers(0, 2),
    st.integers(1, 17),
    st.sampled_from(REDUCES),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_any_team(members, groups, idle, words, algorithm, split, spread, seed):
    if prod(members) * prod(groups) + idle <= 12:
        options = {"split": split, "spread": spread, "seeds": [seed]}
        check_all_reduce(members, groups, idle, words, algorithm, **options)


@pytest.mark.parametrize("algorithm", REDUCES)
def test_groups_gather_vectors_of_their_own_lengths(algorithm):
    """As the hidden layer does: slices of 5, 4 and no words, gathered in each group of four."""
    bench = Bench((2, 2), (3,))
    team, lengths = bench.team, [(5, 4, 0)[t // 4] for t in range(12)]
    spans = [team.interval(t, team.member_lines, lengths[t]) for t in range(12)]

    def one(turn, source):
        at, slots, _ = bench.collective(turn).all_reduce(
            source, lengths, reduce=(), segments=team.member_lines, algorithm=algorithm
        )
        assert slots == 1
        out, count = bench.emitter.scratch(5), bench.emitter.per_tile(lengths)
        bench.emitter.compute(Op.SUM, dst=out, src=at, n=count, m=1)
        return out, 5

    def values(turn):
        return np.arange(24).reshape(12, 2) + 100 * turn + 1

    for results, vectors in rounds(bench, [None, 7], values, one):
        for tiles, held in zip(results, vectors, strict=True):
            for tile, got in enumerate(tiles):
                whole = [0] * 5
                for peer in range(tile // 4 * 4, tile // 4 * 4 + 4):
                    first, end = spans[peer]
                    whole[first:end] = held[peer, : end - first].tolist()
                assert got == whole, f"tile {tile}"


def test_nothing_to_do_sends_nothing():
    bench = Bench((1,), (1,))
    parts = bench.collective(0).all_reduce(
        17, [4], reduce=(), segments=(), algorithm="direct", spread=True
    )
    assert parts == (17, 1, 0)
    assert bench.emitter.code == ([], [], [])


def test_the_maximum_over_members():
    bench = Bench((3, 2), (2,), 1)

    def one(turn, source):
        at = bench.collective(turn).all_max(source, 3, bench.team.member_lines)
        out = bench.emitter.scratch(3)
        bench.emitter.compute(Op.SUM, dst=out, src=at, n=3, m=1)
        return out, 3

    rng = np.random.default_rng(5)
    for results, vectors in rounds(
        bench, [None, 3, 4], lambda _: rng.integers(-99, 99, (13, 3)), one
    ):
        for tiles, held in zip(results, vectors, strict=True):
            for tile, got in enumerate(tiles[:12]):
                assert got == held[tile // 6 * 6 :][:6].max(axis=0).tolist()


def test_records_merge_to_the_softmax_of_all():
    """Records (M, sum of p, weighted sums) of four shards, exact where shifts lose nothing."""
    bench = Bench((2, 2), (1,))
    records = np.array([[3, 64, 128, 192], [1, 32, 64, 0], [-(2**20), 0, 0, 0], [2, 16, 48, 80]])

    def one(turn, source):
        at = bench.collective(turn).merge(source, 4, bench.team.member_lines, n=2, q=1)
        out = bench.emitter.scratch(4)
        bench.emitter.compute(Op.SUM, dst=out, src=at, n=4, m=1)
        return out, 4

    merged = [3, 64 + 32 // 4 + 16 // 2, 128 + 64 // 4 + 48 // 2, 192 + 80 // 2]
    for results, _ in rounds(bench, [None, 5], lambda _: records, one):
        assert results == [[merged] * 4] * ROUNDS
