"""Each compute operation alone, against its meaning in floats or plain integers."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tokenpath.hw.arch import numeric
from tokenpath.hw.arch.isa import OPERAND_FIELDS, Op
from tokenpath.hw.arch.numeric import NO_ROWS, WORD_MAX, WORD_MIN
from tokenpath.hw.arch.params import PRESETS, Arch, Format
from tokenpath.sim.vector import VectorUnit

TINY = replace(PRESETS["tiny"], vlanes=2)  # blocks of 4 elements, 2 blocks a beat
FINE = replace(TINY, numeric=replace(TINY.numeric, act=Format(bits=16, mantissa_bits=7)))


class Bench:
    """A tile's memories, as :class:`tokenpath.sim.golden.Tile` has them, and its vector unit."""

    def __init__(self, arch: Arch = TINY, words: Sequence[int] = ()) -> None:
        self.arch, lanes, blocks = arch, arch.lanes, arch.blocks_per_beat
        self.vector = np.zeros(256, np.int64)
        self.vector[: len(words)] = words
        beats = arch.queries * arch.operand_beats
        self.operand = np.zeros((beats, lanes), np.int64)
        self.operand_scales = np.zeros((beats, blocks), np.int64)
        self.append = np.zeros((arch.append_beats, lanes), np.int64)
        self.append_scales = np.zeros((arch.append_beats, blocks), np.int64)
        self.scores = np.zeros((arch.queries, arch.score_rows), np.int64)
        self.stream: deque[tuple[np.ndarray, np.ndarray]] = deque()
        self.unit = VectorUnit(arch, self)  # type: ignore[arg-type]

    def run(self, op: Op, at: int = 200, words: int = 0, **operands: int) -> list[int]:
        """Execute with ``dst`` at ``at``; the words there."""
        zeros = dict.fromkeys((*OPERAND_FIELDS, "q", "x", "y"), 0)
        self.unit.execute(op, zeros | {"dst": at} | operands)
        return self.vector[at : at + words].tolist()

    def feed(self, elements: Sequence[int], codes: Sequence[int]) -> None:
        """One beat of the stream."""
        self.stream.append((np.array(elements), np.array(codes)))


def test_dot_rounds_each_block_once_and_adds():
    bench = Bench()
    bench.operand[3] = [1, 2, 3, 4, 10, 0, 0, 0]
    bench.operand_scales[3] = [0, -8]  # 1 and 1/2
    bench.feed([1, 1, 1, 1, 5, 9, 9, 9], [-32, -24])  # 1/16 and 1/8
    bench.feed([-1, 0, 0, 0, 0, 0, 0, 0], [-32, 0])
    # 10 / 16 and 50 / 16 with two fraction bits: 2.5 is 3, 12.5 is 13; -0.25 is 0
    assert bench.run(Op.DOT, words=3, src=3, n=2, m=8, x=2) == [16, 0, 0]
    assert not bench.stream


def test_dot_counts_what_it_clamps_and_what_wraps():
    bench = Bench()
    bench.operand[0] = [127, 0, 0, 0, 127, 0, 0, 0]
    for _ in range(2):
        bench.feed([127, 0, 0, 0, 127, 0, 0, 0], [16 << 3, 16 << 3])
    # two terms of 127 * 127 * 2**(16 + 1) = 2**30.97 each
    term = 127 * 127 << 17
    assert bench.run(Op.DOT, words=1, n=1, m=8, x=1) == [numeric.wrap(2 * term)]
    assert (bench.unit.saturations, bench.unit.overflows) == (0, 1)
    assert bench.run(Op.DOT, words=1, n=1, m=8, x=1, y=1) == [2 * numeric.term_limit(1)]
    assert (bench.unit.saturations, bench.unit.overflows) == (2, 1)


def test_score_keeps_scores_and_the_maximum_rounded_up():
    bench = Bench()
    for query, first in enumerate((1, -1)):
        bench.operand[query * bench.arch.operand_beats, 0] = first
    for element in (3, 24, -8):
        bench.feed([element] + [0] * 7, [-32, 0])  # in sixteenths: 3/16, 24/16, -8/16
    assert bench.run(Op.SCORE, words=3, n=3, m=4, q=2, bux=5) == [2, 1, 0]
    wanted = [3 * 256, 24 * 256, -8 * 256]
    assert bench.scores[0, 5:8].tolist() == wanted
    assert bench.scores[1, 5:8].tolist() == [-w for w in wanted]
    assert bench.run(Op.SCORE, words=1, n=0, m=4, q=1) == [NO_ROWS]


