"""Random machines and programs, shaped like real ones: what the executors are compared on.

A drawn program can't deadlock and has no race; ``Program.check("full")`` accepts it. All drawing
is from a ``random.Random``, so that a seed names a case.
"""

from .arches import draw_arch, draw_router
from .build import program
from .images import images
from .puts import RACING
from .writer import Writer, random_program

__all__ = [
    "RACING",
    "Writer",
    "draw_arch",
    "draw_router",
    "images",
    "program",
    "random_program",
]
