"""Sequencer: the instruction queue of one engine."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch.isa import ADDRESS_BITS, LENGTH_BITS, SEMAPHORE_BITS, Engine
from tokenpath.hw.load import SLOTS, row_fields

START_CYCLES = 2
"""From ``go`` to the first cycle in which an instruction may issue: cycle 0 of a step."""


def row_layout(engine: Engine) -> data.StructLayout:
    """A row of an engine's code memory."""
    shapes = {f.name: signed(f.bits) if f.signed else unsigned(f.bits) for f in row_fields(engine)}
    return data.StructLayout(shapes)


def operand_layout(engine: Engine) -> data.StructLayout:
    """An instruction with its operands resolved: addresses signed, lengths not."""
    unsigned_ = {"op", "q", "n", "m"}
    return data.StructLayout(
        {
            field.name: unsigned(field.bits) if field.name in unsigned_ else signed(field.bits)
            for field in row_fields(engine)
            if field.name not in ("wait", "post", "wait_n") and not field.name.endswith("_reg")
        }
    )


class Sequencer(wiring.Component):
    """Offers the instructions of one engine in order, each as soon as the one before is over.

    Rows are fetched and operands resolved ahead, two cycles in front of the offer, so that an
    instruction that is over in t is followed by one that may issue in t + 1.

    Members
    -------
    go : ``In(1)``
        A step begins: cycle 0, the first in which an instruction may issue, is START_CYCLES
        later. Only while ``idle``.
    length : ``In(range(words + 1))``
        Instructions of the program.
    slots : ``In(ArrayLayout(signed(32), SLOTS))``
        The registers of the step, from slot 1 on; unchanged from ``go`` until ``idle``.
    operands : ``Out(operand_layout(engine))``
        The offered instruction; held until the cycle in which it is over.
    wait, need, enough : ``Out(7)``, ``Out(24)``, ``In(1)``
        What it waits for, and whether the semaphore holds it.
    issue : ``Out(1)``
        Pulse: the instruction issues in this cycle t, ``need`` is taken.
    instant : ``In(1)``
        The offered instruction has a duration of 0: it is over in t. In the same cycle as
        ``operands``, before ``issue``.
    done : ``In(1)``
        The execution is over, in t + d; only behind an issue that wasn't instant.
    over : ``Out(1)``, post : ``Out(7)``
        Pulse in t or t + d, the semaphore to post then (0: none).
    idle : ``Out(1)``
        Nothing is left to do.
    load, load_address, load_row : ``In``
        Write port of the code memory; only while ``idle``.
    """

    def __init__(self, *, engine: Engine, words: int) -> None:
        self.engine, self.words = engine, words
        self.row_layout, self.operand_layout = row_layout(engine), operand_layout(engine)
        super().__init__(
            {
                "go": In(1),
                "length": In(range(words + 1)),
                "slots": In(data.ArrayLayout(signed(ADDRESS_BITS), SLOTS)),
                "operands": Out(self.operand_layout),
                "wait": Out(SEMAPHORE_BITS),
                "need": Out(LENGTH_BITS),
                "enough": In(1),
                "issue": Out(1),
                "instant": In(1),
                "done": In(1),
                "over": Out(1),
                "post": Out(SEMAPHORE_BITS),
                "idle": Out(1),
                "load": In(1),
                "load_address": In(range(words)),
                "load_row": In(self.row_layout.size),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.code = self.code = memory.Memory(
            shape=unsigned(self.row_layout.size), depth=self.words, init=[]
        )
        read, write = self.code.read_port(), self.code.write_port()
        pc, running = Signal(range(self.words + 1)), Signal()
        fetched, offered, busy = Signal(), Signal(), Signal()
        resolves = fetched & (~offered | self.over)  # the fetched row moves on to the offer
        at, left = Mux(self.go, 0, pc), Mux(self.go, self.length != 0, running)
        fetches = left & (~fetched | resolves)
        following = (at + fetches)[: len(pc)]
        m.d.comb += [
            read.addr.eq(at),
            read.en.eq(fetches),
            write.addr.eq(self.load_address),
            write.data.eq(self.load_row),
            write.en.eq(self.load),
            self.issue.eq(offered & ~busy & self.enough),
            self.over.eq((self.issue & self.instant) | (busy & self.done)),
            self.idle.eq(~offered & ~fetched & ~running),
        ]
        m.d.sync += [
            busy.eq((self.issue & ~self.instant) | (busy & ~self.done)),
            offered.eq(resolves | (offered & ~self.over)),
            fetched.eq(fetches | (fetched & ~resolves)),
            pc.eq(following),
            running.eq(left & (following != self.length)),
        ]
        with m.If(resolves):
            self._resolve(m, data.View(self.row_layout, read.data))
        return m

    def _resolve(self, m: Module, row: data.View) -> None:
        """Add the registers of the step to the immediates."""
        slots = Cat(Const(0, ADDRESS_BITS), self.slots.as_value())
        names = [field.name for field in row_fields(self.engine)]
        for name in names:
            value = getattr(row, name)
            if f"{name}_reg" in names:
                slot = getattr(row, f"{name}_reg")
                value = value + slots.word_select(slot, ADDRESS_BITS).as_signed()
            if name == "wait_n":
                m.d.sync += self.need.eq(value)
            elif name in ("wait", "post"):
                m.d.sync += getattr(self, name).eq(value)
            elif not name.endswith("_reg"):
                m.d.sync += getattr(self.operands, name).eq(value)
