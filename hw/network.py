"""Network: routers, switches and links as the topology says, without the tiles."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from tokenpath.hw.arch.params import Arch
from tokenpath.hw.flit import channel, destination, flits
from tokenpath.hw.link import Link
from tokenpath.hw.routers import make_router


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
        self.arch, self.black_boxes = arch, black_boxes
        self._modules: dict[str, Any] = {}
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
        for kind in self._kinds():
            if kind not in self._modules:
                self._modules[kind] = self._make(kind)
        return self._modules

    def elaborate(self, platform: object) -> Module:
        m, topology = Module(), self.arch.topology
        nodes = [self._place(m, f"node{n}", kind) for n, kind in enumerate(self._kinds())]
        sizes = [dim.size for dim in topology.dims]
        for tile, router in enumerate(nodes[: topology.tiles]):
            m.d.comb += router.position.eq(destination(sizes, tile))
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

    def _place(self, m: Module, name: str, kind: str) -> Any:
        if self.black_boxes:
            return instance(m, name, kind, self.modules()[kind].signature)
        m.submodules[name] = component = self._make(kind)
        return component

    def _kinds(self) -> list[str]:
        topology = self.arch.topology
        switches = range(topology.tiles, topology.nodes)
        hubs = [f"switch{topology.switch_of(node)[0]}" for node in switches]
        return ["router"] * topology.tiles + hubs

    def _make(self, kind: str) -> Any:
        arch, hub = self.arch, None if kind == "router" else int(kind.removeprefix("switch"))
        return make_router(
            dims=arch.topology.dims, flit_words=arch.flit_words, params=arch.router, hub=hub
        )


def instance(m: Module, name: str, kind: str, signature: wiring.Signature) -> Any:
    """The interface of an Instance of the module ``kind``, whose component has ``signature``."""
    interface = signature.create(path=(name,))
    ports = {
        f"{'i' if member.flow == In else 'o'}_{'__'.join(map(str, path))}": value
        for path, member, value in signature.flatten(interface)
    }
    m.submodules[name] = Instance(kind, i_clk=ClockSignal(), i_rst=ResetSignal(), **ports)
    return interface


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
