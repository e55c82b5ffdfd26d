"""The router and the network interface that an Arch asks for."""

from collections.abc import Sequence

from amaranth.utils import ceil_log2

from tokenpath.hw.arch.deflection import epoch_bits
from tokenpath.hw.arch.dims import Dim
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.route_table import read_table
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.timing import put_flits
from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.deflection_router import DeflectionRouter
from tokenpath.hw.flit import destination
from tokenpath.hw.injector import Injector
from tokenpath.hw.route import Ports
from tokenpath.hw.router import Router
from tokenpath.hw.vc_router import VcRouter


def make_router(
    *, dims: Sequence[Dim], flit_words: int, params: RouterParams, hub: int | None = None,
    packet_flits: int | None = None,
) -> Router:  # fmt: skip
    """The router of ``params``, whose depths and rates follow from the tiers of ``dims``.

    ``packet_flits``, of the longest packet, is needed where a credit is room for a whole one.
    Raises InputError for dims that ``params`` aren't for, or a depth without room for a packet.
    """
    params.channels(tuple(dims))
    if params.kind == "deflection":
        bits = epoch_bits(Topology(dims=tuple(dims)))
        return DeflectionRouter(dims=dims, flit_words=flit_words, epoch_bits=bits)
    ports = Ports(dims=dims, hub=hub)
    depths, cycles = [params.local_flits], [1]
    for port in range(1, ports.inputs[-1] + 1):
        tier = ports.dims[ports.dim_of(port) or 0].tier
        depths.append(params.buffer_flits(tier))
        cycles.append(tier.cycles_per_flit)
    if params.kind == "wormhole":
        return Router(dims=dims, flit_words=flit_words, depths=depths, cycles=cycles, hub=hub)
    if packet_flits is None:
        if params.whole_packets:
            raise ValueError(f"router {params}: give the flits of the longest packet")
        packet_flits = 1
    slots = [params.slots(depth, packet_flits) for depth in depths]
    return VcRouter(
        dims=dims, flit_words=flit_words, depths=depths, cycles=cycles, slots=slots, params=params,
        hub=hub,
    )  # fmt: skip


def router_of(arch: Arch, hub: int | None = None) -> Router:
    """The router of a tile of ``arch``, or with ``hub`` that dimension's switch."""
    return make_router(
        dims=arch.topology.dims, flit_words=arch.flit_words, params=arch.router, hub=hub,
        packet_flits=arch.packet_flits,
    )  # fmt: skip


def constants_of(arch: Arch, tile: int) -> dict[str, int]:
    """The inputs of a tile's router that are constants: where it is, and its routes if it has a
    table."""
    topology = arch.topology
    sizes = [dim.size for dim in topology.dims]
    found = {"position": destination(sizes, tile)}
    if arch.router.routing == "table":
        bits = ceil_log2(topology.port_base[-1])
        routes = read_table(arch.router.routes, topology)[tile]
        found["routes"] = sum(
            output << bits * destination(sizes, to) for to, output in enumerate(routes)
        )
    return found


def make_injector(*, arch: Arch, flit_words: int, descriptors: int) -> Injector:
    """The network interface of a tile of ``arch``, with flits of any size."""
    router = arch.router
    packet_flits = put_flits(arch.max_packet_words, flit_words)
    return Injector(
        flit_words=flit_words, vcs=arch.vcs, lanes=router.local,
        depth=router.slots(router.local_flits, packet_flits), max_words=arch.max_packet_words,
        descriptors=descriptors, whole_packets=router.whole_packets,
        ordered=[dim.size for dim in arch.topology.dims] if router.ordered else None,
    )  # fmt: skip
