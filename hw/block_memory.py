"""BlockMemory: beats that QUANT writes block by block: operand memory, append buffer."""

from amaranth.hdl import Module
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from tokenpath.hw.beat import beat_layout


class BlockMemory(wiring.Component):
    """``beats`` beats with one write port, by block, and one read port. Contents start as zeros.

    Members
    -------
    write_blocks : ``In(lanes // block)``
        Blocks of the beat that are written in this cycle, one bit each; all ones for a whole beat.
    write_address : ``In(range(beats))``
    write_beat : ``In(beat_layout(...))``
        Visible to a read with its address in the next cycle.
    read_address : ``In(range(beats))``
    read_enable : ``In(1)``
        Without it ``read_beat`` stays.
    read_beat : ``Out(beat_layout(...))``
        The beat at the address of the cycle before.
    """

    def __init__(
        self, *, beats: int, lanes: int, block: int, element_bits: int, scale_bits: int
    ) -> None:
        self.beats, self.lanes, self.block = beats, lanes, block
        self.layout = beat_layout(
            lanes=lanes, block=block, element_bits=element_bits, scale_bits=scale_bits
        )
        super().__init__(
            {
                "write_blocks": In(lanes // block),
                "write_address": In(range(beats)),
                "write_beat": In(self.layout),
                "read_address": In(range(beats)),
                "read_enable": In(1),
                "read_beat": Out(self.layout),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in ("elements", "scales"):
            field = self.layout[name].shape
            per_block = field.length // (self.lanes // self.block)
            shape = data.ArrayLayout(field.elem_shape, field.length)
            store = memory.Memory(shape=shape, depth=self.beats, init=[])
            m.submodules[name] = store
            write, read = store.write_port(granularity=per_block), store.read_port()
            m.d.comb += [
                write.addr.eq(self.write_address),
                write.data.eq(getattr(self.write_beat, name)),
                write.en.eq(self.write_blocks),
                read.addr.eq(self.read_address),
                read.en.eq(self.read_enable),
                getattr(self.read_beat, name).eq(read.data),
            ]
        return m
