"""``python -m benchmarks NAME...``: run benchmarks and write docs/results/NAME.md (all without a
name).

``python -m benchmarks NAME --OPTION ...`` passes options to one that has some.
"""

import importlib
import sys
from datetime import date

from .common import NAMES, RESULTS, WITH_OPTIONS, header


def main() -> int:
    """Run the named benchmarks."""
    first = next((i for i, word in enumerate(sys.argv) if word.startswith("-")), len(sys.argv))
    names, options = sys.argv[1:first] or list(NAMES), sys.argv[first:]
    if options and (len(names) != 1 or names[0] not in WITH_OPTIONS):
        print(f"{options[0]} goes with one of {', '.join(WITH_OPTIONS)}", file=sys.stderr)
        return 2
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; give {', '.join(NAMES)}", file=sys.stderr)
        return 2
    for name in names:
        module = importlib.import_module(f"benchmarks.{name}")
        measured = module.measure(options) if options else module.measure()
        if measured is None:  # only a look
            continue
        text = header(name, module.__doc__ or "", date.today()) + measured
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
