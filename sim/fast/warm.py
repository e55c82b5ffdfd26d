"""Compile the kernel of the values in a process of its own, so that a cold start uses two cores.

``python -m tokenpath.sim.fast.warm`` leaves the machine code in numba's cache, where the process
that started it finds it.
"""

import subprocess
import sys

import numpy as np
from numba import typeof

from .replay import replay
from .values import Values

_SHAPES = {
    "vector": (2, np.int32),
    "elements": (3, np.int8),
    "scales": (3, np.int16),
    "operand": (3, np.int16),
    "operand_scales": (3, np.int16),
    "append": (3, np.int16),
    "append_scales": (3, np.int16),
    "scores": (3, np.int32),
    "accumulators": (1, np.int32),
    "work": (1, np.int64),
    "counters": (2, np.int64),
    "params": (1, np.int64),
}
"""Dimensions and types of the arrays of Values."""


def beside() -> "subprocess.Popen[bytes]":
    """Start the compilation; wait for it before the kernel is called."""
    command = [sys.executable, "-m", __name__]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def arguments() -> tuple[object, ...]:
    """Arguments of the types with which a machine calls the kernel."""
    arrays = {name: np.zeros((1,) * dims, kind) for name, (dims, kind) in _SHAPES.items()}
    values = Values(**arrays)
    return np.zeros(1, np.int64), values, values.vector, np.zeros(1, np.int32)


if __name__ == "__main__":
    replay.compile(tuple(typeof(argument) for argument in arguments()))  # type: ignore[attr-defined, no-untyped-call]
