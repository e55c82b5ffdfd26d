"""Deflection: all flits go on, old ones first, and none stays longer than the bound."""

import random
from itertools import combinations, product

import pytest
from deflection_model import DeflectionModel, Flit

from tokenpath.hw.arch.deflection import (
    QUEUE,
    Decision,
    Lanes,
    Seen,
    check_dims,
    decide,
    epoch_bits,
    most_cycles,
    places,
)
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.topology import Topology

MASKS = [x | y for x in (0, 1, 4) for y in (0, 2, 8)]
"""What a flit of a mesh may wish: + or - of each dimension, or nothing."""


def young(mask):
    return Seen(mask, False, 0)


def test_lanes_pair_flits_that_go_straight_on_to_different_halves():
    mesh = Lanes.of(Topology.parse("mesh:4x4").dims)
    assert mesh == Lanes(inputs=(1, 3, 4, 2), outputs=(1, 3, 2, 4), back=(0, 1, 3, 2))
    cube = Lanes.of(Topology.parse("mesh:2x1x2x2").dims)
    assert cube.outputs == (1, 3, 5, None, 2, 4, 6, None)
    assert cube.inputs == (1, 3, 5, None, 4, 6, None, 2)
    assert cube.back == (0, 1, 2, 3, 7, 4, 5, 6)
    for lanes in (mesh, cube, Lanes.of(()), Lanes.of(Topology.parse("ring:5").dims)):
        for out, port in enumerate(lanes.outputs):
            assert lanes.inputs[lanes.back[out]] == port
        half = len(lanes.inputs) // 2
        for a, b in zip(lanes.inputs[:half], lanes.inputs[half:], strict=True):
            assert a is None or b is None or (a % 2, b % 2) == (1, 0)


@pytest.mark.parametrize("text", ["mesh:3x4", "torus:5x2x3", "line1,ring4", "line:1"])
def test_a_wish_brings_a_flit_nearer(text):
    topology = Topology.parse(text)
    lanes = Lanes.of(topology.dims)
    for tile, to in product(range(topology.tiles), repeat=2):
        at, there = topology.coordinates(tile), topology.coordinates(to)
        wishes = lanes.wishes(topology.dims, at, there)
        assert wishes.bit_count() == sum(a != b for a, b in zip(at, there, strict=True))
        for out, port in enumerate(lanes.outputs):
            if wishes >> out & 1:
                arrived, _ = topology.neighbour(tile, port)
                assert topology.hops(arrived, to) == topology.hops(tile, to) - 1


def test_two_lanes_do_what_the_rule_says():
    """All pairs of flits of a line, by hand: who comes first has its wish, both wishes if they
    differ."""
    flits = [None, *(Seen(w, old, to) for w in (0, 1, 2) for old in (0, 1) for to in (3, 7))]
    for a, b in product(flits, repeat=2):
        found = decide([a, b], None)
        here = [i for i, f in enumerate((a, b)) if f and not f.wishes]
        old = [i for i in here if (a, b)[i].old]
        assert found.delivered == (min(old or here) if here else None)
        inside = [f if f and i != found.delivered else None for i, f in enumerate((a, b))]
        b_first = inside[1] and inside[1].old and not (inside[0] and inside[0].old)
        if inside[0] and inside[1] and inside[0].old and inside[1].old:
            b_first = inside[1].to < inside[0].to
        asks = [(f.wishes if f else 0, i) for i, f in enumerate(inside)]
        asks = [(w, i) for w, i in (reversed(asks) if b_first else asks) if w]
        straight = not asks or asks[0][0] == 1 << asks[0][1]
        assert found.takes == ((0, 1) if straight else (1, 0))


def test_the_queues_flit_is_delivered_here_or_enters_an_empty_place():
    here, there = young(0), young(0b0010)  # + of the second dimension
    assert decide([None] * 4, here) == Decision(QUEUE, None, (0, 1, 2, 3))
    assert decide([None, here, None, None], here).delivered == 1
    assert decide([young(1)] * 4, there).enters is None
    found = decide([None] * 4, there)
    assert (found.enters, found.takes[1]) == (0, 0)  # before the switch to its output
    found = decide([young(1), young(2), None, None], there)
    assert found.enters in (2, 3)  # both places before that switch are taken
    assert decide([young(1), young(8), here, young(4)], there).enters == 2  # that of the delivered


def test_every_lane_leaves_once_and_an_old_flit_gets_nearer():
    for masks in product(MASKS, repeat=4):
        for place in range(4):
            lanes = [young(mask) for mask in masks]
            lanes[place] = lanes[place]._replace(old=True)
            found = decide(lanes, young(1))
            assert sorted(found.takes) == [0, 1, 2, 3]
            if masks[place]:
                assert masks[place] >> found.takes.index(place) & 1
            else:
                assert found.delivered == place


