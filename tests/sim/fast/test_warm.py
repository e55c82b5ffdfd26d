"""The kernel that is compiled beside is the one that a machine calls."""

from numba import typeof
from pairs import SMALL, Pair

from tokenpath.sim.fast import FastMachine
from tokenpath.sim.fast.state import addresses
from tokenpath.sim.fast.warm import arguments


def test_the_types_are_those_of_a_machine() -> None:
    machine = FastMachine(Pair(SMALL).program)
    called = addresses(machine.engines), machine.values, machine.values.vector, machine.payload
    assert [typeof(a) for a in arguments()] == [typeof(a) for a in called]
