"""The values of a step on a thread of their own, behind the timing, which never waits for them."""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from subprocess import Popen

import numpy as np

from tokenpath.hw.arch.program import Program

from . import columns as c
from .memories import PAYLOAD_WORDS, make_values
from .replay import replay
from .state import I64, Engines, addresses

CHUNKS = 4
"""Logs in turn: one is being written, the others wait to be replayed."""


class Replayer:
    """Replays a machine's log chunk by chunk, in order, while the machine goes on.

    ``values`` are the memories of the tiles; they are up to date between ``finish`` and the next
    ``hand_over``. An error of a replay (IndexError) is raised by one of the two.
    """

    def __init__(self, program: Program, engines: Engines) -> None:
        self.values = make_values(program, len(engines.packets) // c.K_WIDTH)
        self.compiler: Popen[bytes] | None = None
        self._free = [np.zeros_like(engines.log) for _ in range(CHUNKS - 1)]
        self._running: deque[tuple[Future[None], I64]] = deque()
        self._thread = ThreadPoolExecutor(1, "values")

    def make_room(self) -> None:
        """Hold the payload of twice as many packets. Nothing may be running."""
        payload = np.concatenate([self.values.payload, np.zeros_like(self.values.payload)])
        self.values.params[PAYLOAD_WORDS] = len(payload)
        self.values = self.values._replace(payload=payload)

    def hand_over(self, engines: Engines) -> Engines:
        """Replay the log in the background; returns the engines with an empty one."""
        then = engines._replace(g=engines.g.copy())
        engines.g[c.LOG_N] = 0
        self._running.append((self._thread.submit(self._replay, then), engines.log))
        if not self._free:
            self._collect()
        return engines._replace(log=self._free.pop())

    def finish(self, engines: Engines) -> None:
        """Wait for what is running, then replay and empty the log."""
        while self._running:
            self._collect()
        self._replay(engines)

    def _collect(self) -> None:
        done, log = self._running.popleft()
        self._free.append(log)
        done.result()

    def _replay(self, engines: Engines) -> None:
        if self.compiler:
            self.compiler.wait()
            self.compiler = None
        replay(addresses(engines), addresses(self.values))
