"""The fast cycle-level array simulator: values and cycles of a Program, or cycles alone."""

from .machine import FastMachine, run

__all__ = ["FastMachine", "run"]
