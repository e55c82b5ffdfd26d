"""Collectives as schedules of puts: reduce-scatter and all-gather line by line, rings, one-
shot.

The digits of an arrangement are the lines along which a collective proceeds. A vector is split
by one digit after the other into nested intervals, so that each phase moves whole intervals
along one line. :mod:`tokenpath.sw.routes` says who sends what; here the phases become
instructions.
"""

from collections.abc import Sequence
from math import prod

from tokenpath.hw.arch.isa import Engine, Op

from . import routes
from .emit import Emitter
from .mapping import Arrangement, Span


class Collective:
    """Emits one collective of a team.

    Its buffers and semaphores go by ``name`` and ``parity``.     The parity alternates from
    layer to layer, so that a fast tile may be one collective ahead of a     slow one. ``words``
    of a vector may differ from tile to tile, within a line they are equal.
    """

    def __init__(
        self, emitter: Emitter, team: Arrangement, name: str, parity: int, places: dict[str, int]
    ) -> None:
        self.emitter = emitter
        self.team = team
        self.name = f"{name}.{parity}"
        self.places = places

    def all_reduce(
        self,
        source: int,
        words: Sequence[int],
        *,
        reduce: routes.Digits,
        segments: routes.Digits,
        algorithm: str,
        spread: bool = False,
    ) -> tuple[int, int, int]:
        """Sum over the digits ``reduce`` and gather over these and ``segments``.

        ``source`` holds a tile's interval of the vector, which is split by ``segments``
        already. With ``spread`` the idle tiles get the result, too. Returns (address, slots,
        slot stride) of what a SUM has to add; the compute engine's next instruction waits for
        it.
        """
        spread = spread and self.team.active < self.team.tiles
        if not reduce and not segments and not spread:
            return source, 1, 0
        length = tuple(words)
        self._hand_to_network()
        if algorithm == "oneshot":
            return self._one_shot(source, length, reduce, segments, spread)
        scatter, gather = (
            (self._ring_scatter, self._ring_gather)
            if algorithm == "ring"
            else (self._reduce_scatter, self._all_gather)
        )
        order, held = segments + reduce, source
        for done in range(len(segments) + 1, len(order) + 1):
            held = scatter(held, length, order[:done])
        vector = self._place("vector", max(length))
        if not order:
            self._send(routes.to_self(self.team, (), length), held, vector, "self")
        for left in range(len(order), 0, -1):
            gather(held if left == len(order) else None, vector, length, order[:left])
        if spread:
            self._send(routes.spread(self.team, max(length)), vector, vector, "spread")
        # The network engine waits for all arrivals and tells the compute engine.
        self.emitter.defer_waits()
        self.emitter.emit(Engine.NETWORK, Op.SYNC, post=Emitter.TO_COMPUTE)
        self.emitter.wait(Engine.COMPUTE, Emitter.TO_COMPUTE)
        return vector, 1, 0

    def all_max(self, source: int, words: int, digits: routes.Digits) -> int:
        """Maximum over ``digits`` of ``words`` words, on each tile.

        Returns its address.
        """
        return self._exchange(source, words, digits, Op.MAX, n=words)

    def merge(self, source: int, words: int, digits: routes.Digits, *, n: int, q: int) -> int:
        """Softmax records of ``words`` words merged over ``digits``.

        Returns the address.
        """
        return self._exchange(source, words, digits, Op.MERGE, n=n, q=q)

    # --- pieces ---

    def _place(self, what: str, words: int, inbox: bool = True) -> int:
        """Buffer ``what`` of this collective, the same each time."""
        key = f"{self.name}.{what}"
        if key not in self.places:
            self.places[key] = self.emitter.inbox(words) if inbox else self.emitter.scratch(words)
        return self.places[key]

    def _hand_to_network(self) -> None:
        """The next put waits for the last compute instruction."""
        self.emitter.hand_over(Engine.COMPUTE, Emitter.TO_NETWORK)
        self.emitter.wait(Engine.NETWORK, Emitter.TO_NETWORK)

    def _send(self, rows: routes.Rows, src: int, dst: int, what: str) -> None:
        """Put by descriptors.

        The network engine waits for earlier arrivals, the compute engine for these.
        """
        self.emitter.defer_waits()
        semaphore = self.emitter.semaphore(f"{self.name}.{what}")
        arrivals = self.emitter.put(rows, src=src, dst=dst, semaphore=semaphore)
        self.emitter.wait(Engine.COMPUTE, semaphore, arrivals)

    def _add(
        self,
        held: int,
        mine: tuple[Span, ...],
        outer: tuple[Span, ...],
        slots: tuple[int, int, int],
        what: str,
    ) -> int:
        """Add the slots (address, stride, count) to each tile's part ``mine`` of what it holds
        at ``held``."""
        emitter = self.emitter
        result = self._place(what, max(1, slots[1]), inbox=False)
        offsets = [m[0] - o[0] for m, o in zip(mine, outer, strict=True)]
        emitter.compute(
            Op.SUM,
            dst=result,
            src=slots[0],
            aux=slots[1],
            bux=emitter.per_tile(offsets, held),
            n=emitter.per_tile([end - first for first, end in mine]),
            m=slots[2],
            q=1,
        )
        self._hand_to_network()
        return result

    # --- direct: every tile of a line to every other one ---

    def _reduce_scatter(self, held: int, words: routes.Words, digits: routes.Digits) -> int:
        """Split each tile's interval along the last digit and sum each part where it
        belongs."""
        team, digit = self.team, digits[-1]
        mine, outer = routes.spans(team, digits, words), routes.spans(team, digits[:-1], words)
        stride, others = max(end - first for first, end in mine), team.sizes[digit] - 1
        slots = self._place(f"slots{digit}", stride * others)
        self._send(routes.scatter(team, digits, words, stride), held, slots, f"scatter{digit}")
        return self._add(held, mine, outer, (slots, stride, others), f"sum{digit}")

    def _all_gather(
        self, held: int | None, vector: int, words: routes.Words, digits: routes.Digits
    ) -> None:
        """Send each tile's interval along the last digit, the first time out of ``held``."""
        rows = routes.gather(self.team, digits, words, held is not None)
        self._send(rows, vector if held is None else held, vector, f"gather{digits[-1]}")

    # --- rings: every tile to its successor ---

    def _ring_scatter(self, held: int, words: routes.Words, digits: routes.Digits) -> int:
        """Reduce-scatter in size - 1 steps: each adds one part to what came and passes it on."""
        team, digit = self.team, digits[-1]
        outer = routes.spans(team, digits[:-1], words)
        stride = max(1, *(end - first for first, end in routes.spans(team, digits, words)))
        steps = team.sizes[digit] - 1
        slots, current = self._place(f"slots{digit}", stride * steps), held
        for step in range(steps):
            slot = slots + step * stride
            rows = routes.ring_scatter(team, digits, words, step)
            self._send(rows, current, slot, f"ring{digit}")
            mine = routes.shifted_spans(team, digits, words, 2 + step)
            current = self._add(held, mine, outer, (slot, stride, 1), f"ring{digit}.{step}")
        return current

    def _ring_gather(
        self, held: int | None, vector: int, words: routes.Words, digits: routes.Digits
    ) -> None:
        """All-gather in size - 1 steps: each tile passes on what it received.

        One semaphore serves all steps of a ring, since a tile has one predecessor.
        """
        team, digit = self.team, digits[-1]
        if held is not None:
            self._send(routes.to_self(team, digits, words), held, vector, "own")
        for step in range(team.sizes[digit] - 1):
            rows = routes.ring_gather(team, digits, words, step)
            self._send(rows, vector, vector, f"pass{digit}")

    # --- one-shot and line by line ---

    def _one_shot(
        self,
        source: int,
        words: routes.Words,
        reduce: routes.Digits,
        segments: routes.Digits,
        spread: bool,
    ) -> tuple[int, int, int]:
        """Every tile sends its interval to everyone; a slot for each summand."""
        count, stride = prod(self.team.sizes[d] for d in reduce), max(words)
        slots = self._place("slots", stride * count)
        rows = routes.one_shot(self.team, reduce, segments, words, spread)
        self._send(rows, source, slots, "all")
        return slots, count, stride

    def _exchange(
        self, source: int, words: int, digits: routes.Digits, op: Op, *, n: int, q: int = 0
    ) -> int:
        """Exchange whole vectors along one line after the other; combine the slots with
        ``op``."""
        for digit in digits:
            size = self.team.sizes[digit]
            slots = self._place(f"line{digit}", words * size)
            result = self._place(f"lined{digit}", words, inbox=False)
            self._hand_to_network()
            rows = routes.exchange(self.team, digit, words)
            self._send(rows, source, slots, f"line{digit}")
            self.emitter.compute(op, dst=result, src=slots, aux=words, n=n, m=size, q=q)
            source = result
        return source
