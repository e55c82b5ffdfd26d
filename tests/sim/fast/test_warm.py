"""The kernel that is compiled beside is the one that a machine calls."""

import os
import subprocess
import sys

from pairs import SMALL, Pair

from tokenpath.sim.fast import FastMachine
from tokenpath.sim.fast.replay import replay


def test_what_is_compiled_beside_is_in_the_cache_of_a_machine(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "tokenpath.sim.fast.warm"], check=True, env=environment)
    assert [path.name.split("-")[0] for path in tmp_path.rglob("*.nbc")].count(
        "tokenpath.sim.fast.replay.replay"
    ) == 1
    FastMachine(Pair(SMALL).program).step(0, 0)
    assert len(replay.signatures) == 1
