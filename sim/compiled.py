"""The functions of hw/arch, compiled: one source for the integers of the golden model and of the fast simulator.

``jit.shift_round`` is :func:`tokenpath.hw.arch.numeric.shift_round` for numba kernels, ``array.shift_round`` the same over int64
arrays that broadcast. Nothing is written twice; the tests compare the compiled functions with the plain ones.

Machine code is kept on disk, by numba, next to the sources. numba notices a change of a function's own file only, while a kernel
contains the code of all that it calls; so :func:`kernel` stamps it with a hash over every source that may be in it.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numpy.typing import ArrayLike, NDArray

from tokenpath.hw.arch import numeric, timing

Function = TypeVar("Function", bound=Callable[..., Any])

SHARED = (Path(numeric.__file__).parent, Path(__file__))
"""Sources that any kernel may contain: hw/arch and this file; those of its own folder come on top."""


@cache
def stamp(folder: Path) -> str:
    """Hash over the names and contents of the Python sources of a folder and of :data:`SHARED`."""
    digest = hashlib.sha256()
    for place in (folder, *SHARED):
        for file in sorted(place.glob("*.py")) if place.is_dir() else [place]:
            digest.update(b"%s\0%d\0" % (file.name.encode(), file.stat().st_size) + file.read_bytes())
    return digest.hexdigest()


class _Cache(FunctionCache):
    """numba's cache of one function's machine code, void when :func:`stamp` changes."""

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function)
        source = Path(function.__code__.co_filename)
        self._cache_file = IndexDataCacheFile(
            cache_path=self._cache_path, filename_base=self._impl.filename_base, source_stamp=stamp(source.parent)
        )


def kernel(function: Function) -> Function:
    """``function`` compiled on its first call with given types, or loaded from disk; divisors must not be 0."""
    compiled: Any = njit(error_model="numpy", no_cfunc_wrapper=True)(function)
    try:
        compiled._cache = _Cache(cast(FunctionType, function))
    except RuntimeError:  # neither the sources nor the home folder are writable: compile in each process
        pass
    return cast(Function, compiled)


def _compile(module: ModuleType) -> ModuleType:
    """The public functions of a module, compiled; they call each other, and read tables of integers as arrays."""
    scope = {k: np.array(v, np.int64) if isinstance(v, tuple) else v for k, v in vars(module).items()}
    compiled = ModuleType(f"{module.__name__}.compiled")
    for name, value in vars(module).items():
        if isinstance(value, FunctionType) and value.__module__ == module.__name__ and not name.startswith("_"):
            twin = FunctionType(value.__code__, scope, name, value.__defaults__)
            twin.__annotations__ = value.__annotations__
            scope[name] = kernel(twin)
            setattr(compiled, name, scope[name])
    return compiled


def _over_arrays(function: Any) -> Callable[..., NDArray[np.int64]]:
    """A compiled function of integers as one of int64 arrays, which broadcast."""
    plain = function.py_func
    names = plain.__code__.co_varnames[: plain.__code__.co_argcount]
    call = ", ".join(f"{name}[i]" for name in names)
    text = f"def {plain.__name__}_array({', '.join(names)}, out):\n for i in range(out.size): out[i] = function({call})"
    scope: dict[str, Any] = {"__name__": plain.__globals__["__name__"], "function": function}
    exec(compile(text, plain.__code__.co_filename, "exec"), scope)  # the names of the arguments are the only input
    loop = kernel(scope[f"{plain.__name__}_array"])

    def over_arrays(*arguments: ArrayLike) -> NDArray[np.int64]:
        arrays = np.broadcast_arrays(*(np.asarray(a, np.int64) for a in arguments))
        out = np.empty(arrays[0].shape, np.int64)
        loop(*(np.ascontiguousarray(a).reshape(-1) for a in arrays), out.reshape(-1))
        return out

    return over_arrays


class _Arrays:
    """The functions of :data:`jit` over arrays, built on first use."""

    def __getattr__(self, name: str) -> Callable[..., NDArray[np.int64]]:
        built = _over_arrays(getattr(jit, name))
        setattr(self, name, built)
        return built


jit = _compile(numeric)
time = _compile(timing)
array = _Arrays()
