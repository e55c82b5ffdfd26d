"""A binary heap of events: int64 keys ``cycle << 26 | identifier``, the smallest first."""

import numpy as np
from numpy.typing import NDArray

from .jit import inner

I64 = NDArray[np.int64]

ID_BITS = 26
ID_MASK = (1 << ID_BITS) - 1


@inner
def push(heap: I64, count: int, key: int) -> int:
    """Add a key to the ``count`` keys of the heap; returns the new count."""
    at = count
    while at > 0:
        above = (at - 1) >> 1
        if heap[above] <= key:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = key
    return count + 1


@inner
def pop(heap: I64, count: int) -> int:
    """Take the smallest key (``heap[0]``, to be read before) away; returns the new count."""
    count -= 1
    key = heap[count]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        if below + 1 < count and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= key:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = key
    return count
