import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.deflection_router import DeflectionRouter
from tokenpath.hw.router import Router
from tokenpath.hw.routers import make_router
from tokenpath.hw.vc_router import VcRouter


def made(text, **params):
    dims = Topology.parse(text).dims
    return make_router(dims=dims, flit_words=2, params=RouterParams(**params))


def test_the_kind_chooses_the_router():
    assert type(made("mesh:3x3")) is Router
    router = made("torus:3x3", kind="vc", vcs=4, stages=2, depth=3)
    assert type(router) is VcRouter
    assert (router.vcs, router.late, router.depths) == (4, 1, (3,) * 5)
    assert [router.ports.lanes(port) for port in router.ports.inputs] == [4] * 5


def test_depths_and_rates_follow_from_the_tiers():
    router = made("line2@board(latency=7,cpf=3),full3@die", depth=2)
    assert (router.depths, router.cycles) == ((2, 6, 6, 2, 2), (1, 3, 3, 1, 1))


def test_an_odd_number_of_vcs_is_refused_in_a_ring():
    with pytest.raises(InputError, match="router vcs 3 can't be halved"):
        made("ring:4", kind="vc", vcs=3)


def test_credits_are_for_whole_packets_where_they_are_chosen():
    dims = Topology.parse("line2@board(latency=7,cpf=3),full3@die").dims
    params = RouterParams.parse("vc1-d6-cut_through")
    router = make_router(dims=dims, flit_words=2, params=params, packet_flits=3)
    assert (router.depths, router.slots) == ((6, 10, 10, 6, 6), (2, 3, 3, 2, 2))
    with pytest.raises(ValueError, match="cut_through: give the flits of the longest packet"):
        make_router(dims=dims, flit_words=2, params=params)


def test_a_deflection_router_has_the_epochs_of_its_topology():
    router = made("mesh:8x8", kind="deflection")
    assert type(router) is DeflectionRouter
    assert (router.epoch_bits, router.vcs, router.depths) == (12, 1, (2, 1, 1, 1, 1))
    assert made("torus:3x3", kind="deflection").ports.lanes(1) == 1
    with pytest.raises(InputError, match="a deflection router has no full"):
        made("line2,full3", kind="deflection")
