"""``kernel``: numba's ``njit`` with a cache that notices when any source of the simulator or of hw/arch changes.

numba's own cache looks at the one file of a function only, but constants of hw/arch (columns, latencies) are frozen
into the machine code of every kernel that reads them. So the stamp of each kernel is a hash over all these sources.
"""

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

log = logging.getLogger(__name__)

COMPILING = "compiling the simulator (once; cached afterwards) ..."


def _stamp() -> str:
    rooms = (Path(__file__).parent, Path(__file__).parents[1], Path(__file__).parents[2] / "hw" / "arch")
    digest = hashlib.sha256()
    for file in sorted(file for room in rooms for file in room.glob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


STAMP = _stamp()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile lazily without the GIL's help, cached under :data:`STAMP`."""
    compiled = njit(cache=True, error_model="numpy")(function)
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if cache_file is not None:
        cache_file._source_stamp = STAMP
    return compiled


def is_cached(compiled: Any) -> bool:
    """Whether a kernel is compiled, or has machine code of this :data:`STAMP` on disk. True when numba can't tell."""
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
