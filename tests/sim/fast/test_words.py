from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pairs import EXAMPLES, MOODS, SMALL, WORDS, Pair, machines

from tokenpath.hw.arch.isa import Op

SHAPED = [
    Op.SUM,
    Op.MAX,
    Op.RMS,
    Op.ROPE,
    Op.SILU,
    Op.DIV,
    Op.QUANT,
    Op.MERGE,
    Op.ARGMAX,
    Op.ARGPAIR,
]


def place(draw, words):
    """An address of ``words`` words, anywhere: operands may overlap."""
    return draw(st.integers(0, WORDS - words))


@st.composite
def instruction(draw, op, arch):
    """Operands of an instruction shaped like real ones."""
    n, m, q = draw(st.integers(0, 24)), draw(st.integers(0, 4)), draw(st.integers(0, 1))
    frac, frac_out = draw(st.integers(8, 20)), draw(st.integers(8, 20))
    match op:
        case Op.SUM | Op.MAX:
            m, stride = m + (not q), draw(st.integers(0, 40))
            slots = (m - 1) * stride + n if m else 0
            return {
                "dst": place(draw, n), "src": place(draw, slots), "aux": stride,
                "bux": place(draw, n), "n": n, "m": m, "q": q,
            }  # fmt: skip
        case Op.RMS:
            return {
                "dst": place(draw, n * m), "src": place(draw, n * m), "aux": place(draw, 3),
                "bux": place(draw, n), "n": n, "m": m, "q": q, "x": frac, "y": frac_out,
            }  # fmt: skip
        case Op.ROPE:
            n, m = max(2, n & ~1), max(1, m)
            return {
                "dst": place(draw, n * m),
                "src": place(draw, n * m),
                "aux": place(draw, n),
                "n": n,
                "m": m,
            }
        case Op.SILU:
            return {
                "dst": place(draw, n),
                "src": place(draw, n),
                "aux": place(draw, n),
                "n": n,
                "x": frac,
            }
        case Op.DIV:
            return {
                "dst": place(draw, n * m), "src": place(draw, n * m), "aux": place(draw, m),
                "n": n, "m": m, "q": frac_out, "x": frac, "y": draw(st.integers(0, 16)),
            }  # fmt: skip
        case Op.QUANT:
            to_append = draw(st.integers(0, 1))
            beats = arch.row_beats(n)
            if to_append:
                dst = draw(st.integers(0, arch.append_beats - min(m * beats, 8)))
                m = m if m * beats <= arch.append_beats else 1
            else:
                m, dst = (
                    min(m, arch.queries),
                    draw(st.integers(0, max(0, arch.operand_beats - beats))),
                )
                n = n if beats <= arch.operand_beats else 1
            return {
                "dst": dst,
                "src": place(draw, n * m),
                "n": n,
                "m": m,
                "x": frac,
                "y": to_append,
            }
        case Op.MERGE:
            n, q, m = draw(st.integers(0, 8)), draw(st.integers(0, 3)), m + 1
            size = q * (n + 2)
            stride = draw(st.integers(0, 40))
            return {
                "dst": place(draw, size), "src": place(draw, (m - 1) * stride + size),
                "aux": stride, "n": n, "m": m, "q": q,
            }  # fmt: skip
        case Op.ARGMAX:
            return {
                "dst": place(draw, 2),
                "src": place(draw, n),
                "aux": draw(st.integers(0, 9)),
                "n": n,
            }
    return {"dst": place(draw, 2), "src": place(draw, 2 * n), "n": n}


@pytest.mark.parametrize("op", SHAPED, ids=lambda op: op.name)
def test_each_operation_equals_golden(op):
    corners = Counter()

    @EXAMPLES
    @given(st.data(), machines(), MOODS, st.integers(0, 99))
    def run(data, arch, mood, seed):
        pair = Pair(arch, seed, mood)
        operands = data.draw(instruction(op, arch))
        if op == Op.RMS and data.draw(st.booleans()):  # constants as the compiler makes them
            pair.write(
                operands["aux"],
                [operands["n"] * 40, 65536 + seed * 600, operands["n"].bit_length() >> 1],
            )
        pair.execute(op, **operands)
        corners["clamped"] += pair.clamped > 0
        corners["wrapped"] += pair.wrapped > 0
        corners["no words"] += operands["n"] == 0
        corners["quiet"] += pair.clamped + pair.wrapped == 0

    run()
    assert corners["no words"] or op == Op.ROPE, corners
    assert corners["quiet"], corners
    assert corners["wrapped"] or op != Op.SUM, corners
    assert corners["clamped"] or op not in (Op.RMS, Op.ROPE, Op.SILU, Op.DIV), corners


@pytest.mark.parametrize("op", [Op.ARGMAX, Op.ARGPAIR])
def test_the_first_of_equals_wins(op):

    @settings(max_examples=30)
    @given(st.data(), machines(), st.lists(st.integers(-1, 1), min_size=1, max_size=12))
    def run(data, arch, drawn):
        pair = Pair(arch)
        step = 2 if op == Op.ARGPAIR else 1
        for i, word in enumerate(drawn):
            pair.write(20 + step * i, [word])
        pair.execute(op, dst=100, src=20, n=len(drawn), **({} if op == Op.ARGPAIR else {"aux": 5}))
        first = drawn.index(max(drawn))
        index = pair.tile.vector[20 + 2 * first + 1] if op == Op.ARGPAIR else 5 + first
        assert pair.read(100, 2) == [max(drawn), index]

    run()


def test_a_record_that_saw_no_rows_merges_to_the_others_bits():

    @settings(max_examples=30)
    @given(machines(), st.integers(0, 99), st.permutations(range(3)))
    def run(arch, seed, order):
        pair = Pair(arch, seed)
        record = [7, 5, *range(-4, 4)]  # maxima and sums of one query, eight weighted sums
        records = [record, [-(2**20), 0, *[0] * 8], [-(2**20), 0, *[0] * 8]]
        for place, index in enumerate(order):
            pair.write(40 + 10 * place, records[index])
        pair.execute(Op.MERGE, dst=100, src=40, aux=10, n=8, m=3, q=1)
        assert pair.read(100, 10) == record

    run()


def test_operands_may_overlap_their_result():
    for shift in (-3, -1, 0, 1, 3):
        pair = Pair(SMALL, seed=shift + 5)
        pair.execute(Op.RMS, dst=100 + shift, src=100, aux=90, bux=104, n=12, m=3, q=1, x=16, y=16)
        pair.execute(Op.ROPE, dst=100 + shift, src=100, aux=101, n=8, m=3)
        pair.execute(Op.SUM, dst=100 + shift, src=100, aux=2, bux=99, n=16, m=3, q=1)
        pair.execute(Op.DIV, dst=100 + shift, src=100, aux=100, n=4, m=3, q=16, x=16, y=4)
        pair.execute(Op.SILU, dst=100 + shift, src=100, aux=98, n=12, x=16)
        pair.execute(Op.MERGE, dst=100 + shift, src=100, aux=4, n=2, m=3, q=2)
