"""Network: routers, switches and links as the topology says, without the tiles."""

from collections.abc import Callable, Sequence
from typing import Any

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from tokenpath.hw.arch.params import Arch
from tokenpath.hw.flit import channel, flits
from tokenpath.hw.link import Link
from tokenpath.hw.routers import constants_of, router_of


class Network(wiring.Component):
    """The routers of an Arch, with the local port of each tile's open.

    Members, by tile: ``i``, the channels into port 0 (:func:`tokenpath.hw.flit.channel`), and
    ``o``, the flits out of port 0. To be watched, by link: ``sent`` and ``returned``, the flits
    and the credits that its sender has in a cycle, and ``lanes``, a constant bit for each VC.
    """

    def __init__(self, *, arch: Arch, black_boxes: bool = False) -> None:
        """With ``black_boxes`` all nodes are Instances of modules "router", "switch0" ...

        :meth:`modules` has those modules.
        """
        self.arch = arch
        self._nodes = Nodes(arch, "router", router_of, black_boxes=black_boxes)
        tiles, links = arch.tiles, len(arch.topology.links)
        shape = {"flit_words": arch.flit_words, "vcs": arch.vcs}
        members = {
            "i": In(channel(**shape, lanes=arch.router.local)).array(tiles),
            "o": Out(flits(**shape)).array(tiles),
        }
        if links:
            members["sent"] = Out(flits(**shape)).array(links)
            members["returned"] = Out(arch.vcs).array(links)
            members["lanes"] = Out(arch.vcs).array(links)
        super().__init__(members)

    def modules(self) -> dict[str, Any]:
        """The different components that a network has at its nodes, by module name."""
        return self._nodes.modules()

    def elaborate(self, platform: object) -> Module:
        m, topology = Module(), self.arch.topology
        nodes = self._nodes.place(m, "node")
        for tile, router in enumerate(nodes[: topology.tiles]):
            tie(m, router, self.arch, tile)
            connect(m, flipped(self.i[tile]), router.i0)
            connect(m, router.o0, flipped(self.o[tile]))
        link_nodes(m, self.arch, nodes)
        for link in topology.links:
            sender = getattr(nodes[link.src], f"o{link.src_port}")
            m.d.comb += [
                self.sent[link.index].valid.eq(sender.valid),
                self.sent[link.index].flit.eq(sender.flit),
                self.returned[link.index].eq(sender.credit),
                self.lanes[link.index].eq((1 << len(sender.credit)) - 1),
            ]
        return m


class Nodes:
    """The components at the nodes of an Arch: ``make(arch)`` at its tiles, switches behind them.

    A module's name is ``tile`` or "switch0" ... of the dimensions that have one. With
    ``black_boxes`` nodes are Instances of these modules.
    """

    def __init__(
        self, arch: Arch, tile: str, make: Callable[[Arch], Any], *, black_boxes: bool
    ) -> None:
        self._arch, self._tile, self._make, self._black_boxes = arch, tile, make, black_boxes
        self._modules: dict[str, Any] = {}

    def modules(self) -> dict[str, Any]:
        """The different components, by module name."""
        for kind in (self._kind(node) for node in range(self._arch.topology.nodes)):
            self._module(kind)
        return self._modules

    def place(self, m: Module, tile: str) -> list[Any]:
        """All nodes as submodules, tiles named ``tile`` and their number: components, or the
        interfaces of Instances."""
        placed: list[Any] = []
        for node in range(self._arch.topology.nodes):
            kind = self._kind(node)
            name = f"{tile if node < self._arch.tiles else 'node'}{node}"
            if self._black_boxes:
                placed.append(instance(m, name, kind, self._module(kind).signature))
            else:
                m.submodules[name] = component = self._made(kind)
                placed.append(component)
        return placed

    def _kind(self, node: int) -> str:
        topology = self._arch.topology
        return self._tile if node < topology.tiles else f"switch{topology.switch_of(node)[0]}"

    def _module(self, kind: str) -> Any:
        if kind not in self._modules:
            self._modules[kind] = self._made(kind)
        return self._modules[kind]

    def _made(self, kind: str) -> Any:
        if kind == self._tile:
            return self._make(self._arch)
        return router_of(self._arch, int(kind.removeprefix("switch")))


def instance(m: Module, name: str, kind: str, signature: wiring.Signature) -> Any:
    """The interface of an Instance of the module ``kind``, whose component has ``signature``."""
    interface = signature.create(path=(name,))
    ports = {
        f"{'i' if member.flow == In else 'o'}_{'__'.join(map(str, path))}": value
        for path, member, value in signature.flatten(interface)
    }
    m.submodules[name] = Instance(kind, i_clk=ClockSignal(), i_rst=ResetSignal(), **ports)
    return interface


def tie(m: Module, node: Any, arch: Arch, tile: int) -> None:
    """Set the constants of a tile, or of its router, at its place."""
    for name, value in constants_of(arch, tile).items():
        m.d.comb += getattr(node, name).eq(value)


def link_nodes(m: Module, arch: Arch, nodes: Sequence[Any]) -> None:
    """Every link of the topology between ``nodes``, which have channels ``i1``, ``o1`` ... by port
    number."""
    for link in arch.topology.links:
        sender = getattr(nodes[link.src], f"o{link.src_port}")
        wire = Link(
            latency=link.tier.latency_cycles, flit_words=arch.flit_words, vcs=arch.vcs,
            lanes=len(sender.credit),
        )  # fmt: skip
        m.submodules[f"link{link.index}"] = wire
        connect(m, sender, wire.i)
        connect(m, wire.o, getattr(nodes[link.dst], f"i{link.dst_port}"))
