"""Array: tiles, switches and links as the topology says, and the host's way to them."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from tokenpath.hw.arbiter import choose
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.beat import tree_sum
from tokenpath.hw.network import Nodes, link_nodes, tie
from tokenpath.hw.sequencer import START_CYCLES
from tokenpath.hw.tile import Tile, host_members

CYCLE_BITS = 32


class Array(wiring.Component):
    """The machine of an Arch.

    Members
    -------
    host_tile : ``In(range(tiles))``
        The tile that the host writes to and reads from.
    host_write, host_space, host_address, host_data : ``In``, host_word : ``Out(32)``
        As :class:`tokenpath.hw.tile.Tile` has them; only while ``done``.
    go : ``In(1)``
        Pulse: a step begins; its cycle 0 is ``START_CYCLES`` later. Only while ``done``.
    done : ``Out(1)``
        Every instruction of the step has ended and every packet is visible.
    cycles : ``Out(32)``
        While ``done``: the number of the first cycle of the step in which it was.
    """

    def __init__(self, *, arch: Arch, black_boxes: bool = False) -> None:
        """With ``black_boxes`` tiles and switches are Instances of modules "tile", "switch0" ...

        :meth:`modules` has those modules. Simulation in Python needs the components themselves.
        """
        self.arch = arch
        self._nodes = Nodes(arch, "tile", lambda arch: Tile(arch=arch), black_boxes=black_boxes)
        self.tiles: list[Any] = []
        ports = {
            name: Out(member.shape) if member.flow == Out else In(member.shape)
            for name, member in host_members(arch).items()
        }
        super().__init__(
            {
                "host_tile": In(max(1, ceil_log2(arch.tiles))),
                **ports,
                "go": In(1),
                "done": Out(1, init=1),
                "cycles": Out(CYCLE_BITS),
            }
        )

    def modules(self) -> dict[str, wiring.Component]:
        """The different components that an array is made of, by module name."""
        return self._nodes.modules()

    def elaborate(self, platform: object) -> Module:
        m = Module()
        nodes = self._nodes.place(m, "tile")
        self.tiles = nodes[: self.arch.tiles]
        link_nodes(m, self.arch, nodes)
        self._host(m)
        self._time(m)
        return m

    def _host(self, m: Module) -> None:
        for index, tile in enumerate(self.tiles):
            here = self.host_tile == index
            tie(m, tile, self.arch, index)
            m.d.comb += [
                tile.go.eq(self.go),
                tile.host_write.eq(self.host_write & here),
                tile.host_space.eq(self.host_space),
                tile.host_address.eq(self.host_address),
                tile.host_data.eq(self.host_data),
            ]
        words = [tile.host_word for tile in self.tiles]
        m.d.comb += self.host_word.eq(choose(words, self.host_tile))

    def _time(self, m: Module) -> None:
        """Count cycles until all engines are idle and no packet is on its way."""
        flying = Signal(range(1 + self.arch.tiles * 4096))  # packets
        now = Signal(signed(CYCLE_BITS))
        sent = tree_sum([tile.sent for tile in self.tiles])
        received = tree_sum([tile.received for tile in self.tiles])
        idle = Cat(tile.idle for tile in self.tiles).all()
        m.d.comb += [
            self.done.eq((now >= 0) & idle & (flying == 0)),
            self.cycles.eq(now),
        ]
        m.d.sync += flying.eq(flying + sent - received)
        with m.If(self.go):
            m.d.sync += now.eq(1 - START_CYCLES)
        with m.Elif(~self.done):
            m.d.sync += now.eq(now + 1)
