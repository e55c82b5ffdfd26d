"""The arrays of a network of deflection routers."""

import numpy as np

from tokenpath.hw.arch.deflection import SLOTS, Lanes, epoch_bits, places
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.timing import SINK_CYCLES
from tokenpath.hw.arch.topology import Topology

from . import columns as c
from . import deflection as k
from .ports import coordinates_of
from .state import I64, Engines
from .tables import no_engines


def room(topology: Topology) -> int:
    """Packets that sources, network and sinks may have under way."""
    return places(topology) + (SLOTS + 4) * topology.tiles


def _down(topology: Topology, shape: Lanes) -> tuple[I64, I64]:
    """Of each output lane of each tile: the lane behind it, and the latency of the link."""
    tile, count = np.arange(topology.tiles), len(shape.inputs)
    down = np.stack([tile * count + back for back in shape.back], axis=1)
    latency = np.ones_like(down)
    for i, (dim, stride) in enumerate(zip(topology.dims, topology.strides, strict=True)):
        x, port = tile // stride % dim.size, topology.port_base[i]
        for step in (1, -1) if dim.ports else ():
            out, there = port + (step < 0), x + step
            linked = (there >= 0) & (there < dim.size) | dim.is_ring
            to = tile + (there % dim.size - x) * stride
            lane = shape.outputs.index(out)
            back = shape.inputs.index(port + (step > 0))
            down[:, lane] = np.where(linked, to * count + back, down[:, lane])
            latency[:, lane] = np.where(linked, dim.tier.latency_cycles, 1)
    return down.reshape(-1), latency.reshape(-1)


def _rings(latency: I64) -> tuple[I64, I64, I64]:
    """Rows of the rings of links that take longer than a cycle, one for each latency, their places,
    and the ring of each output lane."""
    kinds = sorted(set(latency.tolist()) - {1})
    rows, which, at = (
        np.zeros((len(kinds) + 1, k.RING_WIDTH), np.int64),
        np.full(len(latency), -1),
        0,
    )
    for i, cycles in enumerate(kinds):
        which[latency == cycles] = i
        size = 1 << int((latency == cycles).sum() * cycles).bit_length()
        rows[i, [k.RING_LATENCY, k.RING_AT, k.RING_MASK]] = cycles, at, size - 1
        at += size
    return rows, np.zeros(max(1, at * k.LINK_WIDTH), np.int64), which


def network(arch: Arch) -> k.Deflection:
    """Idle routers and links of an Arch."""
    topology, shape = arch.topology, Lanes.of(arch.topology.dims)
    tiles, count = topology.tiles, len(shape.inputs)
    down, latency = _down(topology, shape)
    rings, links, ring = _rings(latency)
    coordinates = coordinates_of(topology)
    wish, at = _wishes(topology, shape)
    counts = np.zeros(16, np.int64)
    values = (
        count, count.bit_length() - 1, epoch_bits(topology), tiles, len(topology.dims),
        len(rings) - 1,
    )  # fmt: skip
    counts[k.LANES_N : k.LANES_N + len(values)] = values
    queues = np.zeros((tiles, k.D_WIDTH), np.int64)
    queues[:, k.D_LEFT] = -1
    return k.Deflection(
        counts=counts,
        lanes=np.zeros(2 * tiles * count, np.int64),
        queues=queues.reshape(-1),
        active=np.zeros(2 * tiles, np.int32),
        listed=np.full(tiles, -1, np.int64),
        sending=np.zeros(tiles + 1, np.int32),
        entered=np.zeros(room(topology), np.int64),
        down=down.astype(np.int32),
        ring=ring.astype(np.int32),
        rings=rings.reshape(-1),
        links=links,
        coordinates=coordinates.astype(np.int32).reshape(-1),
        rows=(at + coordinates * [dim.size for dim in topology.dims]).astype(np.int32).reshape(-1),
        routes=wish.astype(np.int32),
        scratch=np.zeros(3 * count, np.int64),
    )


def engines(arch: Arch) -> Engines:
    """What these routers need of Engines: no tile has an instruction."""
    constants = np.zeros(c.CONSTANTS, np.int64)
    constants[[c.TILES, c.EJECTION]] = arch.tiles, SINK_CYCLES
    return no_engines(arch.tiles, constants, room(arch.topology))


def _wishes(topology: Topology, shape: Lanes) -> tuple[I64, I64]:
    """The wish of each dimension from each position to each, 0 for arrived; where each begins."""
    parts, at, way = [], [0], 0
    for i, dim in enumerate(topology.dims):
        offsets = np.array(topology.dim_table(i), np.int64).reshape(dim.size, dim.size, 2)[..., 0]
        wish = 1 << way + len(shape.outputs) // 2 * offsets
        np.fill_diagonal(wish, 0)
        parts.append(wish.reshape(-1))
        at.append(at[-1] + wish.size)
        way += dim.ports > 0
    return np.concatenate(parts), np.array(at[:-1], np.int64)
