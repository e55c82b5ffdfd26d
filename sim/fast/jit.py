"""``inner``: functions that only kernels call; and a word to the user before a kernel is compiled for the first time."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit, types

Function = TypeVar("Function", bound=Callable[..., Any])

log = logging.getLogger(__name__)

COMPILING = "compiling the simulator (once; cached afterwards) ..."


def inner(function: Function) -> Function:
    """``function`` compiled within the kernels that call it: no wrapper for Python, nothing of its own on disk.

    Integer literals are arguments like any other integers, as with ``compiled.kernel``.
    """
    compiled: Any = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    if compiled is not function:  # NUMBA_DISABLE_JIT
        template = compiled.get_call_template
        compiled.get_call_template = lambda args, kws: template(tuple(map(types.unliteral, args)), kws)
    return cast(Function, compiled)


def is_cached(compiled: Any) -> bool:
    """Whether a kernel is compiled or has machine code on disk. True when numba can't tell."""
    try:
        return bool(compiled.signatures or compiled._cache._cache_file._load_index())
    except (AttributeError, OSError):
        return True


def announce(*kernels: Any) -> None:
    """Log :data:`COMPILING` if the first call of one of the kernels is going to compile."""
    if not all(map(is_cached, kernels)):
        log.warning(COMPILING)
