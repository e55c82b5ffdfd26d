"""The functions of hw/arch, compiled: one source for golden model and fast simulator.

``jit.shift_round`` is :func:`tokenpath.hw.arch.numeric.shift_round` for numba kernels,
``array.shift_round`` the same over int64 arrays that broadcast. Nothing is written twice; the tests
compare the compiled functions with the plain ones.

Machine code is kept on disk, next to the sources or where NUMBA_CACHE_DIR says. numba alone would
use it as long as the file of a function is the same, although what it calls or a constant that it
reads has changed elsewhere; see :func:`stamp`.
"""

import contextlib
import hashlib
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numpy.typing import ArrayLike, NDArray

from tokenpath.hw.arch import numeric, timing

Function = TypeVar("Function", bound=Callable[..., Any])


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _plain(value: Any) -> Any:
    """The Python function behind a kernel or an intrinsic; other values as they are."""
    return getattr(value, "py_func", getattr(value, "_defn", value))


def _frozen(function: FunctionType) -> Iterator[Any]:
    """What compiling a function freezes: globals, attributes of modules, closure, defaults."""
    for cell in function.__closure__ or ():
        yield _plain(cell.cell_contents)
    yield function.__defaults__
    for code in _codes(function.__code__):
        scope = function.__globals__
        found = [scope[name] for name in code.co_names if name in scope]
        for module in [value for value in found if isinstance(value, ModuleType)]:
            found += [getattr(module, name) for name in code.co_names if hasattr(module, name)]
        for value in found:
            yield getattr(value, "targetoptions", None)
            yield _plain(value)


def stamp(function: Callable[..., Any]) -> str:
    """Hash over all that a function's machine code contains, the functions it calls included."""
    digest, seen, todo = hashlib.sha256(), set(), [function]
    while todo:
        current = cast(FunctionType, todo.pop())
        if current in seen:
            continue
        seen.add(current)
        for code in _codes(current.__code__):
            constants = [c for c in code.co_consts if not isinstance(c, CodeType)]
            digest.update(repr((code.co_code, code.co_names, constants)).encode())
        for value in _frozen(current):
            if isinstance(value, FunctionType):
                digest.update(f"{value.__module__}.{value.__qualname__}".encode())
                if value.__module__.partition(".")[0] not in ("numpy", "numba"):
                    todo.append(value)
            elif isinstance(value, np.ndarray):
                digest.update(repr((value.dtype, value.shape)).encode() + value.tobytes())
            elif isinstance(value, ModuleType):
                digest.update(value.__name__.encode())
            else:
                digest.update(re.sub(" at 0x[0-9a-f]+", "", repr(value)).encode())
    return digest.hexdigest()


class _Cache(FunctionCache):
    """numba's cache of one function's machine code, void when its :func:`stamp` changes."""

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        del self._cache_file

    @cached_property
    def _cache_file(self) -> IndexDataCacheFile:  # type: ignore[override]
        """Made on first use, when the module of the function is complete."""
        name = f"{self._py_func.__module__}.{self._py_func.__qualname__}"
        base = f"{name}-py{sys.version_info[0]}{sys.version_info[1]}"
        mark = stamp(self._py_func)
        return IndexDataCacheFile(self._cache_path, base, mark)  # type: ignore[no-untyped-call]

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        """Which machine code is a signature's: numba adds the closure, pickled, which differs in
        each process where it holds a compiled function. The stamp has told it already."""
        return sig, codegen.magic_tuple()


@contextlib.contextmanager
def _held() -> Iterator[None]:
    """Ctrl-C waits until the end of the block: within LLVM's callbacks it would be lost."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt


def _njit(function: Callable[..., Any], inline: str) -> Any:
    options: Any = {"error_model": "numpy", "no_cfunc_wrapper": True, "inline": inline}
    compiled: Any = njit(**options)(function)
    if compiled is function:  # NUMBA_DISABLE_JIT: plain Python, for debuggers
        return function
    with contextlib.suppress(RuntimeError):  # nowhere to write: compile in each process
        compiled._cache = _Cache(cast(FunctionType, function))
    compiles = compiled._compile_for_args  # or loads

    def held(*args: Any, **kws: Any) -> Any:
        with _held():
            return compiles(*args, **kws)

    compiled._compile_for_args = held
    template = compiled.get_call_template
    compiled.get_call_template = lambda args, kws: template(tuple(map(types.unliteral, args)), kws)
    return compiled


def kernel(function: Function) -> Function:
    """``function``, compiled on its first call with given types, or loaded from disk.

    Divisors must not be 0. Integer literals are arguments like any other integers, while numba
    would compile ``f(x, 1)`` and ``f(x, 2)`` apart.
    """
    return cast(Function, _njit(function, "never"))


def unlocked(function: Function) -> Function:
    """A kernel that runs without the GIL."""
    compiled: Any = kernel(function)
    if compiled is not function:
        compiled.targetoptions["nogil"] = True
    return cast(Function, compiled)


def variant(function: Function, name: str) -> Function:
    """A kernel made of a function that is defined once and closes over different others; ``name``
    is its own. It runs without the GIL."""
    function.__qualname__ = name
    return unlocked(function)


def part(function: Function) -> Function:
    """A kernel that becomes a part of each kernel that calls it, for what is called in one place.

    LLVM optimises a kernel again in every kernel around it, but a part only once.
    """
    return cast(Function, _njit(function, "always"))


def _compile(module: ModuleType) -> ModuleType:
    """The public functions of a module, compiled: they call each other, and tables are arrays."""
    scope = {
        name: np.array(value, np.int64) if isinstance(value, tuple) else value
        for name, value in vars(module).items()
    }
    compiled = ModuleType(f"{module.__name__}.compiled")
    for name, value in vars(module).items():
        own = isinstance(value, FunctionType) and value.__module__ == module.__name__
        if own and not name.startswith("_"):
            scope[name] = kernel(FunctionType(value.__code__, scope, name, value.__defaults__))
            setattr(compiled, name, scope[name])
    return compiled


def _over_arrays(function: Any) -> Callable[..., NDArray[np.int64]]:
    """A compiled function of integers as one of int64 arrays, which broadcast."""
    plain = function.py_func
    names = plain.__code__.co_varnames[: plain.__code__.co_argcount]
    name, call = f"{plain.__name__}_array", ", ".join(f"{name}[i]" for name in names)
    head = f"def {name}({', '.join(names)}, out):"
    text = f"{head}\n for i in range(out.size): out[i] = function({call})"
    scope: dict[str, Any] = {"__name__": plain.__module__, "function": function}
    exec(compile(text, plain.__code__.co_filename, "exec"), scope)  # only names of arguments vary
    loop = kernel(scope[name])

    def over_arrays(*arguments: ArrayLike) -> NDArray[np.int64]:
        shape = np.broadcast_shapes(*(np.shape(a) for a in arguments))
        out = np.empty(shape, np.int64)
        wide = (np.array(np.broadcast_to(a, shape), np.int64) for a in arguments)
        loop(*(a.reshape(-1) for a in wide), out.reshape(-1))
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
