"""The helpers of this folder, ``bench``, and the programs of tests/sim/fast can be imported."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "sim" / "fast")]
