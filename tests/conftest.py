"""What every test shares: how hypothesis draws."""

import os

from hypothesis import settings

# A first call may compile for seconds, so no test has a deadline. CI draws the same examples
# each time; at home they vary, and failures are kept in .hypothesis.
settings.register_profile("home", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if "CI" in os.environ else "home")

# What a terminal or a container sets must not decide how the command line behaves in a test:
# a table's width, or whether a full disk is noticed before the last flush.
for name in ("COLUMNS", "PYTHONUNBUFFERED"):
    os.environ.pop(name, None)
