"""Scores: score memory of one query and its running maximum."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.arch.numeric import NO_ROWS


class Scores(wiring.Component):
    """``rows`` scores: SCORE writes them in order, AXPY reads them in order.

    Members
    -------
    clear : ``In(1)``
        Begin a new maximum: that of no rows.
    write_enable : ``In(1)``, write_row : ``In(range(rows))``, score : ``In(signed(32))``
        Write a score and let the maximum see it; both are visible in the next cycle.
    maximum : ``Out(signed(32))``
        Largest score since ``clear``, each rounded up to an integer.
    read_enable : ``In(1)``, read_row : ``In(range(rows))``
    read_score : ``Out(signed(32))``
        The score at the row of the last cycle with ``read_enable``, from the next cycle on.
    """

    def __init__(self, *, rows: int, score_frac: int) -> None:
        self.rows, self.score_frac = rows, score_frac
        super().__init__(
            {
                "clear": In(1),
                "write_enable": In(1),
                "write_row": In(range(rows)),
                "score": In(signed(32)),
                "maximum": Out(signed(32), init=NO_ROWS),
                "read_enable": In(1),
                "read_row": In(range(rows)),
                "read_score": Out(signed(32)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = store = memory.Memory(shape=signed(32), depth=self.rows, init=[])
        write, read = store.write_port(), store.read_port()
        m.d.comb += [
            write.en.eq(self.write_enable),
            write.addr.eq(self.write_row),
            write.data.eq(self.score),
            read.en.eq(self.read_enable),
            read.addr.eq(self.read_row),
            self.read_score.eq(read.data),
        ]
        untouched = Signal(init=1)
        fraction = self.score[: self.score_frac]
        ceiling = Signal(signed(33 - self.score_frac))
        m.d.comb += ceiling.eq(self.score[self.score_frac :].as_signed() + fraction.any())
        with m.If(self.clear):
            m.d.sync += [untouched.eq(1), self.maximum.eq(NO_ROWS)]
        with m.Elif(self.write_enable):
            larger = untouched | (ceiling > self.maximum)
            m.d.sync += [untouched.eq(0), self.maximum.eq(Mux(larger, ceiling, self.maximum))]
        return m
