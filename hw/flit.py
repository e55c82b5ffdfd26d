"""What travels between tiles: flits, the header of a packet, and the descriptors it is cut from.

A packet is one or more flits of ``flit_words`` words: the words of :data:`HEADER`, then the
payload. ``destination`` is not a tile number but the tile's coordinates, packed by
:func:`destination`, so that no router has to divide; where all sizes are powers of two both are
the same number.
"""

from collections.abc import Sequence

from amaranth.hdl import Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import SEMAPHORE_BITS

DESTINATION_BITS = ADDRESS_BITS = WORDS_BITS = 24

HEADER = data.StructLayout(
    {
        "destination": unsigned(DESTINATION_BITS),
        "op": unsigned(2),  # PutOp
        "last": unsigned(6),  # place of the last word in the packet's tail flit
        "address": unsigned(ADDRESS_BITS),  # of the first payload word, in words
        "semaphore": unsigned(SEMAPHORE_BITS),  # posted when the packet is complete; 0: none
        "spare": unsigned(1),
    }
)
"""The first two words of a packet."""

DESCRIPTOR = data.StructLayout(
    {
        "destination": unsigned(DESTINATION_BITS),
        "source": unsigned(ADDRESS_BITS),  # added to the source of the PUT
        "words": unsigned(WORDS_BITS),
        "target": unsigned(ADDRESS_BITS),  # added to the destination address of the PUT
    }
)
"""A row of a tile's descriptor memory."""


def coordinate_bits(sizes: Sequence[int]) -> tuple[int, ...]:
    """Bits of each coordinate in a packed position; raises InputError beyond 24 in all."""
    bits = tuple(ceil_log2(size) for size in sizes)
    if sum(bits) > DESTINATION_BITS:
        raise InputError(
            f"coordinates of sizes {tuple(sizes)} need {sum(bits)} bits, a header has "
            f"{DESTINATION_BITS}: use fewer or larger dimensions"
        )
    return bits


def destination(sizes: Sequence[int], tile: int) -> int:
    """The packed coordinates of a tile, the first dimension lowest."""
    packed = at = 0
    for size, bits in zip(sizes, coordinate_bits(sizes), strict=True):
        packed |= tile % size << at
        tile //= size
        at += bits
    return packed


def coordinates(sizes: Sequence[int], packed: Value) -> list[Value]:
    """Those of a packed position; that of a size of 1 has no bits."""
    values, at = [], 0
    for bits in coordinate_bits(sizes):
        values.append(packed[at : at + bits])
        at += bits
    return values


def descriptor(*, destination: int, source: int, words: int, target: int) -> int:
    """The memory word of a descriptor; addresses are cut to their field (they may be negative)."""
    mask = (1 << ADDRESS_BITS) - 1
    fields = {"source": source & mask, "target": target & mask, "words": words}
    return DESCRIPTOR.const({"destination": destination, **fields}).as_value().value


def flit_layout(*, flit_words: int, vcs: int) -> data.StructLayout:
    """``data`` (its words), ``head``, ``tail``, ``vc`` (0 wherever a link has but one)."""
    return data.StructLayout(
        {
            "data": data.ArrayLayout(32, flit_words),
            "head": 1,
            "tail": 1,
            "vc": unsigned(vc_bits(vcs)),
        }
    )


def vc_bits(vcs: int) -> int:
    """Bits of the number of a virtual channel, at least 1."""
    return max(1, ceil_log2(vcs))


def flits(*, flit_words: int, vcs: int) -> wiring.Signature:
    """A flit in each cycle with ``valid``: there is no ``ready``, a sender holds a credit."""
    layout = flit_layout(flit_words=flit_words, vcs=vcs)
    return wiring.Signature({"valid": Out(1), "flit": Out(layout)})


def channel(*, flit_words: int, vcs: int, lanes: int) -> wiring.Signature:
    """One way of a link: a flit forward, and a credit back for each of its ``lanes`` VCs.

    ``vcs`` is the most of any link and sets the width of ``vc``; ``credit[v]`` is 1 in a cycle in
    which a slot of VC v becomes free.
    """
    layout = flit_layout(flit_words=flit_words, vcs=vcs)
    return wiring.Signature({"valid": Out(1), "flit": Out(layout), "credit": In(lanes)})
