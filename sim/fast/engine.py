"""Engines, semaphores and streams: the event-driven part of the simulator.

An engine that is ready issues in cycle ``t`` if its semaphore holds enough at the start of ``t``; all posts visible
at ``t`` are applied before any engine is looked at, and nothing that an issue does is visible before ``t + 1``, so the order in
which engines are served within a cycle can't matter.

**Streams.** Beats are numbered in order of issue. Beat i is read in ``I(i) = max(I(i-1) + 1, t + 1, C(i-D) + 1)``, consumed in
``C(i)``; D = ``stream_depth``, L = ``store_latency``. An operation consumes its first beat in ``max(S, I + L)`` and then one each g
cycles without a bubble: ``I(j) + L <= C(j)`` by induction. If ``I(j) = I(j-1) + 1`` then ``I(j) + L <= C(j-1) + 1 <= C(j)``. If
``I(j) = C(j-D) + 1`` then, as C grows by at least 1 a beat, also from operation to operation, ``I(j) + L = C(j-D) + 1 + L <=
C(j) - D + 1 + L <= C(j)``, because D > L. The same bound shows that the last of N reads is ``max(I(first) + N - 1, C(last-D) +
1)``: of the terms ``C(j-D) + 1 + last - j`` the one of j = last is the largest. So two numbers a pair of STREAM and operation
(the first read, the first consumption) say everything. Either may wait for the other side; ``settle`` fills in what is known.
A pair's credits can't set its own first consumption: ``C(first-D) + 1 + L <= C(first-1) + 1 < S``. STREAMs of no beats
and operations on none pair with nothing: neither waits for the other.

The operation's values are read and written when both sides have issued. An APPEND to beats that a STREAM has read for an
operation that has not issued yet would be seen too early, so it is refused.
"""

from tokenpath.hw.arch.isa import COLUMN, Op
from tokenpath.hw.arch.timing import DESCRIPTOR_CYCLES
from tokenpath.sim.compiled import time

from .events import ID_BITS, pop, push
from .jit import kernel
