"""Random small machines."""

import random
from dataclasses import replace

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import Arch, Format, Numeric
from tokenpath.hw.arch.route_table import up_down, write_table
from tokenpath.hw.arch.router_params import (
    ALLOCATORS,
    ARBITERS,
    ROUTINGS,
    SWITCHINGS,
    RouterParams,
)
from tokenpath.hw.arch.topology import Topology

TOPOLOGIES: dict[int, tuple[str, ...]] = {
    1: ("line:1",),
    2: ("line:2", "flat:2", "switch:2", "line2@package(latency=7,cpf=2)"),
    3: ("ring:3", "line:3", "full3@board(latency=5,cpf=3)", "ring3@die(latency=2,cpf=2)"),
    4: ("mesh:2x2", "flat:4", "ring:4", "switch:4", "line2@die,full2@package(latency=9,cpf=2)"),
    5: ("ring5@package(latency=3,cpf=2)", "flat:5"),
    6: ("mesh:3x2", "torus:3x2", "ring3@die(latency=2,cpf=1),switch2@board(latency=5,cpf=3)"),
}
"""Products of dimensions of every shape, by number of tiles."""


def draw_router(rng: random.Random, arch: Arch, *, ordered: bool) -> RouterParams:
    """A router for an Arch, with small buffers, often of one flit; half of them wormhole.

    With ``ordered`` packets from one tile to another keep their order.
    """
    for _ in range(200):
        try:
            router = _drawn_router(rng, arch)
            if not ordered or router.keeps_order:
                return replace(arch, router=router).router
        except InputError:  # a choice that doesn't go with another one, or with the topology
            continue
    return RouterParams(depth=1)


def _drawn_router(rng: random.Random, arch: Arch) -> RouterParams:
    packet_flits = arch.packet_flits
    depth, local = rng.choice((1, 1, 2, 3, 4)), rng.choice((0, 0, 0, packet_flits, 1))
    if rng.random() < 0.5:
        return RouterParams(depth=depth, local_depth=min(64, local))
    allocator = rng.choice((*ALLOCATORS, "input_first"))
    switching = rng.choice((*SWITCHINGS, "wormhole", "wormhole"))
    routing = rng.choice((*ROUTINGS, "dimension_order"))
    return RouterParams(
        kind="vc",
        depth=depth if switching == "wormhole" else min(64, packet_flits * rng.randint(1, 3)),
        vcs=rng.choice((1, 2, 2, 3, 4, 8)),
        stages=rng.randint(1, 3),
        allocator=allocator,
        iterations=rng.randint(1, 3) if allocator == "output_first" else 1,
        arbiter=rng.choice(ARBITERS),
        routing=routing,
        routes=draw_routes(rng, arch.topology) if routing == "table" else "",
        switching=switching,
        ordered=rng.random() < 0.5,
    )


def draw_routes(rng: random.Random, topology: Topology) -> str:
    """A routing table around a few broken links. Raises InputError where some are too many."""
    links = [(link.src, link.src_port) for link in topology.links]
    broken = rng.sample(links, min(len(links), rng.randint(0, 2)))
    return write_table(up_down(topology, broken), topology)


def draw_arch(rng: random.Random, tiles: int) -> Arch:
    """A machine with buffers that fill and memories that load quickly."""
    block = rng.choice((4, 4, 8, 16))
    lanes = block * rng.choice((1, 2, 2) if block < 16 else (1,))
    vlanes = rng.choice([v for v in (2, 4, 8, 16) if v <= lanes <= 4 * v])
    depth = rng.choice((2, 3, 4, 5, 8))
    arch = Arch(
        name="drawn",
        topology=Topology.parse(rng.choice(TOPOLOGIES[tiles])),
        numeric=_numeric(rng, block),
        lanes=lanes,
        queries=rng.randint(1, 3),
        vlanes=vlanes,
        operand_beats=rng.choice((4, 6, 8)),
        append_beats=rng.choice((4, 5, 8)),
        score_rows=rng.choice((32, 40)),
        accumulator_beats=rng.choice((2, 3)),
        scratch_words=512,
        inbox_words=512,
        store_beats=96,
        store_latency=rng.randint(1, depth - 1),
        stream_depth=depth,
        flit_words=rng.choice((2, 2, 3, 4, 6)),
        max_packet_words=rng.choice((1, 4, 5, 14, 30)),
        descriptors=256,
        code_words=256,
    )
    return replace(arch, router=draw_router(rng, arch, ordered=True))


def _numeric(rng: random.Random, block: int) -> Numeric:
    def drawn(*bits: int) -> Format:
        return Format(bits=rng.choice(bits), mantissa_bits=rng.choice((0, 2, 3, 3, 7)))

    return Numeric(
        block=block,
        weight=drawn(4, 8, 8),
        kv=drawn(4, 8, 8),
        act=drawn(4, 8, 8, 16),
        act_frac=rng.randint(8, 20),
        score_frac=rng.randint(8, 20),
    )
