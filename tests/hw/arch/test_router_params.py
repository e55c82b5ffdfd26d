"""Routers in words, and the virtual channels that a packet may take."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tokenpath.hw.arch.dims import Dim
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import PRESETS, Arch
from tokenpath.hw.arch.router_params import MOST_ROUTES, RouterParams

TINY = PRESETS["tiny"]


def test_a_ring_has_a_half_of_the_virtual_channels_for_each_dateline_class() -> None:
    ring, line = Dim(size=4, shape="ring"), Dim(size=4, shape="line")
    router = RouterParams(kind="vc", vcs=4)
    assert [router.allowed(ring, c) for c in (0, 1)] == [0b0011, 0b1100]
    assert router.allowed(line, 0) == 0b1111
    assert [RouterParams().allowed(ring, c) for c in (0, 1)] == [1, 2]
    assert (RouterParams().channels((ring,)), RouterParams().channels((line,))) == (2, 1)
    assert router.channels((ring, line)) == 4
    wavefront = RouterParams.parse("vc4-d4-wavefront")
    assert [wavefront.channels((Dim(size=n, shape="full"),)) for n in (1, 32)] == [4, 4]
    with pytest.raises(InputError, match="vcs 3 can't be halved at a ring's dateline"):
        replace(TINY.on("ring:4"), router=RouterParams(kind="vc", vcs=3))


@pytest.mark.parametrize(
    "text",
    [
        "wormhole-d4", "vc1-d2", "vc4-d8-s2", "vc4-d8-s3-islip2-matrix-o1turn-cut_through",
        "wormhole-d4-l8", "vc2-d4-l6-s2-matrix", "vc2-d16-output_first-bubble-ordered",
        "vc1-d4-wavefront-odd_even",
    ],
)  # fmt: skip
def test_a_router_is_its_text(text: str) -> None:
    assert str(RouterParams.parse(text)) == text


def test_a_router_in_words_has_its_parameters() -> None:
    assert RouterParams.parse("vc4-d8-s2") == RouterParams(kind="vc", vcs=4, depth=8, stages=2)
    for text in ("vc4", "vc-8", "wormhole-d4-s", "vc4-d8-s2-x", ""):
        with pytest.raises(InputError, match="wormhole-d4, vc2-d4, vc4-d8-s2 or deflection"):
            RouterParams.parse(text)
    with pytest.raises(InputError, match="unknown router 'deflect'"):
        RouterParams.parse("deflect-d4")


def test_the_words_of_a_router_are_its_choices() -> None:
    router = RouterParams.parse("vc4-d8-cut_through-matrix-islip3-o1turn")
    assert (router.allocator, router.iterations, router.arbiter) == ("output_first", 3, "matrix")
    assert (router.routing, router.switching, router.stages) == ("o1turn", "cut_through", 1)


def test_a_table_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "a-table=b.csv").write_text("tile,0,1\n0,.,+x\n1,-x,.\n", encoding="utf-8")
    router = RouterParams.parse(f"vc2-d4-matrix-table={tmp_path / 'a-table=b.csv'}")
    assert (router.arbiter, router.routing, router.routes[:8]) == ("matrix", "table", "tile,0,1")
    assert str(router) == "vc2-d4-matrix-table"
    assert TINY.on("line:2", router).fingerprint != TINY.on("line:2", "vc2-d4-matrix").fingerprint
    (tmp_path / "tiny.toml").write_text(
        'topology = "line:2"\n[router]\nkind = "vc"\nrouting = "table"\nroutes = "a-table=b.csv"\n',
        encoding="utf-8",
    )
    assert Arch.load(str(tmp_path / "tiny.toml")).router.routes == router.routes


def test_a_table_that_can_not_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"can't read the routing table .*none\.csv.: .*No such"):
        RouterParams.parse(f"vc2-d4-table={tmp_path / 'none.csv'}")
    with (tmp_path / "large.csv").open("wb") as file:
        file.truncate(MOST_ROUTES + 1)
    with pytest.raises(InputError, match=r"large\.csv' has 16,777,217 bytes; give at most 16,7"):
        RouterParams.parse(f"vc2-d4-table={tmp_path / 'large.csv'}")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"routing": "table"}, "routing table needs routes, and no other routing has some"),
        ({"routes": "tile,0"}, "routing table needs routes, and no other routing has some"),
        (
            {"routing": "table", "routes": "tile,0", "switching": "bubble"},
            "switching bubble is for rings in dimension order, not for routing table",
        ),
        (
            {"kind": "wormhole", "routing": "table", "routes": "x"},
            "a wormhole router has no routing",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RouterParams(**{"kind": "vc", **fields})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vc-d4", "how many VCs. write it as wormhole-d4"),
        ("wormhole1-d4", "a wormhole router has no vcs to choose; give kind 'vc'"),
        ("vc2-d4-fast", "unknown 'fast'; give output_first, islip2, wavefront, matrix, o1turn"),
        ("vc2-d4-wavefront-islip2", "'islip2' is a second choice"),
        ("wormhole-d4-matrix", "a wormhole router has no arbiter to choose; give kind 'vc'"),
        ("vc3-d4-o1turn", "a half of the VCs for each order of dimensions; router vcs 3 is odd"),
        ("vc2-d4-odd_even-ordered", "routing odd_even doesn't keep packets in order"),
        ("vc3-d4-ordered", "router vcs 3 is no power of two, which 'ordered' needs"),
        ("vc2-d4-islip9", "router iterations 9 is outside 1..4"),
        ("vc2-d4-table", "unknown 'table'; give output_first"),
        ("vc2-d4-o1turn-table=x.csv", "a table is a second routing"),
        ("vc2-d4-s4", "router stages 4 is outside 1..3"),
    ],
)
def test_choices_that_do_not_fit_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        RouterParams.parse(text)


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("vc2-d4-o1turn", "ring:5", "routing o1turn has no dateline for a ring"),
        ("vc2-d4-odd_even", "mesh:2x2x2", "for two lines, not for 3 dimensions of line"),
        ("vc2-d4-west_first", "flat:2x2", "for two lines, not for 2 dimensions of full"),
        ("vc2-d4-wavefront", "flat:33", "wavefront is for at most 32 ports, not for 33; give inp"),
        ("vc2-d4-islip2", "switch:32", "output_first is for at most 32 ports, not for 33; give i"),
    ],
)
def test_a_choice_is_refused_where_it_is_not_meant_for(text: str, where: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(TINY.on(where), router=RouterParams.parse(text))


def test_a_credit_of_cut_through_is_a_whole_packet() -> None:
    router = RouterParams(kind="vc", depth=16, switching="cut_through")
    assert [router.slots(flits, 8) for flits in (16, 15)] == [2, 1]
    assert RouterParams().slots(7, 8) == 7
    with pytest.raises(InputError, match="router depth 7 flits is too little for cut_through"):
        router.slots(7, 8)
    with pytest.raises(InputError, match=r"too little for bubble .* give at least 16"):
        RouterParams(kind="vc", switching="bubble").slots(15, 8)


def test_packets_keep_their_order_where_their_channel_is_fixed() -> None:
    orders = {"wormhole-d4": True, "vc1-d4": True, "vc2-d4": False, "vc2-d4-ordered": True}
    assert {text: RouterParams.parse(text).keeps_order for text in orders} == orders
    assert not RouterParams.parse("vc1-d4-odd_even").keeps_order


def test_a_machine_has_room_for_its_longest_packet() -> None:
    cut_through = RouterParams.parse("vc1-d4-cut_through")
    with pytest.raises(
        InputError, match=r"depth 4 flits .* for cut_through with packets of 8 flits"
    ):
        replace(TINY, router=cut_through)
    assert replace(TINY, router=cut_through, max_packet_words=6).packet_flits == 4


def test_a_deflection_router_has_nothing_to_choose() -> None:
    router = RouterParams.parse("deflection")
    assert router == RouterParams(kind="deflection")
    assert (str(router), router.keeps_order, router.extra_cycles) == ("deflection", False, 0)
    assert (router.local_flits, RouterParams(depth=3).local_flits) == (2, 3)
    assert router.channels(TINY.on("torus:4x4").topology.dims) == 1
    for text in ("deflection-d4", "deflection-d8-s2-matrix"):
        with pytest.raises(InputError, match=f"'{text}': deflection has nothing to choose; write"):
            RouterParams.parse(text)
    with pytest.raises(InputError, match="a deflection router has no depth to choose, not 8"):
        RouterParams(kind="deflection", depth=8)
    with pytest.raises(InputError, match="a deflection router has no vcs to choose"):
        RouterParams(kind="deflection", vcs=2)
    with pytest.raises(InputError, match="a deflection router has no full, as in full4@die"):
        replace(TINY.on("flat:4"), router=router)


def test_programs_need_whole_packets() -> None:
    RouterParams().check_programs()
    with pytest.raises(InputError, match="a deflection router takes packets of one flit, and"):
        RouterParams.parse("deflection").check_programs()
