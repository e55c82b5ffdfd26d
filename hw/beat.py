"""Beat: what one cycle of a stream carries, elements and their scales."""

from amaranth.hdl import Cat, Mux, Value, signed, unsigned
from amaranth.lib import data


def beat_layout(*, lanes: int, block: int, element_bits: int, scale_bits: int) -> data.StructLayout:
    """``elements``: ``lanes`` signed integers; ``scales``: one signed code each ``block`` lanes."""
    if lanes % block:
        raise ValueError(f"lanes {lanes} is not a multiple of the block of {block} elements")
    return data.StructLayout(
        {
            "elements": data.ArrayLayout(signed(element_bits), lanes),
            "scales": data.ArrayLayout(signed(scale_bits), lanes // block),
        }
    )


def scale_mantissa(code: Value, mantissa_bits: int) -> Value:
    """``2**k + m`` of a scale code with k mantissa bits; k + 1 bits, unsigned."""
    return Cat(code[:mantissa_bits], 1)


def scale_exponent(code: Value, mantissa_bits: int) -> Value:
    """Exponent of a scale code, signed."""
    return code[mantissa_bits:].as_signed()


def tree_sum(values: list[Value]) -> Value:
    """Sum of values as a balanced tree; each level is one bit wider."""
    while len(values) > 1:
        pairs = [a + b for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(values) // 2 * 2 :]
    return values[0]


def at_most(value: Value, limit: int) -> Value:
    """The smaller of an unsigned value and a constant."""
    return Mux(value < limit, value, limit)


def words_layout(words: int) -> data.ArrayLayout:
    """Words of vector memory side by side."""
    return data.ArrayLayout(signed(32), words)


def flags_layout(count: int) -> data.ArrayLayout:
    """One bit each."""
    return data.ArrayLayout(unsigned(1), count)
