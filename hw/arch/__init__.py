"""The one definition of the machine: parameters, topology, numbers, instructions, timing, programs.

Standard library only; the hardware, the simulators and the compiler all read it.
"""
