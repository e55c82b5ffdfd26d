"""The small models that come as PyPI packages, read where pip put them.

The packages are found, never imported: no code of theirs runs.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model import hf, npz
from tokenpath.sw.model.files import read_json
from tokenpath.sw.model.hf_config import shape_from_config
from tokenpath.sw.model.spec import ModelSpec
from tokenpath.sw.model.text import CharTokenizer

OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
GLASSLLM, MATHFORMER = "glassllm==0.1.0", "mathformer==2.0.0"


def package_folder(package: str) -> Path | None:
    """The folder of an installed package, found without running any of its code."""
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    places = list(found.submodule_search_locations or ()) if found is not None else []
    return Path(places[0]) if places else None


def _folder(requirement: str) -> Path:
    package = requirement.partition("==")[0]
    folder = package_folder(package)
    if folder is None:
        raise InputError(f"package {package!r} isn't installed; run: pip install {requirement}")
    return folder


def mathformer_for(prompt: str | None) -> str:
    """The name of the mathformer model that the operator of a prompt asks for; add without one."""
    if prompt is None:
        return "mathformer-add"
    for character in prompt[1:]:  # a first - is a sign
        if character in OPERATORS:
            return f"mathformer-{OPERATORS[character]}"
    raise InputError(
        f"prompt {prompt!r} has no operator to choose a mathformer by; "
        "give a task like '7+8=' with one of + - * /"
    )


def load_mathformer(operation: str) -> ModelSpec:
    """One of the four single-layer models; `operation` is add, sub, mul or div."""
    folder = _folder(MATHFORMER) / f"{operation}former"
    shape = shape_from_config(read_json(folder / "config.json"), name=f"mathformer-{operation}")
    vocabulary = read_json(folder / "vocab.json")
    ids = {piece: i for piece, i in vocabulary.items() if type(i) is int}
    return hf.with_weights(folder, shape, CharTokenizer(ids))


def load_glassllm(language: str) -> ModelSpec:
    """The English ("en") or Portuguese ("pt") model of the package glassllm."""
    weights = _folder(GLASSLLM) / "weights"
    name = "glassllm" if language == "en" else f"glassllm-{language}"
    tokenizer = weights / f"{language}.tokenizer.json"
    return npz.load(weights / f"{language}.npz", tokenizer, name=name)
