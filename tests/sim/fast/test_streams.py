from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pairs import EXAMPLES, MOODS, SMALL, STORE_BEATS, Pair, machines

from tokenpath.hw.arch.isa import Op
from tokenpath.hw.arch.params import Format, Numeric


@st.composite
def rows(draw, arch):
    """Rows that fit: their number, elements of each, and the beat where the stream begins."""
    m = draw(st.integers(0, 3 * arch.lanes) | st.just(3 * arch.lanes))
    beats = arch.row_beats(m)
    n = draw(st.integers(0, min(24, STORE_BEATS // max(1, beats))))
    return n, m, draw(st.integers(0, STORE_BEATS - n * beats))


def test_dot_and_score_equal_golden():
    corners = Counter()

    @EXAMPLES
    @given(st.data(), machines(), MOODS, st.integers(0, 99))
    def run(data, arch, mood, seed):
        pair = Pair(arch, seed, mood)
        n, m, stream = data.draw(rows(arch))
        blocks = arch.row_beats(m) * arch.blocks_per_beat
        operand = data.draw(st.integers(0, arch.operand_beats - arch.row_beats(m)))
        frac, headroom = data.draw(st.integers(0, 20)), data.draw(st.integers(0, 16))
        pair.execute(
            Op.DOT,
            stream,
            dst=data.draw(st.integers(0, 400)),
            src=operand,
            n=n,
            m=m,
            x=frac,
            y=headroom,
        )
        corners["clamped"] += pair.clamped > 0
        corners["exact"] += pair.clamped == 0 and n * m > 0
        headroom = max(headroom, blocks.bit_length())  # score memory has 32 bits and doesn't wrap
        pair.execute(
            Op.SCORE, stream, dst=data.draw(st.integers(0, 400)), src=operand,
            bux=data.draw(st.integers(0, 24 - n)), n=n, m=m,
            q=data.draw(st.integers(0, 2)), y=headroom,
        )  # fmt: skip
        corners["score clamped"] += pair.clamped > 0
        corners["no rows"] += n == 0
        corners["no elements"] += m == 0
        corners["partial beat"] += m % arch.lanes > 0
        corners[f"block {arch.numeric.block}"] += n * m > 0
        corners[f"act {arch.numeric.act.bits}"] += n * m > 0

    run()
    assert len(corners) == 14, corners
    assert min(corners.values()) >= 1, corners


def test_axpy_equals_golden():
    corners = Counter()

    @EXAMPLES
    @given(st.data(), machines(), MOODS, st.integers(0, 99))
    def run(data, arch, mood, seed):
        pair = Pair(arch, seed, mood)
        n, m, stream = data.draw(rows(arch))
        q, first = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 24 - n))
        maxima, sums = (data.draw(st.integers(0, 20)) for _ in range(2))
        if data.draw(st.booleans()):  # scores as after a SCORE: at most 0 above their maximum
            frac = arch.numeric.score_frac
            for query in range(q):
                top = int(pair.tile.scores[query, first : first + n].max(initial=0) >> frac) + 1
                pair.write(maxima + query, [top])
        headroom = data.draw(st.integers(0, 16))
        pair.execute(
            Op.AXPY, stream, dst=data.draw(st.integers(0, 62)), src=maxima, aux=sums, bux=first,
            n=n, m=m, q=q, x=data.draw(st.integers(0, 20)), y=headroom,
        )  # fmt: skip
        corners["clamped"] += pair.clamped > 0
        corners["exact"] += pair.clamped == 0 and n * m * q > 0
        corners["no rows"] += n == 0
        corners["partial beat"] += m % arch.lanes > 0
        corners[f"block {arch.numeric.block}"] += n * m > 0

    run()
    assert len(corners) == 9, corners
    assert min(corners.values()) >= 1, corners


def test_load_equals_golden():

    @EXAMPLES
    @given(st.data(), machines(), MOODS, st.integers(0, 99))
    def run(data, arch, mood, seed):
        pair = Pair(arch, seed, mood)
        n, m, stream = data.draw(rows(arch))
        n = min(n, 512 // max(m, 1))
        dst = data.draw(st.integers(0, 512 - n * m))
        pair.execute(Op.LOAD, stream, dst=dst, n=n, m=m, x=data.draw(st.integers(0, 20)))

    run()


def test_rows_of_more_blocks_than_a_batch_and_batches_with_a_rest():
    arch = replace(SMALL, lanes=512, vlanes=128)
    pair = Pair(arch)
    assert arch.blocks_per_beat * 3 > 256
    for n, m in ((7, 1200), (16, 800), (48, 400), (1, 1)):
        pair.execute(Op.DOT, 0, dst=0, n=n, m=m, x=16, y=9)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("headroom", "exponent", "clamped"),
    [(24, 0, False), (25, 0, True), (24, 1, True), (22, 2, False), (0, 24, False), (0, 25, True)],
)
def test_a_summand_at_the_limit_is_not_clamped_and_one_above_is(sign, headroom, exponent, clamped):
    pair = Pair(SMALL)
    pair.tile.elements[:], pair.tile.operand[:] = 0, 0
    pair.tile.elements[0, 0], pair.tile.operand[0, 0] = 127, sign
    pair.tile.scales[:], pair.tile.operand_scales[:] = exponent << 3, 0
    pair.copy("elements", "scales", "operand", "operand_scales")
    pair.execute(Op.DOT, 0, dst=0, n=1, m=1, x=0, y=headroom)
    assert (pair.clamped > 0) == clamped
    assert pair.read(0, 1) == [sign * min(127 << exponent, (1 << (31 - headroom)) - 1)]


@pytest.mark.parametrize("block", [4, 32])
@pytest.mark.parametrize(
    ("headroom", "exponent", "element", "clamped"),
    [
        (24, 0, 127, False), (24, 0, -127, False), (24, 0, -128, True), (25, 0, 64, True),
        (25, 0, 63, False), (24, 1, 64, True), (24, 1, -63, False), (16, 8, 127, False),
        (16, 9, 127, True), (13, 10, 127, False), (0, 24, 127, False), (0, 25, -127, True),
    ],
)  # fmt: skip
def test_a_weighted_summand_is_clamped_at_the_limit(block, headroom, exponent, element, clamped):
    """With a score at its maximum: p is 1, and its own summand always fits."""
    pair = Pair(replace(SMALL, numeric=Numeric(block=block), lanes=block, vlanes=block))
    pair.tile.elements[:], pair.tile.scales[:] = 0, exponent << 3
    pair.tile.elements[0, 1], pair.tile.scores[:] = element, 0
    pair.copy("elements", "scales", "scores")
    pair.write(0, [0])
    pair.execute(Op.AXPY, 0, dst=2, src=0, aux=1, n=1, m=block, q=1, x=0, y=headroom)
    expected = element << exponent
    limit = (1 << (31 - headroom)) - 1
    assert (pair.clamped > 0) == clamped == (abs(expected) > limit)
    assert pair.read(2, 3) == [0, max(-limit, min(limit, expected)), 0]


@pytest.mark.parametrize("block", [4, 32])
@pytest.mark.parametrize(("exponent", "sums"), [(-7, 2), (-8, 1), (-9, 0)])
def test_the_smallest_weighted_summand_is_rounded_up(block, exponent, sums):
    """The widest product, 16 bits of p and 8 of scale and element, moves 30 to 32 places down."""
    formats = {"kv": Format(bits=8, mantissa_bits=7), "act": Format(bits=16, mantissa_bits=7)}
    pair = Pair(replace(SMALL, numeric=Numeric(block=block, **formats), lanes=block, vlanes=block))
    pair.tile.elements[:], pair.tile.scales[:] = 127, (exponent << 7) | 127
    pair.tile.scores[:] = -1
    pair.copy("elements", "scales", "scores")
    pair.write(0, [0])
    pair.execute(Op.AXPY, 0, dst=2, src=0, aux=1, n=1, m=block, q=1, x=0, y=4)
    assert pair.read(2, block) == [sums] * block


def test_a_context_of_many_rows_is_as_exact_as_a_short_one():
    """Edge's blocks of 32, with scores that fall off: from the largest weight to none at all."""
    arch = replace(SMALL, numeric=Numeric(), lanes=32, vlanes=8)
    pair = Pair(arch)
    pair.tile.scores[:] = -(np.arange(24) << 14) * 3
    pair.copy("scores")
    pair.write(0, [0, 0])
    pair.execute(Op.AXPY, 0, dst=10, src=0, aux=4, n=24, m=64, q=2, x=13, y=12)
    assert pair.clamped == 0
    assert np.count_nonzero(pair.read(10, 128)) > 100
