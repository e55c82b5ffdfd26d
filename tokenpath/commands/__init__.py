"""The commands, one module each, imported when called.

To add one: a module here with ``app = new_app()`` and its functions, and a line in
``tokenpath.cli.COMMANDS``. A function prints by ``tokenpath.console.emit`` and takes ``AsJson``;
bad input raises ``InputError``.
"""

from typing import Any

import typer


def new_app(**settings: Any) -> typer.Typer:
    """A Typer application in the manner of this house: plain help, quick to start."""
    plain: dict[str, Any] = {
        "add_completion": False,
        "rich_markup_mode": None,  # rich's help takes 0.3 s to import
        "pretty_exceptions_enable": False,
        "context_settings": {"help_option_names": ["-h", "--help"]},
    }
    return typer.Typer(**(plain | settings))
