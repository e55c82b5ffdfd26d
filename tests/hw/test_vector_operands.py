"""The operands are those of the instruction layout."""

from amaranth.hdl import Shape

from tokenpath.hw.arch.isa import LAYOUT
from tokenpath.hw.vector_operands import Operands


def test_each_field_holds_what_an_instruction_says():
    layout = {field.name: field for field in LAYOUT}
    for name, member in Operands.as_shape():
        shape, field = Shape.cast(member.shape), layout[name]
        lengths = name in ("n", "m")  # resolved, they aren't negative
        assert (shape.width, shape.signed) == (field.bits, field.signed and not lengths)
