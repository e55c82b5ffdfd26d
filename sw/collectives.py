"""Collectives as schedules of puts: reduce-scatter and all-gather line by line, rings, and
one-shot.

The digits of an arrangement are the lines along which a collective proceeds. A vector is split by
one digit
after the other into nested intervals, so that each phase moves whole intervals along one line.
"""

from collections.abc import Sequence
from itertools import product
from math import prod

from tokenpath.hw.arch.isa import Engine, Op

from .emit import Descriptor, Emitter
from .mapping import Arrangement, Span


class Collective:
    """Emits one collective. ``words`` is the vector's length on each tile; ``source`` holds a
    tile's own interval.

    ``reduce`` are the digits to sum over, ``segments`` the digits by which the vector is split
    already. Buffers and
    semaphores alternate with ``parity``, so that a fast tile may be one collective ahead of a slow
    one.
    """

    def __init__(
        self, emitter: Emitter, team: Arrangement, name: str, parity: int, places: dict[str, int]
    ) -> None:
        self.emitter = emitter
        self.team = team
        self.name = f"{name}.{parity}"
        self.places = places

    def _place(self, what: str, words: int, inbox: bool = True) -> int:
        """Buffer ``what`` of this collective, the same each time."""
        key = f"{self.name}.{what}"
        if key not in self.places:
            self.places[key] = self.emitter.inbox(words) if inbox else self.emitter.scratch(words)
        return self.places[key]

    def _is_active(self, tile: int) -> bool:
        return tile < self.team.active

    def all_reduce(
        self,
        source: int,
        words: Sequence[int],
        *,
        reduce: Sequence[int],
        segments: Sequence[int],
        algorithm: str,
        spread: bool = False,
    ) -> tuple[int, int, int]:
        """Sum over ``reduce`` and gather over all digits. Returns (address, slots, slot stride) of
        what a SUM has to add.

        The compute engine's next instruction waits for it. ``spread``: idle tiles get the result
        too.
        """
        if not reduce and not segments and not (spread and self.team.active < self.team.tiles):
            return source, 1, 0
        self.emitter.hand_over(Engine.COMPUTE, Emitter.TO_NETWORK)
        self.emitter.wait(Engine.NETWORK, Emitter.TO_NETWORK)
        if algorithm == "oneshot":
            return self._one_shot(source, words, reduce, segments, spread)
        order = [*segments, *reduce]
        held = source
        for done in range(len(segments), len(order)):
            step = self._ring_scatter if algorithm == "ring" else self._reduce_scatter
            held = step(held, words, order[: done + 1])
        vector = self._place("vector", max(words))
        step_gather = self._ring_gather if algorithm == "ring" else self._all_gather
        for left in range(len(order), 0, -1):
            step_gather(held if left == len(order) else None, vector, words, order[:left])
        if not order:
            held_by = self.name + ".self"
            self._to_all(
                [
                    [(t, 0, words[t], 0)] if self._is_active(t) else []
                    for t in range(self.team.tiles)
                ],
                source,
                vector,
                held_by,
            )
        if spread and self.team.active < self.team.tiles:
            self._spread(vector, words)
        # Earlier arrivals were waited for by the network engine; its last put tells the compute
        # engine.
        self.emitter.hand_over(Engine.NETWORK, Emitter.TO_COMPUTE)
        self.emitter.wait(Engine.COMPUTE, Emitter.TO_COMPUTE)
        return vector, 1, 0

    # --- direct: every tile of a line to every other one ---

    def _reduce_scatter(self, held: int, words: Sequence[int], digits: Sequence[int]) -> int:
        """Split each tile's interval along the last of ``digits`` and sum each part where it
        belongs."""
        emitter, team, digit = self.emitter, self.team, digits[-1]
        size = team.sizes[digit]
        mine = [team.interval(t, digits, words[t]) for t in range(team.tiles)]
        outer = [team.interval(t, digits[:-1], words[t]) for t in range(team.tiles)]
        stride = max(end - first for first, end in mine)
        slots = self._place(f"slots{digit}", stride * (size - 1))
        rows: list[list[Descriptor]] = [[] for _ in range(team.tiles)]
        for tile in range(team.active):
            for away in range(1, size):
                to = team.peer(tile, digit, (team.coordinate(tile, digit) + away) % size)
                first, end = team.interval(to, digits, words[tile])
                rows[tile].append(
                    (to, first - outer[tile][0], end - first, (size - away - 1) * stride)
                )
        semaphore = emitter.semaphore(f"{self.name}.scatter{digit}")
        emitter.put(rows, src=held, dst=slots, semaphore=semaphore)
        self._await(Engine.COMPUTE, semaphore, size - 1)
        return self._sum_slots(held, mine, outer, slots, stride, size - 1, f"sum{digit}")

    def _sum_slots(
        self,
        held: int,
        mine: list[Span],
        outer: list[Span],
        slots: int,
        stride: int,
        count: int,
        what: str,
    ) -> int:
        emitter = self.emitter
        result = self._place(what, max(1, stride), inbox=False)
        emitter.compute(
            Op.SUM,
            dst=result,
            src=slots,
            aux=stride,
            bux=emitter.per_tile(
                [
                    m[0] - o[0] if self._is_active(t) else 0
                    for t, (m, o) in enumerate(zip(mine, outer, strict=True))
                ],
                held,
            ),
            n=emitter.per_tile(
                [m[1] - m[0] if self._is_active(t) else 0 for t, m in enumerate(mine)]
            ),
            m=count,
            q=1,
        )
        emitter.hand_over(Engine.COMPUTE, Emitter.TO_NETWORK)
        emitter.wait(Engine.NETWORK, Emitter.TO_NETWORK)
        return result

    def _all_gather(
        self, held: int | None, vector: int, words: Sequence[int], digits: Sequence[int]
    ) -> None:
        """Send each tile's interval along the last of ``digits``; ``held`` is its place before the
        first gather."""
        team, digit = self.team, digits[-1]
        size = team.sizes[digit]
        rows: list[list[Descriptor]] = [[] for _ in range(team.tiles)]
        for tile in range(team.active):
            first, end = team.interval(tile, digits, words[tile])
            source = 0 if held is not None else first
            for away in range(1, size + (held is not None)):
                to = team.peer(tile, digit, (team.coordinate(tile, digit) + away) % size)
                rows[tile].append((to, source, end - first, first))
        self._to_all(rows, vector if held is None else held, vector, f"{self.name}.gather{digit}")

    def _to_all(self, rows: list[list[Descriptor]], src: int, vector: int, name: str) -> None:
        """Put by descriptors into ``vector``; whoever comes next, network or compute, waits for
        the arrivals."""
        counts = [0] * self.team.tiles
        for row in rows:
            for to, *_ in row:
                counts[to] += 1
        semaphore = self.emitter.semaphore(name)
        self.emitter.defer_waits()
        self.emitter.put(rows, src=src, dst=vector, semaphore=semaphore)
        self.emitter.wait(Engine.COMPUTE, semaphore, self.emitter.per_tile(counts))

    def _await(self, engine: Engine, semaphore: int, count: int) -> None:
        self.emitter.wait(
            engine,
            semaphore,
            self.emitter.per_tile(
                [count if self._is_active(t) else 0 for t in range(self.team.tiles)]
            ),
        )

    # --- rings: every tile to its successor ---

    def _ring_scatter(self, held: int, words: Sequence[int], digits: Sequence[int]) -> int:
        """Reduce-scatter along the last digit as a ring: size - 1 steps, each adds one part and
        passes it on."""
        emitter, team, digit = self.emitter, self.team, digits[-1]
        size, tiles = team.sizes[digit], range(team.tiles)
        outer = [team.interval(t, digits[:-1], words[t]) for t in tiles]

        def span(tile: int, back: int) -> Span:
            owner = team.peer(tile, digit, (team.coordinate(tile, digit) - back) % size)
            return team.interval(owner, digits, words[tile])

        stride = max(1, *(end - first for t in range(team.active) for first, end in [span(t, 0)]))
        slots = self._place(f"slots{digit}", stride * (size - 1))
        current: int | None = None
        for step in range(size - 1):
            rows: list[list[Descriptor]] = [[] for _ in tiles]
            for tile in range(team.active):
                first, end = span(tile, 1 + step)
                to = team.peer(tile, digit, (team.coordinate(tile, digit) + 1) % size)
                rows[tile].append(
                    (to, first - outer[tile][0] if current is None else 0, end - first, 0)
                )
            semaphore = emitter.semaphore(f"{self.name}.ring{digit}.{step}")
            slot = slots + step * stride
            emitter.put(
                rows, src=held if current is None else current, dst=slot, semaphore=semaphore
            )
            self._await(Engine.COMPUTE, semaphore, 1)
            mine = [span(t, 2 + step) if self._is_active(t) else (0, 0) for t in tiles]
            current = self._sum_slots(held, mine, outer, slot, stride, 1, f"ring{digit}.{step}")
        return held if current is None else current

    def _ring_gather(
        self, held: int | None, vector: int, words: Sequence[int], digits: Sequence[int]
    ) -> None:
        """All-gather along the last digit as a ring: each tile passes on what it received."""
        team, digit = self.team, digits[-1]
        size, tiles = team.sizes[digit], range(team.tiles)
        if held is not None:
            own = [team.interval(t, digits, words[t]) for t in tiles]
            rows = [
                [(t, 0, own[t][1] - own[t][0], own[t][0])] if self._is_active(t) else []
                for t in tiles
            ]
            self._to_all(rows, held, vector, f"{self.name}.own")
        for step in range(size - 1):
            rows = [[] for _ in tiles]
            for tile in range(team.active):
                owner = team.peer(tile, digit, (team.coordinate(tile, digit) - step) % size)
                first, end = team.interval(owner, digits, words[tile])
                to = team.peer(tile, digit, (team.coordinate(tile, digit) + 1) % size)
                rows[tile].append((to, first, end - first, first))
            self._to_all(rows, vector, vector, f"{self.name}.pass{digit}.{step}")

    # --- one-shot: every tile to all tiles ---

    def _one_shot(
        self,
        source: int,
        words: Sequence[int],
        reduce: Sequence[int],
        segments: Sequence[int],
        spread: bool,
    ) -> tuple[int, int, int]:
        """Every tile sends its interval to everyone; a slot for each summand."""
        team = self.team
        stride = max(words)
        slots = self._place("slots", stride * prod(team.sizes[d] for d in reduce))
        rows: list[list[Descriptor]] = [[] for _ in range(team.tiles)]
        idle = list(range(team.active, team.tiles)) if spread else []
        for tile in range(team.active):
            first, end = team.interval(tile, segments, words[tile])
            slot = self._mixed(tile, reduce)
            peers = [*self._line(tile, [*segments, *reduce]), *idle]
            at = peers.index(tile)
            for to in [*peers[at + 1 :], *peers[: at + 1]]:
                rows[tile].append((to, 0, end - first, slot * stride + first))
        self._to_all(rows, source, slots, f"{self.name}.all")
        return slots, prod(team.sizes[d] for d in reduce), stride

    def _mixed(self, tile: int, digits: Sequence[int]) -> int:
        value, weight = 0, 1
        for digit in digits:
            value += self.team.coordinate(tile, digit) * weight
            weight *= self.team.sizes[digit]
        return value

    def _line(self, tile: int, digits: Sequence[int]) -> list[int]:
        """The tiles that agree with ``tile`` in all digits but ``digits``."""
        line = []
        for values in product(*(range(self.team.sizes[d]) for d in digits)):
            to = tile
            for digit, value in zip(digits, values, strict=True):
                to = self.team.peer(to, digit, value)
            line.append(to)
        return sorted(line)

    def _spread(self, vector: int, words: Sequence[int]) -> None:
        """Each idle tile gets the finished vector from a tile of the team."""
        team, emitter = self.team, self.emitter
        emitter.defer_waits()
        rows: list[list[Descriptor]] = [[] for _ in range(team.tiles)]
        for idle in range(team.active, team.tiles):
            rows[idle % team.active].append((idle, 0, max(words), 0))
        semaphore = emitter.semaphore(f"{self.name}.spread")
        emitter.put(rows, src=vector, dst=vector, semaphore=semaphore)
        emitter.wait(
            Engine.COMPUTE,
            semaphore,
            emitter.per_tile([0 if self._is_active(t) else 1 for t in range(team.tiles)]),
        )

    def all_max(self, source: int, words: int, digits: Sequence[int]) -> int:
        """Maximum over ``digits`` of ``words`` words, on each tile. Returns its address."""
        return self._line_by_line(source, words, digits, Op.MAX, n=words)

    def merge(self, source: int, words: int, digits: Sequence[int], *, n: int, q: int) -> int:
        """Softmax records of ``words`` words merged over ``digits``, on each tile. Returns the
        address of the record."""
        return self._line_by_line(source, words, digits, Op.MERGE, n=n, q=q)

    def _line_by_line(
        self, source: int, words: int, digits: Sequence[int], op: Op, *, n: int, q: int = 0
    ) -> int:
        """Exchange whole vectors along one line after the other and combine the slots with
        ``op``."""
        emitter, team = self.emitter, self.team
        for digit in digits:
            size = team.sizes[digit]
            slots = self._place(f"line{digit}", words * size)
            result = self._place(f"lined{digit}", words, inbox=False)
            rows: list[list[Descriptor]] = [[] for _ in range(team.tiles)]
            for tile in range(team.active):
                own = team.coordinate(tile, digit)
                for away in range(1, size + 1):
                    rows[tile].append(
                        (team.peer(tile, digit, (own + away) % size), 0, words, own * words)
                    )
            emitter.hand_over(Engine.COMPUTE, Emitter.TO_NETWORK)
            emitter.wait(Engine.NETWORK, Emitter.TO_NETWORK)
            semaphore = emitter.semaphore(f"{self.name}.line{digit}")
            emitter.put(rows, src=source, dst=slots, semaphore=semaphore)
            self._await(Engine.COMPUTE, semaphore, size)
            emitter.compute(op, dst=result, src=slots, aux=words, n=n, m=size, q=q)
            source = result
        return source
