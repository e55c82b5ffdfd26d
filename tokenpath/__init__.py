"""Tokenpath: from a language model's checkpoint to the cycle that each generated token costs."""

__version__ = "0.1.0"
