"""Recorded traffic: packets with the cycle in which each is made, in a CSV file."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.errors import InputError

I64 = NDArray[np.int64]

COLUMNS = ("cycle", "source", "destination", "flits")
LIMITS = (1 << 30, 1 << 24, 1 << 24, 1 << 16)
"""What each column must be below."""

NEVER = 1 << 60


@dataclass(frozen=True, kw_only=True)
class Trace:
    """``rows`` (packets, 4): cycle, source, destination and flits of each packet."""

    rows: I64

    @property
    def last(self) -> int:
        """The cycle in which the last packet is made."""
        return int(self.rows[:, 0].max())

    @classmethod
    def read(cls, path: Path) -> "Trace":
        """Read a CSV file with the columns of COLUMNS, named in its first line, in any order of
        cycles. Raises InputError with the line at fault.
        """
        try:
            with path.open(newline="", encoding="utf-8") as file:
                lines = csv.reader(file)
                if tuple(next(lines, ())) != COLUMNS:
                    raise InputError(f"{path}: begin with the line {','.join(COLUMNS)}")
                rows = [_row(path, number, line) for number, line in enumerate(lines, 2)]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"can't read the trace {path}: {error}; give a CSV file") from None
        if not rows:
            raise InputError(f"{path} has no packets; give at least one line of numbers")
        return cls(rows=np.array(rows, np.int64))

    def csv(self) -> str:
        """The text of a file that ``read`` takes."""
        lines = [",".join(COLUMNS), *(",".join(map(str, row)) for row in self.rows.tolist())]
        return "\n".join(lines) + "\n"

    def by_source(self, tiles: int) -> tuple[I64, I64]:
        """(cycle, destination, flits) of each source's packets in order, behind them one that is
        never made; and where each source's begin. Raises InputError for a tile that isn't there.
        """
        most = int(self.rows[:, 1:3].max())
        if most >= tiles:
            raise InputError(
                f"the trace has a packet of tile {most}, the topology tiles 0 to {tiles - 1}; give "
                "the topology that it was recorded on"
            )
        ends = np.stack([np.full(tiles, NEVER), np.arange(tiles), np.zeros(tiles), np.ones(tiles)])
        rows = np.concatenate([self.rows, ends.T.astype(np.int64)])
        rows = rows[np.lexsort((rows[:, 0], rows[:, 1]))]  # stable: equal cycles as in the file
        first = np.searchsorted(rows[:, 1], np.arange(tiles))
        return rows[:, [0, 2, 3]], first


def _row(path: Path, number: int, line: list[str]) -> list[int]:
    values = [int(text) if text.strip().isdecimal() else -1 for text in line]
    right = len(values) == len(COLUMNS) and values[3] > 0
    if not right or any(not 0 <= v < most for v, most in zip(values, LIMITS, strict=True)):
        raise InputError(
            f"{path}, line {number}: {','.join(line)[:60]!r} is not {','.join(COLUMNS)}; give four "
            "numbers, at least one flit"
        )
    return values
