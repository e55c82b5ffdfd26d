"""Compile the kernel of the values in a process of its own, so that a cold start uses two cores.

``python -m tokenpath.sim.fast.warm`` leaves the machine code in numba's cache, where the process
that started it finds it.
"""

import subprocess
import sys

import numpy as np
from numba import typeof

from .replay import replay


def beside() -> "subprocess.Popen[bytes]":
    """Start the compilation; wait for it before the kernel is called."""
    command = [sys.executable, "-m", __name__]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    addresses = typeof(np.zeros(1, np.int64))  # type: ignore[no-untyped-call]
    replay.compile((addresses, addresses))  # type: ignore[attr-defined]
