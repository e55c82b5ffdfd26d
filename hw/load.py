"""What a program's images become in the memories of a tile: plain integers, one a row.

Static registers are added to the immediates here; only the registers of the step rules remain in
hardware, as *slots*: slot 0 reads as 0, slot s is register ``rules[s - 1]``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import COLUMN, ENGINE_OPS, LAYOUT, OPERANDS, Engine, Field
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Program
from tokenpath.hw.arch.reach import flat, shape_of
from tokenpath.hw.flit import descriptor, destination

SLOTS = 16
"""Registers of a tile that the host writes between steps."""

SLOT_BITS = SLOTS.bit_length()

_ALWAYS = ("op", "wait", "wait_n", "post")


def row_fields(engine: Engine) -> tuple[Field, ...]:
    """The fields of a row of an engine's code memory, first in the lowest bits.

    Those of LAYOUT that an operation of the engine reads; a register's number becomes a slot's.
    """
    named = {name for op in ENGINE_OPS[engine] for name in OPERANDS[op]}.union(_ALWAYS)
    return tuple(
        Field(field.name, SLOT_BITS) if field.name.endswith("_reg") else field
        for field in LAYOUT
        if field.name.removesuffix("_reg") in named
    )


def element_bits(arch: Arch) -> int:
    """Bits of an element in the store."""
    return max(arch.numeric.weight.bits, arch.numeric.kv.bits)


def scale_bits(arch: Arch) -> int:
    """Bits of a scale, in the store and in operand memory."""
    numeric = arch.numeric
    return 8 + max(fmt.mantissa_bits for fmt in (numeric.weight, numeric.kv, numeric.act))


@dataclass(frozen=True, kw_only=True)
class Images:
    """Rows of the memories of one tile, from address 0 on; behind them the memories stay 0.

    ``code`` by engine, ``vector`` in words (unsigned), ``store`` in beats.
    """

    code: tuple[list[int], ...]
    descriptors: list[int]
    vector: list[int]
    store: list[int]


def images(program: Program) -> Iterator[Images]:
    """The images of all tiles in turn. Raises InputError for what the hardware can't hold."""
    arch = program.arch
    if len(program.rules) > SLOTS:
        raise InputError(
            f"the program has {len(program.rules)} registers that change from step to step and a "
            f"tile has {SLOTS}; give --executor fast, which has as many as needed"
        )
    sizes = [dim.size for dim in arch.topology.dims]
    places = [destination(sizes, tile) for tile in range(program.tiles)]
    shared = flat(program.vector_shared).tolist()
    own, own_words = flat(program.vector_tile), shape_of(program.vector_tile)[1]
    for tile in range(program.tiles):
        words = [*shared, *own[tile * own_words : (tile + 1) * own_words].tolist()]
        yield Images(
            code=tuple(_code(program, tile, engine) for engine in Engine),
            descriptors=_descriptors(program, tile, places),
            vector=[word & 0xFFFFFFFF for word in words],
            store=_store(program, tile),
        )


def step_slots(program: Program, position: int, token: int) -> list[list[int]]:
    """The slots of all tiles in one step: ``SLOTS`` numbers a tile, from slot 1 on."""
    rules = {rule.register: slot for slot, rule in enumerate(program.rules)}
    slots = [[0] * SLOTS for _ in range(program.tiles)]
    for tile, register, value in program.step_registers(position, token):
        slots[tile][rules[register]] = value
    return slots


def _code(program: Program, tile: int, engine: Engine) -> list[int]:
    fields = row_fields(engine)
    rules = {rule.register: slot for slot, rule in enumerate(program.rules, 1)}
    rows = []
    for index, row in enumerate(program.instructions(tile, engine)):
        word, at = 0, 0
        for field in fields:
            value = row[COLUMN[field.name]]
            if field.name.endswith("_reg"):
                value = rules.get(value, 0)
            elif f"{field.name}_reg" in COLUMN:
                register = row[COLUMN[f"{field.name}_reg"]]
                if register not in rules:
                    value += program.registers[tile, register]
                _fits(program, tile, engine, index, field, value)
            word |= (value & ((1 << field.bits) - 1)) << at
            at += field.bits
        rows.append(word)
    return rows


def _fits(
    program: Program, tile: int, engine: Engine, index: int, field: Field, value: int
) -> None:
    limit = 1 << (field.bits - 1)
    if not -limit <= value < limit:
        where = program.where(tile, engine, index)
        raise InputError(
            f"{where}: {field.name} {value} is outside {-limit}..{limit - 1}; compile it again"
        )


def _descriptors(program: Program, tile: int, places: list[int]) -> list[int]:
    count, table = shape_of(program.descriptors)[1], flat(program.descriptors)
    rows = []
    for at in range(4 * tile * count, 4 * (tile + 1) * count, 4):
        to, source, words, target = table[at : at + 4].tolist()
        rows.append(descriptor(destination=places[to], source=source, words=words, target=target))
    return rows


def _store(program: Program, tile: int) -> list[int]:
    arch, beats = program.arch, program.store_beats_used
    lanes, blocks = arch.lanes, arch.blocks_per_beat
    if program.elements is None or program.scales is None:
        return []
    elements, scales = flat(program.elements), flat(program.scales)
    bits, wide = element_bits(arch), scale_bits(arch)
    rows = []
    for beat in range(tile * beats, (tile + 1) * beats):
        row = elements[beat * lanes : (beat + 1) * lanes]
        low = int.from_bytes(row.tobytes(), "little") if bits == 8 else _packed(row.tolist(), bits)
        high = _packed(scales[beat * blocks : (beat + 1) * blocks].tolist(), wide)
        rows.append(low | high << lanes * bits)
    return rows


def _packed(values: list[int], bits: int) -> int:
    word = 0
    for value in reversed(values):
        word = word << bits | value & ((1 << bits) - 1)
    return word
