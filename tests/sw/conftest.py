"""Tests of this folder can import ``synthetic``, the small models that several folders use."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
