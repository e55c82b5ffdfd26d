"""Streams and appends of a drawn program."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenpath.hw.arch.isa import Engine, Op

from .layout import APPENDED, QUANTED

if TYPE_CHECKING:
    from .writer import Writer


@dataclass
class Open:
    """A STREAM whose operation isn't written yet: at most ``n`` rows, ``rows`` as an operand."""

    op: Op
    beats: int
    n: int
    m: int
    rows: Any
    closes: bool
    operands: dict[str, int]


class Streams:
    """The STREAMs that wait for their operation, by tile, and what was appended."""

    def __init__(self, writer: "Writer") -> None:
        self.writer, self.arch, self.rng = writer, writer.arch, writer.rng
        self.open: list[list[Open]] = [[] for _ in range(self.arch.tiles)]
        self.scored = [4] * self.arch.tiles
        self.emptied = [0] * self.arch.tiles

    def is_closed(self, tile: int) -> bool:
        """The memory engine of a tile can't be sure to go on."""
        return any(one.closes for one in self.open[tile])

    # --- streams ---

    def open_one(self, tile: int) -> bool:
        """Write a STREAM; the operation on it comes later."""
        if self.is_closed(tile):
            return False
        rng, arch, writer = self.rng, self.arch, self.writer
        first, size = self._region(tile)
        m = rng.choice((arch.lanes, rng.randint(1, 3 * arch.lanes)))
        most = size // arch.row_beats(m)
        n = rng.choice((self.scored[tile], 0, 1, 2, 3, 5, rng.randint(1, 40), rng.randint(1, 20)))
        n = min(n, most)
        register = 0
        if rng.random() < 0.2:
            register, n = writer.moving.any()
        op = rng.choice((Op.DOT, Op.SCORE, Op.AXPY, Op.AXPY, Op.LOAD))
        operands = writer.draw(tile, later=True).on_stream(op, n, m)
        if n > most or operands is None:
            return False
        if op == Op.SCORE:
            self.scored[tile] = n
        self._open(tile, op, (first, size), n, m, register, operands)
        return True

    def _region(self, tile: int) -> tuple[int, int]:
        places = self.writer.places[tile]
        if places.rows and self.rng.random() < 0.4:
            self.writer.corners["stream of appended rows"] += 1
            return self.rng.choice(places.rows)
        return 0, self.writer.layout.appended

    def _open(
        self, tile: int, op: Op, region: tuple[int, int], n: int, m: int, register: int,
        operands: dict[str, int],
    ) -> None:  # fmt: skip
        writer, beats = self.writer, n * self.arch.row_beats(m)
        ahead = sum(one.beats for one in self.open[tile])
        closes = ahead + beats > self.arch.stream_depth
        writer.corners["long stream" if closes else "short stream"] += 1
        writer.corners["stream of moving rows"] += bool(register)
        src = region[0] + self.rng.randint(0, region[1] - beats)
        rows: Any = (0, register) if register else writer.operand(tile, n)
        columns = writer.operand(tile, m)
        posts = {"post": 0} if closes else {}
        writer.write(
            tile, Engine.MEMORY, Op.STREAM, src=writer.operand(tile, src), n=rows, m=columns,
            **posts,
        )  # fmt: skip
        self.open[tile].append(Open(op, beats, n, m, rows, closes, operands))

    def consume(self, tile: int) -> bool:
        """Write the operation on the oldest open STREAM; False if there is none."""
        if not self.open[tile]:
            return False
        one, writer = self.open[tile].pop(0), self.writer
        writer.corners["streams ahead"] += bool(self.open[tile])
        operands = writer.draw(tile).on_stream(one.op, one.n, one.m) or one.operands
        fixed = {k: v for k, v in operands.items() if k not in ("n", "m")}
        n = one.rows if isinstance(one.rows, tuple) else writer.operand(tile, one.n)
        named = writer.loose(tile, fixed) | {"n": n, "m": one.m}
        writer.write(tile, Engine.COMPUTE, one.op, **named)
        return True

    # --- appends ---

    def append(self, tile: int) -> bool:
        """A QUANT into the append buffer, and the APPEND of its beats."""
        writer, places = self.writer, self.writer.places[tile]
        i = writer.draw(tile).quant(1)
        beats = self.arch.row_beats(i["n"]) * i["m"]
        register, most = writer.moving.any() if self.rng.random() < 0.3 else (0, 0)
        if self.is_closed(tile):
            return False
        at = places.rows_for(beats + most)
        if at < 0:
            return False
        wait: dict[str, Any] = {}
        if self.emptied[tile]:
            wait = {"wait": APPENDED, "wait_n": self.emptied[tile]}
        self.emptied[tile] = 1
        writer.write(tile, Engine.COMPUTE, Op.QUANT, **writer.loose(tile, i), **wait, post=QUANTED)
        writer.write(
            tile, Engine.MEMORY, Op.APPEND, dst=(at, register) if register else at,
            src=writer.operand(tile, i["dst"]), n=writer.operand(tile, beats),
            wait=QUANTED, wait_n=1, post=APPENDED,
        )  # fmt: skip
        writer.posted[tile, QUANTED] -= 1
        writer.posted[tile, APPENDED] = 1
        return True

    # --- the end ---

    def close(self, tile: int) -> None:
        """Consume what is open, and load all that was appended."""
        while self.consume(tile):
            pass
        for first, beats in self.writer.places[tile].rows:
            operands = self.writer.draw(tile).on_stream(Op.LOAD, beats, self.arch.lanes)
            if operands and beats:
                self._open(tile, Op.LOAD, (first, beats), beats, self.arch.lanes, 0, operands)
                self.consume(tile)
