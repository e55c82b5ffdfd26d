"""Fixed-point arithmetic on Amaranth values: numeric.py's rounding rule as combinational logic.

Each function adds its logic to a module and returns the signal that holds the result, so that a
result may be used many times. The widths of results are those of the values that can occur.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, ValueLike, signed

from tokenpath.hw.arch.numeric import WORD_MAX

WORD_BITS = 32


def wire(m: Module, value: ValueLike, name: str) -> Signal:
    """A combinational signal with the value and the shape of an expression."""
    held = Signal(Value.cast(value).shape(), name=name)
    m.d.comb += held.eq(value)
    return held


def delay(m: Module, value: ValueLike, cycles: int, name: str, *, reset_less: bool = True) -> Value:
    """The value of ``cycles`` cycles ago. Reset clears it only if ``reset_less`` is False."""
    late = Value.cast(value)
    for stage in range(1, cycles + 1):
        register = Signal(late.shape(), name=f"{name}_{stage}", reset_less=reset_less)
        m.d.sync += register.eq(late)
        late = register
    return late


def shift_round(m: Module, value: Value, shift: Value | int, *, left: int = 0) -> Signal:
    """``value / 2**shift`` rounded half up, nothing clamped; -left <= shift.

    A constant shift isn't negative and costs an adder; another one costs a shifter that is
    ``left`` bits wider than the value.
    """
    value = Value.cast(value)
    wide = value if value.shape().signed else Cat(value, Const(0, 1)).as_signed()
    places = Const(shift + left) if isinstance(shift, int) else (shift + left).as_unsigned()
    padded = wire(m, Cat(Const(0, left + 1), wide).as_signed(), "padded")
    moved = wire(m, padded >> places, "moved")
    return wire(m, moved[1:].as_signed() + moved[0], "rounded")


def saturate(m: Module, value: Value, bits: int = WORD_BITS) -> Signal:
    """``value`` clamped to a signed number of ``bits``."""
    if len(value) <= bits and Value.cast(value).shape().signed:
        return wire(m, value, "saturated")
    value = value if value.shape().signed else Cat(value, Const(0, 1)).as_signed()
    sign, result = value[-1], Signal(signed(bits), name="saturated")
    fits = value[bits - 1 :] == sign.replicate(len(value) - bits + 1)
    rail = Cat((~sign).replicate(bits - 1), sign)
    m.d.comb += result.eq(Mux(fits, value[:bits], rail))
    return result


def clamp(m: Module, value: Value, low: ValueLike, high: ValueLike) -> Signal:
    """``value`` clamped to low..high; the result is as wide as the wider bound."""
    low, high = Value.cast(low), Value.cast(high)
    bits = max(len(bound) + (not bound.shape().signed) for bound in (low, high))
    result = Signal(signed(bits), name="clamped")
    m.d.comb += result.eq(Mux(value > high, high, Mux(value < low, low, value)))
    return result


def at_rail(word: Value) -> Value:
    """Whether a word is the largest or the smallest one."""
    return (word == WORD_MAX) | (word == -WORD_MAX - 1)


def magnitude(m: Module, word: Value) -> Signal:
    """Absolute value of a signed number, unsigned and as wide."""
    result = Signal(len(word), name="magnitude")
    m.d.comb += result.eq(Mux(word[-1], -word, word))
    return result


def normalise(m: Module, value: Value) -> tuple[Signal, Signal]:
    """A positive value moved left until its top bit is set, and its bit length.

    The moved value has as many bits as the power of 2 that isn't below the width of ``value``.
    """
    width = 1 << (len(value) - 1).bit_length()
    moved = Signal(width, name="unmoved")
    m.d.comb += moved.eq(value)
    zeros: list[Value] = []
    step = width >> 1
    while step:
        empty = wire(m, ~moved[width - step :].any(), f"empty_{step}")
        moved = wire(m, Mux(empty, moved.shift_left(step), moved)[:width], f"moved_{step}")
        zeros.insert(0, empty)
        step >>= 1
    length = Signal(range(width + 1), name="length")
    m.d.comb += length.eq(width - Cat(*zeros) if zeros else 1)
    return moved, length
