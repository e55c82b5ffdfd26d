"""What kernels are made of: inner functions, pointers; and a word before one is compiled.

Kernels get the addresses of their arrays, and index bare pointers. An array would be a structure
of seven fields that each function passes on and counts references of, which cost most of the time
that a flit or an instruction takes.
"""

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

ir: Any = vars(cgutils)["ir"]  # the llvmlite that numba builds with

Function = TypeVar("Function", bound=Callable[..., Any])

log = logging.getLogger(__name__)

COMPILING = "compiling the simulator (once; cached afterwards) ..."


def inner(function: Function) -> Function:
    """``function`` compiled within the kernels that call it, nothing of its own on disk.

    It has no wrapper for Python: calling it from there crashes. Integer literals are
    arguments like any other integers, as with ``compiled.kernel``.
    """
    return _inner(function, False)


def hot(function: Function) -> Function:
    """An ``inner`` function that LLVM always inlines: a call pushes every pointer of the state."""
    return _inner(function, True)


def _inner(function: Function, always: bool) -> Function:
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    options["forceinline"] = always
    compiled: Any = njit(error_model="numpy", **options)(function)
    if compiled is not function:  # NUMBA_DISABLE_JIT
        template = compiled.get_call_template
        compiled.get_call_template = lambda args, kws: template(
            tuple(map(types.unliteral, args)), kws
        )
    return cast(Function, compiled)


@inner
def wide(value: int) -> int:
    """A number of 32 bits as one of 64, the only integers that functions are compiled for."""
    return value + 0


def _pointer(kind: Any) -> Any:
    target: Any = types.CPointer(kind)  # type: ignore[no-untyped-call]

    @intrinsic
    def pointer(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(target))

        return target(types.int64), generate

    return pointer


pointer8, pointer16 = _pointer(types.int8), _pointer(types.int16)
pointer32, pointer64 = _pointer(types.int32), _pointer(types.int64)
"""From an address to something to index, without any check."""


def _first_bit(typing: Any, word: Any) -> Any:
    """The place of the lowest 1 of a word that isn't 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        defined = context.get_constant(types.boolean, True)
        return builder.cttz(arguments[0], builder.trunc(defined, cgutils.bool_t))

    return types.int64(types.int64), generate


first_bit: Callable[[int], int] = cast(Any, intrinsic(_first_bit))


def _prefetch(typing: Any, array: Any, at: Any) -> Any:
    """Ask for the cache line of place ``at`` to be there soon."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        flag, byte = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        name, module = "llvm.prefetch.p0i8", builder.module
        function = module.globals.get(name) or ir.Function(module, kind, name)
        address = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), byte)
        builder.call(function, [address, flag(1), flag(3), flag(1)])  # to write, keep, data
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


prefetch: Callable[[Any, int], None] = cast(Any, intrinsic(_prefetch))


def is_cached(compiled: Any) -> bool:
    """Whether a kernel is compiled or has machine code on disk. True when numba can't tell."""
    try:
        return bool(compiled.signatures or compiled._cache._cache_file._load_index())
    except (AttributeError, OSError):
        return True


def announce(*kernels: Any) -> bool:
    """Log :data:`COMPILING` if the first call of one of the kernels is going to compile."""
    cold = not all(map(is_cached, kernels))
    if cold:
        log.warning(COMPILING)
    return cold
