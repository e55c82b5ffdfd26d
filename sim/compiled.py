"""The functions of hw/arch, compiled: one source for the integers of the golden model and of the fast simulator.

``jit.shift_round`` is :func:`tokenpath.hw.arch.numeric.shift_round` for numba kernels, ``array.shift_round`` the same as a numpy
ufunc over int64 arrays. Nothing is written twice; the tests compare the compiled functions with the plain ones.
"""

import inspect
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from numba import njit, vectorize

from tokenpath.hw.arch import numeric, timing


def _functions(module: ModuleType) -> dict[str, FunctionType]:
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__ and not name.startswith("_")
    }


def _compile(module: ModuleType) -> SimpleNamespace:
    """The public functions of a module, compiled in the order of their definition so that they call each other."""
    scope: dict[str, Any] = {k: v for k, v in vars(module).items() if not isinstance(v, FunctionType)}
    compiled: dict[str, Any] = {}
    functions = sorted(_functions(module).items(), key=lambda item: item[1].__code__.co_firstlineno)
    for name, function in functions:
        twin = FunctionType(function.__code__, scope, name, function.__defaults__)
        compiled[name] = scope[name] = njit(cache=True, inline="never")(twin)
    return SimpleNamespace(**compiled)


def _ufunc(name: str) -> Any:
    function = getattr(jit, name)
    count = len(inspect.signature(function.py_func).parameters)
    names = ", ".join(f"a{i}" for i in range(count))
    scope: dict[str, Any] = {"function": function}
    exec(f"def {name}({names}):\n    return function({names})", scope)  # fixed text, numba needs the arity
    return vectorize([f"int64({', '.join(['int64'] * count)})"])(scope[name])


class _Lazy:
    """Ufuncs of numeric's functions, built on first use."""

    def __getattr__(self, name: str) -> Any:
        built = _ufunc(name)
        setattr(self, name, built)
        return built


jit = _compile(numeric)
time = _compile(timing)
array: Any = _Lazy()
