import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.route_table import up_down, write_table
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.topology import Topology
from tokenpath.hw.deflection_router import DeflectionRouter
from tokenpath.hw.router import Router
from tokenpath.hw.routers import constants_of, make_router
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


def test_the_constants_of_a_tile_are_its_place_and_its_row_of_a_table():
    topology = Topology.parse("mesh:3x2")
    routes = write_table(up_down(topology, [(0, 1)]), topology)
    router = RouterParams(kind="vc", routing="table", routes=routes)
    arch = Arch.load("tiny").on(topology, router)
    dut = make_router(dims=topology.dims, flit_words=2, params=router)
    assert len(dut.routes) == 3 << 3  # five ports, coordinates of two bits and one
    found = constants_of(arch, 4)  # (1,1), to (0,0) (1,0) (2,0) - (0,1) (1,1) (2,1)
    ports = [found["routes"] >> 3 * place & 7 for place in range(8)]
    assert ports == [2, 4, 1, 0, 2, 0, 1, 0]
    assert found["position"] == 5
    assert set(constants_of(arch.on(router="vc2-d4"), 4)) == {"position"}


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
