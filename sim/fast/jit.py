"""``kernel`` and ``inner``: numba's ``njit`` with a cache that notices what numba's own does not.

numba looks at the one file of a function only, but constants of hw/arch (columns, latencies) and called kernels are
frozen into the machine code. So the stamp of a kernel is a hash over its code and everything that it refers to.
"""

import hashlib
import logging
from collections.abc import Callable
from enum import EnumMeta
from types import FunctionType
from typing import Any

from numba import njit

log = logging.getLogger(__name__)

COMPILING = "compiling the simulator (once; cached afterwards) ..."


def _stamp(value: Any, seen: set[int]) -> str:
    """Text that changes whenever what a kernel refers to does: code, called functions, constants."""
    function = getattr(value, "py_func", value)
    if isinstance(function, FunctionType):
        if id(function.__code__) in seen:
            return function.__name__
        seen.add(id(function.__code__))
        code, scope = function.__code__, function.__globals__
        constants = [c for c in code.co_consts if c != function.__doc__]
        used = [f"{name}={_stamp(scope[name], seen)}" for name in code.co_names if name in scope]
        digest = hashlib.sha256(repr((code.co_code, code.co_names, constants, used)).encode())
        return digest.hexdigest()
    if isinstance(value, EnumMeta):
        return repr([(member.name, member.value) for member in value])
    if isinstance(value, (int, float, str, tuple)):
        return repr(value)
    return getattr(value, "__name__", type(value).__name__)


def kernel(function: Callable[..., Any]) -> Any:
    """A kernel that Python calls: compiled at its first call, then cached on disk."""
    compiled = njit(cache=True, error_model="numpy")(function)
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if cache_file is not None:
        cache_file._source_stamp = _stamp(function, set())
    return compiled


def inner(function: Callable[..., Any]) -> Any:
    """A function that only kernels call: machine code within theirs, nothing of its own on disk."""
    return njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


def is_cached(compiled: Any) -> bool:
    """Whether a kernel is compiled or has machine code on disk. True when numba can't tell."""
    if compiled.signatures:
        return True
    try:
        return bool(compiled._cache._cache_file._load_index())
    except (AttributeError, OSError):
        return True


def announce(*kernels: Any) -> None:
    """Log :data:`COMPILING` if the first call of one of the kernels is going to compile."""
    if not all(map(is_cached, kernels)):
        log.warning(COMPILING)
