"""The state of a simulated array: arrays for Python, the same as pointers for kernels."""

from collections.abc import Hashable
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from .jit import inner, pointer16, pointer32, pointer64

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I16 = NDArray[np.int16]


class Engines(NamedTuple):
    """Everything but the network, by rows of columns.py.

    Coming events: far ones in ``heap``, near ones in a list by cycle, whose first engine
    ``calendar`` has (-1: none), each with the one behind it in ``following``. ``ready`` holds
    engines to look at in this cycle, ``deliveries`` pairs of (cycle, packet). ``free_packets``
    begins with its length; ``destinations`` has the tile that each packet goes to. ``semaphores``
    and ``registers`` have a row a tile, as long as the program needs; ``descriptors`` is the
    program's image.
    """

    g: I64
    constants: I64
    code: I64
    engines: I64
    interfaces: I64
    streams: I64
    pairs: I64
    semaphores: I32
    registers: I32
    descriptors: I32
    heap: I64
    calendar: I32
    following: I32
    ready: I64
    deliveries: I64
    packets: I64
    free_packets: I64
    destinations: I32
    log: I64
    records: I32
    record0: I64


class Network(NamedTuple):
    """Routers and links, by rows of columns.py.

    ``credits``: ``outputs`` again, in halves of its words. ``busy`` has a bit for each buffer with
    flits, by its place, ``summary`` one for each block of nodes that may have one; ``blocks`` says
    where the words of each block begin. ``injecting`` holds tiles with something to send,
    ``winners`` the rows of a block's outputs that are asked for; ``room``, the credits of each
    channel of an idle network. ``coordinates`` (tiles, dims); ``hub_dim`` of each switch node;
    ``routes`` a square table for each dimension, in which ``rows`` (tiles, dims) says where a
    tile's row begins. ``port_ring`` is the dimension of a tile's port + 1 if that is a ring.
    ``table`` (tiles, tiles): the outputs of a routing table. ``arbiters``, ``asking`` and
    ``matching`` belong to ``allocators``.
    """

    counts: I64
    buffers: I32
    outputs: I32
    credits: I16
    busy: I64
    summary: I64
    blocks: I32
    injecting: I32
    winners: I32
    queues: I64
    links: I64
    node_port0: I32
    coordinates: I32
    hub_dim: I32
    rows: I32
    routes: I32
    room: I32
    port_ring: I32
    table: I32
    arbiters: I64
    asking: I32
    matching: I64


@cache
def _types(kind: Any) -> tuple[Any, ...]:
    """The type of the elements of each field of a tuple of arrays."""
    hints: dict[str, Any] = get_type_hints(kind)
    return tuple(get_args(get_args(hint)[1])[0] for hint in hints.values())


def addresses(arrays: tuple[Any, ...]) -> I64:
    """Where the arrays of a NamedTuple are, valid as long as they live. Raises TypeError for one
    of another type.
    """
    kind_of: Hashable = type(arrays)
    names, kinds = type(arrays)._fields, _types(kind_of)  # type: ignore[attr-defined]
    for name, array, kind in zip(names, arrays, kinds, strict=True):
        if array.dtype != kind or not array.flags.c_contiguous:
            raise TypeError(f"{name} is {array.dtype}: make it contiguous {kind.__name__}")
    return np.array([array.ctypes.data for array in arrays], np.int64)


@inner
def engines_at(a: I64) -> Engines:
    """The fields of Engines as pointers, from their addresses."""
    return Engines(
        pointer64(a[0]), pointer64(a[1]), pointer64(a[2]), pointer64(a[3]), pointer64(a[4]),
        pointer64(a[5]), pointer64(a[6]), pointer32(a[7]), pointer32(a[8]), pointer32(a[9]),
        pointer64(a[10]), pointer32(a[11]), pointer32(a[12]), pointer64(a[13]), pointer64(a[14]),
        pointer64(a[15]), pointer64(a[16]), pointer32(a[17]), pointer64(a[18]), pointer32(a[19]),
        pointer64(a[20]),
    )  # fmt: skip


@inner
def network_at(a: I64) -> Network:
    """The fields of Network as pointers, from their addresses."""
    return Network(
        pointer64(a[0]), pointer32(a[1]), pointer32(a[2]), pointer16(a[3]), pointer64(a[4]),
        pointer64(a[5]), pointer32(a[6]), pointer32(a[7]), pointer32(a[8]), pointer64(a[9]),
        pointer64(a[10]), pointer32(a[11]), pointer32(a[12]), pointer32(a[13]), pointer32(a[14]),
        pointer32(a[15]), pointer32(a[16]), pointer32(a[17]), pointer32(a[18]), pointer64(a[19]),
        pointer32(a[20]), pointer64(a[21]),
    )  # fmt: skip
