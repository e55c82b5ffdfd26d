"""The entry point: ``tokenpath ...`` and ``python -m tokenpath ...``."""

import os
import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and exit with its code, also when interrupted while it is loading."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # clean up, too
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or open(os.devnull, "w")  # noqa: SIM115 - closed by the shell
        stream.reconfigure(errors="backslashreplace")  # a model may say what the terminal cannot
        setattr(sys, name, stream)
    try:
        from tokenpath.cli import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    try:
        sys.stdout.flush()
    except OSError:  # reported already; let the rest go nowhere, or Python complains at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


if __name__ == "__main__":
    main()
