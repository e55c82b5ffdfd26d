"""``tokenpath models``: list, show and get models."""

from typing import Annotated

import typer
from rich.table import Table

from tokenpath.commands import new_app
from tokenpath.console import AsJson, emit, facts, note
from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model import Entry, fetch, load, names

app = new_app()


def complete_model(incomplete: str) -> list[tuple[str, str]]:
    """Names for the shell to complete, with their descriptions."""
    return [(e.name, e.description) for e in names() if e.name.startswith(incomplete)]


def complete_asset(incomplete: str) -> list[str]:
    """Names of the models that can be fetched."""
    return [name for name in fetch.ASSETS if name.startswith(incomplete)]


@app.callback(invoke_without_command=True)
def models(ctx: typer.Context, as_json: AsJson = False) -> None:
    """The models at hand: list them (without a command), show one, get one.

    Wherever a command asks for a model, a path will do: a Hugging Face directory, a GGUF file, or
    a config.json for the shape alone.
    """
    if ctx.invoked_subcommand is None:
        entries = names()
        emit(_list(entries), {"models": [entry._asdict() for entry in entries]}, as_json)
    elif as_json:
        raise InputError(f"--json stands before {ctx.invoked_subcommand}; write it at the end")


def _list(entries: list[Entry]) -> Table:
    table = Table("name", "ready", "what")
    for entry in entries:
        ready = "yes" if entry.available else "get it" if entry.name in fetch.ASSETS else "no"
        table.add_row(entry.name, ready, entry.description)
    return table


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A name or a path.", autocompletion=complete_model),
    ],
    as_json: AsJson = False,
) -> None:
    """Show the shape of a model."""
    model = load(name)
    shape = model.shape
    window = sorted({window or shape.context for window in shape.windows})
    shown = facts(
        shape.name,
        {
            "parameters": shape.parameters,
            "weights": "yes" if model.has_weights else "no, the shape only",
            "tokenizer": "yes" if model.tokenizer else "no",
            "layers": shape.layers,
            "width": shape.d_model,
            "heads": f"{shape.heads} of {shape.head_dim}, over {shape.kv_heads} KV heads",
            "feed-forward width": shape.ffn,
            "vocabulary": f"{shape.vocab:,}, {'shared with' if shape.tied else 'apart from'} head",
            "context": shape.context,
            "attention window": " and ".join(f"{size:,}" for size in window),
            "RoPE": f"theta {shape.rope_theta:g}, {shape.rope_pairing} pairs",
            "RMSNorm epsilon": f"{shape.norm_eps:g}",
            "extras": ", ".join(
                text
                for text, has in [
                    ("norm of queries and keys", shape.qk_norm),
                    ("bias of queries, keys and values", shape.attention_bias),
                ]
                if has
            )
            or "none",
            "fingerprint": model.fingerprint,
        },
    )
    payload = shape.to_dict() | {
        "parameters": shape.parameters,
        "has_weights": model.has_weights,
        "has_tokenizer": model.tokenizer is not None,
        "fingerprint": model.fingerprint,
    }
    emit(shown, payload, as_json)


@app.command()
def get(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="smollm2.", autocompletion=complete_asset)
    ],
    as_json: AsJson = False,
) -> None:
    """Fetch a large model; print its path."""
    if name in fetch.ASSETS and fetch.find(name) is None:
        note(f"fetching {name}, {fetch.ASSETS[name].size_bytes / 1e6:.0f} MB")
    path = fetch.get(name)
    emit(str(path), {"name": name, "path": path}, as_json)
