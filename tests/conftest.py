"""What every test shares: how hypothesis draws."""

import os

from hypothesis import settings

# A first call may compile for seconds, so no test has a deadline. CI draws the same examples
# each time; at home they vary, and failures are kept in .hypothesis.
settings.register_profile("home", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if "CI" in os.environ else "home")

# Tables are as wide in a worker of pytest-xdist as they are in a pipe.
os.environ.pop("COLUMNS", None)
