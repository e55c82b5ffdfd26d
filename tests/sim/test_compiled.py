import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config

from tokenpath.hw.arch import numeric, timing
from tokenpath.hw.arch.isa import ENGINE_OPS, STREAM_OPS, Engine
from tokenpath.sim.compiled import array, jit, kernel, stamp, time

WORD = (numeric.WORD_MIN, numeric.WORD_MAX)
WIDE = (-(2**62) + 1, 2**62 - 1)
CODE, MANTISSA_BITS, FRAC = (-(2**15), 2**15 - 1), (0, 7), (6, 20)

# The arguments for which the docstrings promise that 64 bits are enough, each from .. to.
RANGES = {
    "wrap": [WIDE],
    "saturate": [WIDE],
    "shift_round": [WIDE, (-70_000, 70_000)],
    "clamp_term": [WIDE, (0, 2**31 - 1)],
    "term_limit": [(0, 30)],
    "bit_length": [(0, 2**63 - 1)],
    "scale_exponent": [CODE, MANTISSA_BITS],
    "scale_mantissa": [CODE, MANTISSA_BITS],
    "block_scale": [(0, 2**31), FRAC, (4, 16), MANTISSA_BITS],
    "block_element": [WORD, CODE, FRAC, (4, 16), MANTISSA_BITS],
    "dot_term": [(-(2**45), 2**45), CODE, CODE, MANTISSA_BITS, MANTISSA_BITS, (0, 20)],
    "dequantise": [(-(2**15), 2**15 - 1), CODE, MANTISSA_BITS, (0, 20)],
    "interpolate": [(0, 2**17), (0, 2**17), (0, 2**16), (0, 16)],
    "exp2_mantissa": [(0, 2**6 - 1), FRAC],
    "ceil_score": [WORD, FRAC],
    "weight_mantissa": [(-(2**52), 2**52), FRAC, (4, 16)],
    "reciprocal": [(1, 2**48)],
    "rsqrt": [(-1, 2**62)],
    "square": [WORD],
    "rms_factor": [(-1, 2**62), (0, 2**17)],
    "rms_shift": [(-1, 2**62), (-20, 20), FRAC, FRAC],
    "sigmoid": [WORD, FRAC],
    "silu_mul": [WORD, WORD, FRAC],
    "divide": [WORD, WORD, (0, 20), (0, 20), (0, 20)],
}


def check(name, rows):
    """The plain function, the compiled one, and the one over arrays agree on rows of arguments."""
    plain = [getattr(numeric, name)(*row) for row in rows]
    assert [getattr(jit, name)(*row) for row in rows] == plain
    assert getattr(array, name)(*zip(*rows, strict=True)).tolist() == plain


def test_every_function_of_numeric_is_compiled_and_listed():
    public = {
        n for n, v in vars(numeric).items() if isinstance(v, FunctionType) and not n.startswith("_")
    }
    assert public == RANGES.keys() == {name for name in vars(jit) if not name.startswith("__")}


@pytest.mark.parametrize("name", RANGES)
def test_plain_compiled_and_array_agree_on_corners(name):
    few = len(RANGES[name]) > 4
    corners = [
        sorted(
            {
                c
                for c in ((low, -1, 0, high) if few else (low, low + 1, -1, 0, 1, high - 1, high))
                if low <= c <= high
            }
        )
        for low, high in RANGES[name]
    ]
    check(name, list(itertools.product(*corners)))


@pytest.mark.parametrize("name", RANGES)
def test_plain_compiled_and_array_agree_on_draws(name):
    row = st.tuples(*(st.integers(low, high) for low, high in RANGES[name]))

    @settings(max_examples=25)
    @given(st.lists(row, min_size=1, max_size=20))
    def run(rows):
        check(name, rows)

    run()


def test_arrays_broadcast_and_may_be_empty():
    got = array.shift_round(np.arange(6).reshape(2, 1, 3), [[1], [2]])
    want = [
        [[numeric.shift_round(v, s) for v in row[0]] for s in (1, 2)]
        for row in ([[0, 1, 2]], [[3, 4, 5]])
    ]
    assert got.tolist() == want
    assert array.saturate(np.zeros((0, 3))).shape == (0, 3)
    assert array.saturate(2**40) == numeric.WORD_MAX


@pytest.mark.parametrize("op", sorted(ENGINE_OPS[Engine.COMPUTE]))
def test_compiled_times_are_the_plain_ones(op):
    for n, m, q, lanes in itertools.product((0, 1, 7, 64), (0, 1, 3), (0, 1, 4), (4, 8)):
        if op in STREAM_OPS:
            assert time.stream_prologue(op) == timing.stream_prologue(op)
            assert time.beat_interval(op, 2 * lanes, lanes) == timing.beat_interval(
                op, 2 * lanes, lanes
            )
            assert time.stream_epilogue(op, m, q, lanes) == timing.stream_epilogue(op, m, q, lanes)
        else:
            assert time.vector_cycles(op, n, m, q, lanes, 32) == timing.vector_cycles(
                op, n, m, q, lanes, 32
            )
        assert time.put_flits(n, lanes) == timing.put_flits(n, lanes)


