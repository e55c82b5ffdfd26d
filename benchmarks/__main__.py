"""``python -m benchmarks NAME...``: run benchmarks and write docs/results/NAME.md (all without a
name)."""

import importlib
import sys
from datetime import date

from .common import NAMES, RESULTS, header


def main() -> int:
    """Run the named benchmarks."""
    names = sys.argv[1:] or list(NAMES)
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; give {', '.join(NAMES)}", file=sys.stderr)
        return 2
    for name in names:
        module = importlib.import_module(f"benchmarks.{name}")
        text = header(name, module.__doc__ or "", date.today()) + module.measure()
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
