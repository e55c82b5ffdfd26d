"""Resolved operands of an instruction of the vector unit."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data

from tokenpath.hw.arch.isa import ADDRESS_BITS, LENGTH_BITS


class Operands(data.Struct):
    """Register and immediate added; addresses in words of vector memory, or as the ISA says."""

    dst: signed(ADDRESS_BITS)
    src: signed(ADDRESS_BITS)
    aux: signed(ADDRESS_BITS)
    bux: signed(ADDRESS_BITS)
    n: unsigned(LENGTH_BITS)
    m: unsigned(LENGTH_BITS)
    q: unsigned(8)
    x: signed(8)
    y: signed(8)