# --- machine code on disk ---


def process(code, folder, **environment):
    """The output of a Python process with its own place for machine code."""
    env = (
        os.environ
        | {"NUMBA_CACHE_DIR": str(folder / "code"), "NUMBA_DEBUG_CACHE": "1"}
        | environment
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


ALL = """
import numpy as np
from tokenpath.hw.arch.params import Arch
from tokenpath.sim.compiled import jit, array, time
jit.silu_mul(3, 4, 16), array.block_scale([3, 4], 16, 8, 3), time.put_flits(3, 4)
"""


def test_a_second_process_compiles_nothing(tmp_path):
    first, second = process(ALL, tmp_path), process(ALL, tmp_path)
    assert "data saved" in first
    assert "data loaded" in second
    assert "saved" not in second


@pytest.fixture
def interruptible():
    """Ctrl-C raises, although a shell's job in the background is started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_waits_until_a_kernel_is_compiled():
    doubled = kernel(lambda x: 2 * x)
    compiles = doubled.compile

    def interrupted(signature):
        signal.raise_signal(signal.SIGINT)
        return compiles(signature)

    doubled.compile = interrupted
    with pytest.raises(KeyboardInterrupt):
        doubled(3)
    assert doubled.signatures
    assert doubled(4) == 8


VARIANTS = """
from tokenpath.sim.compiled import variant
from tokenpath.sim.fast.jit import inner


def made(step, name):
    def run(x):
        return step(x) + 1

    return variant(run, name)


twice, thrice = made(inner(lambda x: 2 * x), "twice"), made(inner(lambda x: 3 * x), "thrice")
"""


def test_variants_of_a_kernel_are_kept_apart_and_compiled_once(tmp_path):
    (tmp_path / "variants.py").write_text(VARIANTS)
    code = "from variants import thrice, twice\nprint('results', twice(5), thrice(5))"
    first, second = process(code, tmp_path), process(code, tmp_path)
    assert first.count("data saved") == 2 and "results 11 16" in first
    assert second.count("data loaded") == 2 and "saved" not in second
    assert "results 11 16" in second


SOURCES = {
    "outer.py": "from tokenpath.sim.compiled import kernel\nfrom inner import ADD, inner\n\n\n"
    "@kernel\ndef outer(x):\n    return inner(x) + ADD\n",
    "inner.py": "from tokenpath.sim.compiled import kernel\nimport table\n\nADD = 100\n\n\n"
    "@kernel\ndef inner(x):\n    return x + table.STEP\n",
    "table.py": "STEP = 1\n",
}


CHANGES = [
    ("table.py", "STEP = 1", "STEP = 2", 107),
    ("inner.py", "ADD = 100", "ADD = 200", 207),
    ("inner.py", "x + table", "x - table", 203),
]


def test_a_change_of_what_a_kernel_calls_or_reads_is_noticed(tmp_path):
    def run():
        return process(
            "import outer; print('value', outer.outer(5))", tmp_path, PYTHONDONTWRITEBYTECODE="1"
        )

    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    assert "value 106" in run()
    again = run()
    assert "value 106" in again
    assert "saved" not in again
    for file, old, new, value in CHANGES:
        path = tmp_path / file
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
        assert f"value {value}" in run(), (file, new)


def test_a_change_of_a_comment_or_an_unrelated_function_is_not_a_change():
    scope = {"np": np, "__name__": "somewhere"}
    texts = [
        "def f(x):\n    return x + 1\n",
        "# why\n\ndef g(): pass\n\ndef f(x):\n    return x + 1\n",
    ]
    stamps = []
    for text in texts:
        exec(text, scope)
        stamps.append(stamp(scope["f"]))
    assert stamps[0] == stamps[1]


def test_tables_and_constants_belong_to_the_stamp():
    def of(table, constant):
        scope = {"TABLE": table, "CONSTANT": constant, "__name__": "somewhere"}
        exec("def f(x):\n    return TABLE[x] + CONSTANT\n", scope)
        return stamp(scope["f"])

    stamps = [
        of(np.array([1, 2]), 3),
        of(np.array([1, 3]), 3),
        of(np.array([1, 2]), 4),
        of((1, 2), 3),
    ]
    assert len(set(stamps)) == 4
    assert of(np.array([1, 2]), 3) == stamps[0]


def test_literals_do_not_multiply_the_compiled_versions(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))  # compiled, not loaded

    @kernel
    def inner(x, y):
        return x * y

    @kernel
    def outer(x):
        return inner(x, 2) + inner(x, 3) + inner(x, x)

    assert outer(5) == 50
    assert len(inner.signatures) == 1


def test_a_process_that_can_not_write_machine_code_compiles_in_memory(tmp_path):
    code = """
import numba.core.caching as caching
for locator in caching.CacheImpl._locator_classes:
    locator.from_function = classmethod(lambda cls, function, file: None)
from tokenpath.sim.compiled import jit
print('value', jit.saturate(1 << 40))
"""
    assert "value 2147483647" in process(code, tmp_path)
    assert not (Path(tmp_path) / "code").exists()
