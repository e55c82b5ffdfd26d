"""Routers in words, and the virtual channels that a packet may take."""

from dataclasses import replace

import pytest

from tokenpath.hw.arch.dims import Dim
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.router_params import RouterParams

TINY = PRESETS["tiny"]


def test_a_ring_has_a_half_of_the_virtual_channels_for_each_dateline_class() -> None:
    ring, line = Dim(size=4, shape="ring"), Dim(size=4, shape="line")
    router = RouterParams(kind="vc", vcs=4)
    assert [router.allowed(ring, c) for c in (0, 1)] == [0b0011, 0b1100]
    assert router.allowed(line, 0) == 0b1111
    assert [RouterParams().allowed(ring, c) for c in (0, 1)] == [1, 2]
    assert (RouterParams().channels((ring,)), RouterParams().channels((line,))) == (2, 1)
    assert router.channels((ring, line)) == 4
    with pytest.raises(InputError, match="vcs 3 can't be halved at a ring's dateline"):
        replace(TINY.on("ring:4"), router=RouterParams(kind="vc", vcs=3))


@pytest.mark.parametrize("text", ["wormhole-d4", "vc1-d2", "vc4-d8-s2"])
def test_a_router_is_its_text(text: str) -> None:
    assert str(RouterParams.parse(text)) == text


def test_a_router_in_words_has_its_parameters() -> None:
    assert RouterParams.parse("vc4-d8-s2") == RouterParams(kind="vc", vcs=4, depth=8, stages=2)
    for text in ("vc4", "vc-8", "wormhole-d4-s", "vc4-d8-s2-x", ""):
        with pytest.raises(InputError, match="write it as wormhole-d4, vc2-d4 or vc4-d8-s2"):
            RouterParams.parse(text)
    with pytest.raises(InputError, match="unknown router 'deflect'"):
        RouterParams.parse("deflect-d4")