@pytest.mark.parametrize(("arch", "tolerance"), [(TINY, 2**-6), (FINE, 3e-4)])
def test_axpy_is_the_weighted_sum(arch, tolerance):
    rng = np.random.default_rng(1)
    bench, rows = Bench(arch), 5
    values = rng.integers(-127, 128, (rows, 8))
    bench.scores[:2, 3 : 3 + rows] = scores = rng.integers(-(9 << 12), 2 << 12, (2, rows))
    bench.vector[10:12] = maxima = [2, 3]
    for row in values.tolist():
        bench.feed(row, [-64, -60])  # 2**-8 and 2**-8 * 1.5
    got = bench.run(Op.AXPY, words=12, src=10, aux=220, bux=3, n=rows, m=6, q=2, x=16, y=4)
    p = 2.0 ** (scores / 4096 - np.array(maxima)[:, None])
    wanted = p @ (values[:, :6] * ([2**-8] * 4 + [1.5 * 2**-8] * 2))
    bound = tolerance * p.sum(axis=1, keepdims=True) / 2
    assert np.all(np.abs(np.array(got).reshape(2, 6) / 2**16 - wanted) < bound)
    totals = bench.vector[220:222] / 2**16
    assert np.all(np.abs(totals - p.sum(axis=1)) < tolerance * p.sum(axis=1))
    assert bench.run(Op.AXPY, words=4, src=10, aux=220, n=0, m=4, q=1, x=16) == [0] * 4
    assert bench.vector[220] == 0


def test_axpy_forgets_rows_far_below_the_maximum():
    bench = Bench()
    bench.scores[0, :2] = [0, -(2**31)]
    bench.feed([64, 0, 0, 0] * 2, [0, 0])
    bench.feed([127, 127, 127, 127] * 2, [0, 0])
    assert bench.run(Op.AXPY, words=4, src=10, aux=220, n=2, m=4, q=1, x=8) == [64 << 8, 0, 0, 0]
    assert bench.vector[220] == 1 << 16


def test_load_turns_rows_into_words():
    bench = Bench()
    bench.feed([1, -2, 3, 0, 5, 6, 7, 8], [0, -8])
    bench.feed([4, 0, 0, 1, 9, 9, 9, 9], [4, 8])  # 1.5 and 2
    assert bench.run(Op.LOAD, words=13, n=2, m=6, x=1) == [
        *(2, -4, 6, 0, 5, 6),
        *(12, 0, 0, 3, 36, 36),
        0,
    ]


def test_sum_and_max_of_slots():
    bench = Bench(words=[5, -7, WORD_MAX, 0, 1, 1, 1, 0, 100, 200, -300])
    slots = {"n": 3, "m": 2, "src": 0, "aux": 4}
    assert bench.run(Op.SUM, words=4, **slots) == [6, -6, WORD_MIN, 0]
    assert bench.unit.overflows == 1
    assert bench.run(Op.SUM, words=3, **slots, q=1, bux=8) == [106, 194, WORD_MAX - 299]
    assert bench.unit.overflows == 1
    assert bench.run(Op.MAX, words=3, **slots) == [5, 1, WORD_MAX]
    assert bench.run(Op.MAX, words=3, **slots, q=1, bux=8) == [100, 200, WORD_MAX]


def test_rms_norm_with_and_without_gains():
    rng = np.random.default_rng(2)
    vectors = rng.normal(0, 3, (2, 6))
    n_eps, root = round(6 * 1e-5 * 2**16), round(6**0.5 / 2 * 2**16)
    words = np.rint(vectors * 2**14).astype(int).reshape(-1).tolist()
    gains = [0.5, 1, 1.5, 2, -1, 0]
    bench = Bench(words=[*words, n_eps, root, 1, *(round(g * 2**16) for g in gains)])
    operands = {"aux": 12, "bux": 15, "n": 6, "m": 2, "x": 14, "y": 16}
    wanted = vectors / np.sqrt((vectors**2).mean(axis=1, keepdims=True) + 1e-5)
    plain = np.array(bench.run(Op.RMS, words=12, **operands)).reshape(2, 6) / 2**16
    assert np.allclose(plain, wanted, rtol=2e-4, atol=1e-4)
    scaled = np.array(bench.run(Op.RMS, words=12, **operands, q=1)).reshape(2, 6) / 2**16
    assert np.allclose(scaled, wanted * gains, rtol=2e-4, atol=1e-4)


