"""The packets of a step, from the log that its values are replayed from."""

import numpy as np

from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.timing import put_flits

from . import columns as c
from .state import I64, Engines


class Recorder:
    """Keeps what the log says of packets, chunk by chunk."""

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self._chunks: list[I64] = []

    def keep(self, engines: Engines) -> None:
        """Keep a log, before it is emptied."""
        log = engines.log[: engines.g[c.LOG_N] * c.L_WIDTH].reshape(-1, c.L_WIDTH)
        self._chunks.append(log[np.isin(log[:, 0] & 3, (c.L_INJECT, c.L_DELIVER))])

    def take(self) -> I64:
        """(packets, 4) since the last call: the cycle in which its first flit was sent, source,
        destination and flits of each, by cycle and source.
        """
        log = np.concatenate(self._chunks)
        self._chunks.clear()
        log = log[np.argsort(log[:, 1], kind="stable")]  # a packet's number: sent, delivered, ...
        sent, delivered = log[::2], log[1::2]
        flits = put_flits(sent[:, 3] & 255, self.arch.flit_words)  # type: ignore[arg-type]
        rows = np.stack([sent[:, 3] >> 8, sent[:, 0] >> 2, delivered[:, 0] >> 2, flits], axis=1)
        return rows[np.lexsort((rows[:, 1], rows[:, 0]))].astype(np.int64)
