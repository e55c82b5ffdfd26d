"""``tokenpath report``: what a saved run says."""

from pathlib import Path
from typing import Annotated

import typer

from tokenpath.commands import new_app
from tokenpath.console import AsJson
from tokenpath.hw.arch.errors import InputError

app = new_app()


@app.command()
def report(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A file of 'tokenpath decode --save'.")
    ],
    as_json: AsJson = False,
) -> None:
    """Print a saved run again: its text, the ledger of each token, the bounds."""
    from tokenpath.commands.decode import show
    from tokenpath.sim.run import Run

    saved = Run.load(run)
    if not {"clock_hz", "values", "executor"} <= saved.about.keys() or not saved.steps:
        raise InputError(f"{run} has no decoded tokens; save a run with 'tokenpath decode --save'")
    if not as_json and saved.about.get("text"):
        print((saved.about.get("prompt") or "") + saved.about["text"] + "\n")
    show(saved, as_json)