def test_rope_turns_adjacent_pairs():
    angles = np.array([0.3, 2.0])
    table = np.stack([np.cos(angles), np.sin(angles)], axis=1).reshape(-1) * 2**16
    words = [1000, 2000, -3000, 500, 7, 8, WORD_MAX, WORD_MAX]
    bench = Bench(words=[*np.rint(table).astype(int).tolist(), *words])
    got = bench.run(Op.ROPE, words=8, aux=0, src=4, n=4, m=2)
    pairs = np.array(words).reshape(2, 2, 2) @ [1, 1j]
    wanted = np.stack([(z := pairs * np.exp(1j * angles)).real, z.imag], axis=-1).reshape(-1)
    assert np.allclose(got[:6], wanted[:6], atol=0.6)
    assert got[6] == WORD_MIN and bench.unit.saturations == 1


def test_quant_and_where_its_blocks_go():
    words = [-1000, 500, 3, 0, 64, 0, 0]
    bench = Bench(words=[*words, *(2 * w for w in words)])
    bench.run(Op.QUANT, at=2, src=0, n=7, m=2, x=8)
    stride = bench.arch.operand_beats
    for query, beat in enumerate((2, 2 + stride)):
        codes = bench.operand_scales[beat]
        scales = 2.0 ** (codes >> 3) * (1 + (codes & 7) / 8)
        got = (bench.operand[beat].reshape(2, 4) * scales[:, None]).reshape(-1)
        wanted = np.array([*words, 0]) * (1 + query) / 256
        assert np.all(np.abs(got - wanted) <= np.repeat(scales, 4) / 2)
        assert scales.tolist() == [s * (1 + query) for s in (0.03125, 0.001953125 * 1.125)]
    bench.run(Op.QUANT, at=1, src=0, n=7, m=2, x=8, y=1)
    assert (bench.append[1:3] == bench.operand[[2, 2 + stride]]).all()
    assert (bench.append_scales[1:3] == bench.operand_scales[[2, 2 + stride]]).all()


def test_silu_and_div_follow_their_functions():
    bench = Bench(words=[70000, -70000, 30000, 9, 65536, 0])
    wanted = [numeric.silu_mul(a, b, 16) for a, b in zip((70000, -70000), (30000, 9), strict=True)]
    assert bench.run(Op.SILU, words=2, src=0, aux=2, n=2, x=16) == wanted
    got = bench.run(Op.DIV, words=4, src=0, aux=4, n=2, m=2, x=16, y=16, q=12)
    assert got == [numeric.divide(w, 65536, 16, 16, 12) for w in (70000, -70000)] + [0, 0]


def test_merge_aligns_to_the_larger_maximum():
    """Records of two queries of one word: maxima, sums of p, weighted sums."""
    bench = Bench(words=[5, NO_ROWS, 64, 0, -64, 0, 3, 1, 40, 7, 100, 9])
    wanted = [5, 1, 64 + 40 // 4, 7, -64 + 100 // 4, 9]
    assert bench.run(Op.MERGE, words=6, src=0, aux=6, n=1, m=2, q=2) == wanted


def test_the_first_of_the_largest():
    bench = Bench(words=[3, 9, 9, -1, 9, 7, 9, 8])
    assert bench.run(Op.ARGMAX, words=2, src=0, n=4, aux=100) == [9, 101]
    assert bench.run(Op.ARGMAX, words=2, src=0, n=0, aux=100) == [WORD_MIN, -1]
    assert bench.run(Op.ARGPAIR, words=2, src=4, n=2) == [9, 7]
    assert bench.run(Op.ARGPAIR, words=2, src=4, n=0) == [9, 7]  # nothing changes