def test_of_two_old_ones_for_the_lowest_tile_one_gets_nearer():
    """Whatever else is there, older than nobody or as old and for higher tiles."""
    rng = random.Random(5)
    for size in (4, 8):
        masks = MASKS if size == 4 else [x | y for x in MASKS for y in (0, 16, 64)]
        for pair in combinations(range(size), 2):
            for mask, _ in product(masks[1:], range(60)):
                lanes = [Seen(rng.choice(masks), rng.random() < 0.5, 9) for _ in range(size)]
                for lane in pair:
                    lanes[lane] = Seen(mask, True, 2)
                takes = decide(lanes, None).takes
                assert any(mask >> takes.index(lane) & 1 for lane in pair)


def test_the_bound_follows_from_places_and_diameter():
    mesh = Topology.parse("mesh:8x8")
    assert (places(mesh), epoch_bits(mesh), most_cycles(mesh)) == (256, 12, 8192)
    slow = Topology.parse("line3@package(latency=3,cpf=1),ring3")
    assert (places(slow), epoch_bits(slow)) == (9 * 8, 10)  # 72 * (2 * 3 + 1 + 3) = 720
    assert places(Topology.parse("mesh:2x2x2")) == 8 * 8  # two lanes that only lead back
    assert most_cycles(Topology.parse("line:1")) == 4


def crowded(model, seed, cycles):
    """Every source sends whenever it may, mostly to one tile, which changes."""
    rng, name = random.Random(seed), 0
    for cycle in range(cycles):
        pushes = {}
        for tile in range(model.topology.tiles):
            if model.room(tile):
                hot = (cycle // 200) % model.topology.tiles
                to = hot if rng.random() < 0.7 else rng.randrange(model.topology.tiles)
                pushes[tile], name = Flit(name, to), name + 1
        model.step(pushes)
    return name


@pytest.mark.parametrize("text", ["mesh:3x3", "torus:3x3", "ring:5", "line:4", "mesh:2x2x2"])
def test_no_flit_stays_longer_than_the_bound(text):
    topology = Topology.parse(text)
    model = DeflectionModel(topology)
    crowded(model, 1, 1500)
    inside = model.flits
    assert inside > topology.tiles
    for _ in range(most_cycles(topology)):
        model.step({})
    assert model.flits == 0
    assert model.longest <= most_cycles(topology)


@pytest.mark.parametrize("text", ["mesh:3x3", "ring:5", "mesh:3x2x2"])
def test_an_epoch_empties_a_full_network_of_old_flits(text):
    """All places taken by flits that become old at once, sources that go on sending."""
    topology, rng = Topology.parse(text), random.Random(2)
    for hot in (0, topology.tiles // 2, None):
        model = DeflectionModel(topology)
        model.now = 1 << model.bits  # the begin of an epoch
        for tile, lanes in enumerate(model.lanes):
            for lane in range(len(lanes)):
                to = rng.randrange(topology.tiles) if hot is None else hot
                lanes[lane] = Flit(-1 - tile, to, model.now - 1)
        steps = places(topology) * (topology.diameter_cycles + 1)
        for _ in range(steps):
            model.step({t: Flit(0, 0) for t in range(topology.tiles) if model.room(t)})
        left = [f for lanes in model.lanes for f in lanes if f and f.entered < 1 << model.bits]
        assert not left


def ageless(lanes, first):
    """A wrong rule: nobody is old."""
    return decide([flit and flit._replace(old=False) for flit in lanes], first)


@pytest.mark.parametrize("rule,starves", [(decide, False), (ageless, True)])
def test_without_age_a_flit_starves(rule, starves):
    """Tile 2 sends to tile 1 each cycle; a flit from tile 0 comes by the other lane."""
    topology = Topology.parse("line:3")
    model, arrived = DeflectionModel(topology, rule=rule), []
    for cycle in range(10 * most_cycles(topology)):
        pushes = {2: Flit(1 + cycle, 1)} if model.room(2) else {}
        if cycle == 5:
            pushes[0] = Flit(0, 1)
        delivered, _ = model.step(pushes)
        arrived += [flit.name for flit in delivered.values()]
    assert (0 not in arrived) == starves
    assert len(arrived) > 9 * most_cycles(topology)


@pytest.mark.parametrize(
    "text,message",
    [
        ("flat:4", "a deflection router has no full, as in full4@die; give dimensions of line and"),
        ("line2,switch4", "has no switch, as in switch4@die"),
        ("line2@package", "sends a flit each cycle, line2@package takes one in 2; give cpf=1"),
    ],
)
def test_dimensions_that_it_is_not_for_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        check_dims(Topology.parse(text).dims)
    check_dims(Topology.parse("full:1").dims)
