"""Language models behind one ModelSpec: :func:`load` one by name or path, :func:`names` lists them.

Importing this package is quick: the libraries that read files are imported when a file is read.
"""

from __future__ import annotations

from tokenpath.sw.model.catalogue import Entry, load, names
from tokenpath.sw.model.spec import ModelShape, ModelSpec, Tokenizer, layer_shapes, tensor_shapes

__all__ = [
    "Entry",
    "ModelShape",
    "ModelSpec",
    "Tokenizer",
    "layer_shapes",
    "load",
    "names",
    "tensor_shapes",
]
