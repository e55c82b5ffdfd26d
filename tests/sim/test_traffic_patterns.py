"""Destinations of the patterns, by their definitions on coordinates."""

import numpy as np
import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.topology import Topology
from tokenpath.sim.traffic_patterns import Pattern


def places(name, text="mesh:4x4"):
    topology = Topology.parse(text)
    table = Pattern.parse(name, topology).table
    size = topology.dims[0].size
    return {divmod(s, size)[::-1]: divmod(int(d), size)[::-1] for s, d in enumerate(table)}


def test_permutations_move_coordinates_as_defined():
    for (x, y), to in places("transpose").items():
        assert to == (y, x)
    for (x, y), to in places("bitcomp").items():
        assert to == (3 - x, 3 - y)
    for (x, y), to in places("neighbor", "mesh:4x3").items():
        assert to == ((x + 1) % 4, (y + 1) % 3)
    for (x, y), to in places("tornado", "torus:8x8").items():
        assert to == ((x + 3) % 8, (y + 3) % 8)


def test_a_hotspot_has_its_share():
    table = Pattern.parse("hotspot:1+2@0.5", Topology.parse("line:4")).table
    assert np.diff([0, *table]).tolist() == [1 << 30] * 4
    table = Pattern.parse("hotspot:3", Topology.parse("line:4")).table
    assert table.tolist() == [0, 0, 0, 1 << 32]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("circular", "unknown traffic 'circular'; give uniform, transpose"),
        ("uniform:3", "unknown traffic"),
        ("hotspot", "unknown traffic"),
        ("hotspot:a", "write it as 27"),
        ("hotspot:4", "give different tiles of 0..3"),
        ("hotspot:1+1", "give different tiles"),
        ("hotspot:1@2", "a share in 0..1"),
        ("transpose", "transpose needs equal dimensions, mesh:2x3 has"),
    ],
)
def test_what_is_no_pattern_is_refused(text, message):
    topology = Topology.parse("mesh:2x3" if text == "transpose" else "line:4")
    with pytest.raises(InputError, match=message):
        Pattern.parse(text, topology)
