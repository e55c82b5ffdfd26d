"""The description of a machine: every refusal with its value and remedy, and what it adds up to."""

import re
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from tokenpath.hw.arch.dims import TIERS
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import PRESETS, Arch, Format, Numeric
from tokenpath.hw.arch.route_table import dimension_order, up_down, write_table
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.topology import Topology

TINY = PRESETS["tiny"]
SIZES = {
    "clock_hz": (1, 10**12),
    "queries": (1, 64),
    "vlanes": (2, 1024),
    "operand_beats": (1, 1 << 16),
    "append_beats": (1, 1 << 12),
    "score_rows": (1, 1 << 20),
    "accumulator_beats": (1, 64),
    "scratch_words": (16, 1 << 24),
    "inbox_words": (16, 1 << 24),
    "store_beats": (1, 1 << 31),
    "flit_words": (2, 64),
    "max_packet_words": (1, 254),
    "descriptors": (1, 1 << 20),
    "code_words": (16, 1 << 20),
}


CHANGE = "change it in the architecture"


def refused(text: str) -> Any:
    return pytest.raises(InputError, match=f"^{re.escape(text)}$")


# --- refusals ---


@pytest.mark.parametrize(
    ("part", "values", "text"),
    [
        (Format, {"bits": 5}, "element bits 5 is not supported; give 4, 8 or 16"),
        (Format, {"mantissa_bits": 8}, "scale mantissa bits 8 is outside 0..7; the default is 3"),
        (Format, {"mantissa_bits": -1}, "scale mantissa bits -1 is outside 0..7; the default is 3"),
        (
            Numeric,
            {"block": 33},
            "block 33 is not supported; give 4, 8, 16, 32 (OCP Microscaling) or 64",
        ),
        (
            Numeric,
            {"weight": Format(bits=16)},
            "weight bits 16 is too wide for the store; give 4 or 8",
        ),
        (Numeric, {"kv": Format(bits=16)}, "kv bits 16 is too wide for the store; give 4 or 8"),
        (
            Numeric,
            {"act_frac": 7},
            "act_frac 7 is outside 8..20; the default is 16 (score_frac 12)",
        ),
        (
            Numeric,
            {"score_frac": 21},
            "score_frac 21 is outside 8..20; the default is 16 (score_frac 12)",
        ),
        (
            RouterParams,
            {"kind": "magic"},
            "unknown router 'magic'; give wormhole or vc or deflection",
        ),
        (RouterParams, {"depth": 0}, "router depth 0 flits is outside 1..64; the default is 4"),
        (RouterParams, {"depth": 65}, "router depth 65 flits is outside 1..64; the default is 4"),
        (
            Arch,
            {"lanes": 40},
            "lanes 40 is not a multiple of the block of 32 elements; give 32",
        ),
        (Arch, {"lanes": 0}, "lanes 0 is not a multiple of the block of 32 elements; give 32"),
        (Arch, {"lanes": 4128}, "lanes 4128 is outside 4..4096; change it in the architecture"),
        (
            Arch,
            {"store_latency": 16},
            "stream_depth 16 can't hide a store latency of 16 cycles; give at least 17",
        ),
        (
            Arch,
            {"vlanes": 12},
            "vlanes 12 is not a power of two, which the banks of vector memory need; give 8",
        ),
        (
            Arch,
            {"vlanes": 4},
            "vlanes 4 doesn't suit 32 lanes: a beat fills vector memory in one to four cycles; "
            "give a divisor from 8 to 32",
        ),
        (
            Arch,
            {"queries": 49},
            "queries 49 are too many for 8 vlanes, whose maxima an AXPY reads ahead; "
            "give at most 48",
        ),
        (Arch, {"store_latency": 0}, f"store_latency 0 is outside 1..1000; {CHANGE}"),
        (Arch, {"stream_depth": 4097}, f"stream_depth 4097 is outside 2..4096; {CHANGE}"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_value_is_refused(part: Any, values: dict[str, Any], text: str) -> None:
    with refused(text):
        part(**values)


FITTING = {
    ("lanes", 4): {"vlanes": 4},
    ("lanes", 4096): {"vlanes": 1024},
    ("vlanes", 2): {"lanes": 8},
    ("vlanes", 1024): {"lanes": 4096},
    ("queries", 64): {"lanes": 64, "vlanes": 16},
}
"""Other sizes that go with an extreme one."""


@pytest.mark.parametrize("name", SIZES)
def test_a_size_has_its_range(name: str) -> None:
    low, high = SIZES[name]
    for value in (low, high):
        fitting = {name: value, **FITTING.get((name, value), {})}
        assert getattr(replace(TINY, **fitting), name) == value  # type: ignore[arg-type]
    for value in (low - 1, high + 1):
        text = f"{name} {value} is outside {low}..{high}; change it in the architecture"
        with refused(text):
            replace(TINY, **{name: value})  # type: ignore[arg-type]


def test_the_edges_are_allowed() -> None:
    for bits in (4, 8, 16):
        Format(bits=bits, mantissa_bits=7)
    for block in (4, 8, 16, 32, 64):
        Numeric(block=block, act=Format(bits=16), act_frac=8, score_frac=20)
    RouterParams(depth=64)
    assert replace(TINY, store_latency=3, stream_depth=4).store_latency == 3


def test_a_machine_can_not_be_changed_behind_its_check() -> None:
    with pytest.raises(FrozenInstanceError):
        TINY.lanes = 7  # type: ignore[misc]


# --- what it adds up to ---


def test_sizes_that_follow() -> None:
    assert (TINY.tiles, TINY.vector_words, TINY.blocks_per_beat) == (4, 4096, 2)
    assert [TINY.row_beats(n) for n in (0, 1, 8, 9, 16)] == [0, 1, 1, 2, 2]
    assert TINY.beat_bits == 8 * 8 + 2 * (8 + 3)
    assert TINY.store_bytes == 2048 * 86 // 8
    mixed = replace(TINY.numeric, weight=Format(bits=4, mantissa_bits=5), kv=Format(bits=8))
    assert replace(TINY, numeric=mixed).beat_bits == 8 * 8 + 2 * (8 + 5)


def test_sums_fit_a_word() -> None:
    """2**headroom summands just below 1 (p) or 2**6 (p times V) stay below 2**31."""
    numeric = Numeric()
    for headroom in range(20):
        assert (1 << headroom) << numeric.sum_frac(headroom) <= 1 << 30
        assert (1 << headroom + 6) << numeric.value_frac(headroom) <= 1 << 31
    assert (numeric.sum_frac(14), numeric.sum_frac(15)) == (16, 15)
    assert (numeric.value_frac(9), numeric.value_frac(10)) == (16, 15)


def test_a_buffer_covers_the_credits_of_a_long_link() -> None:
    router, die = RouterParams(depth=4), TIERS["die"]
    assert router.buffer_flits(die) == 4 + 2 * (die.latency_cycles - 1)
    assert router.buffer_flits(replace(die, latency_cycles=11, cycles_per_flit=4)) == 4 + 5


def test_presets() -> None:
    assert list(PRESETS) == ["tiny", "edge", "server"]
    for name, arch in PRESETS.items():
        assert arch.name == name
        assert Arch.load(name) is arch
    assert PRESETS["edge"].store_bytes == 4_374_528
    assert PRESETS["server"].store_bytes == 69_992_448


def test_the_same_tile_elsewhere() -> None:
    torus = TINY.on("torus:4x2")
    assert torus.tiles == 8
    assert torus == TINY.on(Topology.parse("torus:4x2"))
    assert replace(torus, topology=TINY.topology) == TINY


# --- fingerprint ---


def leaves(values: dict[str, Any], where: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, (*where, key))
        else:
            yield (*where, key)


OTHERS: dict[str, Any] = {
    "allocator": "wavefront",
    "arbiter": "matrix",
    "routing": "west_first",
    "switching": "bubble",
    "ordered": True,
    "topology": "torus:2x2",
    "lanes": 16,
    "vlanes": 2,
    "block": 8,
    "bits": 4,
    "mantissa_bits": 2,
    "stream_depth": 5,
    "store_latency": 1,
}
APART = (("name",), ("router", "kind"), ("router", "routes"))
PATHS = [path for path in leaves(TINY.as_dict()) if path not in APART]
VC = replace(TINY, router=RouterParams(kind="vc", depth=16, allocator="output_first"))


@pytest.mark.parametrize("path", PATHS, ids=".".join)
def test_every_parameter_is_in_the_fingerprint(path: tuple[str, ...]) -> None:
    values = VC.as_dict()
    inner = values
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = OTHERS[path[-1]] if path[-1] in OTHERS else inner[path[-1]] + 1
    other = Arch.from_dict(values)
    assert other != VC
    assert other.fingerprint != VC.fingerprint


def test_the_routes_of_a_table_are_in_the_fingerprint() -> None:
    mesh = TINY.topology
    tables = [write_table(table, mesh) for table in (dimension_order(mesh), up_down(mesh))]
    machines = [replace(VC, router=table_router(routes)) for routes in tables]
    assert len({machine.fingerprint for machine in machines}) == 2
    assert [Arch.from_dict(machine.as_dict()) for machine in machines] == machines


def table_router(routes: str) -> RouterParams:
    return RouterParams(kind="vc", routing="table", routes=routes)


def test_the_kind_of_router_is_in_the_fingerprint() -> None:
    assert VC.fingerprint != TINY.fingerprint


def test_the_name_is_not_in_the_fingerprint() -> None:
    assert replace(TINY, name="other").fingerprint == TINY.fingerprint
    assert re.fullmatch("[0-9a-f]{16}", TINY.fingerprint)
    assert len({arch.fingerprint for arch in PRESETS.values()}) == len(PRESETS)


@pytest.mark.parametrize("arch", PRESETS.values(), ids=PRESETS)
def test_plain_values_come_back(arch: Arch) -> None:
    assert Arch.from_dict(arch.as_dict()) == arch
    assert {len(path) for path in leaves(arch.as_dict())} == {1, 2, 3}
