"""What is wrong with a program's code, whatever the order in which the engines run."""

from collections.abc import Callable, Container, Iterator
from functools import partial
from itertools import zip_longest
from operator import add

from tokenpath.hw.arch.access import (
    UNIT,
    Access,
    Memory,
    accesses,
    clash,
    fault,
    operand_names,
    span,
)
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import (
    COLUMN,
    ENGINE_OPS,
    LAYOUT,
    OPERANDS,
    STREAM_OPS,
    Engine,
    Op,
)
from tokenpath.hw.arch.program import Program
from tokenpath.hw.arch.reach import Registers, flat, shape_of

Row = tuple[int, ...]
Resolved = dict[str, int]

_OP, _WAIT, _WAIT_N = COLUMN["op"], COLUMN["wait"], COLUMN["wait_n"]
_LIMITS = tuple(
    (-(1 << (f.bits - 1)), (1 << (f.bits - 1)) - 1) if f.signed else (0, (1 << f.bits) - 1)
    for f in LAYOUT
)
_PUT_PLACES = [COLUMN[name + end] for name in ("src", "dst", "aux", "m") for end in ("", "_reg")]
_COMMON = ("op", "wait", "wait_n", "post")
_PLAIN = ("q", "x", "y")


def resolver(row: Row) -> tuple[Row, Callable[[Row], Resolved]]:
    """The registers of an instruction, and a function from their values to its operands."""
    op = Op(row[_OP])
    names = operand_names(op)
    columns = [COLUMN[name] for name in names]
    registers = tuple(sorted({row[c + 1] for c in columns if row[c + 1]}))
    places = [registers.index(row[c + 1]) if row[c + 1] else -1 for c in columns]
    fixed = {name: row[c] for name, c in zip(names, columns, strict=True)}
    fixed |= {name: row[COLUMN[name]] for name in _PLAIN}
    moving = [(name, at) for name, at in zip(names, places, strict=True) if at >= 0]

    def resolve(values: Row) -> Resolved:
        return fixed | {name: fixed[name] + values[at] for name, at in moving}

    return registers, resolve


def check_code(program: Program) -> None:
    """Raise InputError for the first fault in an instruction of a class of tiles."""
    registers = Registers(program)
    for index in sorted(set(program.tile_code)):
        _Class(program, index, registers).check()


class _Class:
    """The code of one class of tiles and the checks on it."""

    def __init__(self, program: Program, index: int, registers: Registers) -> None:
        self.program, self.arch, self.registers = program, program.arch, registers
        self.index = index
        self.tiles = [t for t, code in enumerate(program.tile_code) if code == index]
        self.engines = program.code[index].engines
        self.size = {
            Memory.VECTOR: self.arch.vector_words,
            Memory.STORE: program.store_beats_used,
            Memory.APPEND: self.arch.append_beats,
            Memory.OPERAND: self.arch.operand_beats,
            Memory.SCORES: self.arch.score_rows,
            Memory.ACCUMULATORS: self.arch.accumulator_beats,
            Memory.QUERIES: self.arch.queries,
        }
        self.descriptors = shape_of(program.descriptors)[1]
        self.table = flat(program.descriptors)

    def check(self) -> None:
        """All checks, the cheap ones that the others rely on first."""
        for engine in Engine:
            self._each(engine, partial(self._misplaced, engine))
        self._waiters()
        for engine in Engine:
            self._each(engine, self._outside)
        seen = set()
        for index, row in enumerate(self.engines[Engine.NETWORK]):
            places = tuple(row[c] for c in _PUT_PLACES)
            if row[_OP] == Op.PUT and places not in seen:
                seen.add(places)
                self._put(index, row)
        self._pair_streams()

    def _fail(self, engine: Engine, index: int, message: str, tile: int | None = None) -> None:
        where = self.program.where(self.tiles[0] if tile is None else tile, engine, index)
        raise InputError(f"{where}: {message}")

    def _each(self, engine: Engine, judge: Callable[[Row], tuple[str, int | None]]) -> None:
        """Judge each distinct instruction of an engine once, and name its first occurrence."""
        seen = set()
        for index, row in enumerate(self.engines[engine]):
            if row not in seen:
                seen.add(row)
                message, tile = judge(row)
                if message:
                    self._fail(engine, index, message, tile)

    # --- fields ---

    def _misplaced(self, engine: Engine, row: Row) -> tuple[str, int | None]:
        """Fields outside their range, an operation or an operand that isn't there."""
        for field, value, (low, high) in zip(LAYOUT, row, _LIMITS, strict=True):
            if not low <= value <= high:
                return f"{field.name} {value} is outside {low}..{high}", None
        if row[_OP] not in tuple(Op):
            return f"there's no operation {row[_OP]}", None
        op = Op(row[_OP])
        if op not in ENGINE_OPS[engine]:
            return f"the {engine.name.lower()} engine has no {op.name}", None
        for field, value in zip(LAYOUT, row, strict=True):
            name = field.name.removesuffix("_reg")
            if value and name not in OPERANDS[op] and name not in _COMMON:
                return f"{op.name} has no operand {name} ({field.name} is {value})", None
        return "", None

    def _waiters(self) -> None:
        """A semaphore belongs to the one engine that waits for it."""
        owner: dict[int, tuple[Engine, int]] = {}
        for engine in Engine:
            for index, row in enumerate(self.engines[engine]):
                first, at = (
                    owner.setdefault(row[_WAIT], (engine, index)) if row[_WAIT] else (engine, 0)
                )
                if first != engine:
                    other = f"{first.name.lower()} instruction {at}"
                    text = f"waits for semaphore {row[_WAIT]}, for which {other} waits"
                    self._fail(engine, index, f"{text}; give each engine its own")

    # --- places ---

    def _outside(self, row: Row) -> tuple[str, int | None]:
        """An operand that no tile could mean, or a place outside its memory."""
        names, resolve = resolver(row)
        op = Op(row[_OP])
        for values, tile in self.registers.of_class(self.index, names).items():
            operands = resolve(values)
            message = fault(self.arch, op, operands) or self._somewhere(op, operands)
            if message:
                return message, tile
        return "", None

    def _somewhere(self, op: Op, operands: Resolved) -> str:
        """The complaint about the places of an instruction; "" for good ones."""
        found = accesses(self.arch, op, operands)
        for access in found:
            if message := self._beyond(access):
                return message
        if pair := clash(found):
            (first, end), (low, high) = ((one.low, one.end) for one in pair)
            verb = "writes" if pair[1].writes else "reads"
            text = f"writes words {span(first, end)} and {verb} words {span(low, high)}"
            return f"{text}; keep them apart, or let both begin at the same word"
        return ""

    def _beyond(self, access: Access) -> str:
        """The complaint about a place outside its memory or in the inbox; "" for a good one."""
        size, what = self.size[access.memory], "there are"
        if access.memory == Memory.VECTOR and access.writes:
            size, what = self.arch.scratch_words, "scratch has"
        if access.low >= 0 and access.end <= size:
            return self._straddles(access)
        if access.memory == Memory.QUERIES:
            return f"uses {access.size} queries; there are {size}"
        verb, unit = "writes" if access.writes else "reads", UNIT[access.memory]
        return f"{verb} {unit} {span(access.low, access.end)}; {what} 0..{size - 1}"

    def _straddles(self, access: Access) -> str:
        """The complaint about words of which some are scratch's and some the inbox's."""
        scratch = self.arch.scratch_words
        if access.memory != Memory.VECTOR or not access.low < scratch < access.end:
            return ""
        for first, end in access.each():
            if first < scratch < end:
                return f"reads words {span(first, end)}; the inbox begins at {scratch}"
        return ""

    def _put(self, index: int, row: Row) -> None:
        """Every descriptor that a PUT may use, on every tile."""
        names, resolve = resolver(row)
        for tile in self.tiles:
            for values in self.registers.of_tile(tile, names):
                message = self._stray(tile, resolve(values))
                if message:
                    self._fail(Engine.NETWORK, index, message, tile)

    def _stray(self, tile: int, i: Resolved) -> str:
        """The complaint about the descriptors of one PUT on one tile."""
        first, count = i["aux"], i["m"]
        if not 0 <= first <= first + count <= self.descriptors:
            last = self.descriptors - 1
            return f"uses descriptors {span(first, first + count)}; there are 0..{last}"
        base = 4 * (tile * self.descriptors + first)
        run = self.table[base : base + 4 * count].tolist()
        return "" if self._is_plain(run, i) else self._stray_run(run, i)

    def _is_plain(self, run: list[int], i: Resolved) -> bool:
        """Whether all descriptors are good, decided on whole columns."""
        to, source, words, target = (run[column::4] for column in range(4))
        last, size = len(self.program.tile_code) - 1, self.arch.vector_words
        scratch = self.arch.scratch_words
        if not run:
            return True
        low, high = i["src"] + min(source), i["src"] + max(map(add, source, words))
        return (
            0 <= min(to) <= max(to) <= last
            and min(words) >= 0
            and 0 <= low <= high <= size
            and (high <= scratch or low >= scratch)
            and scratch <= i["dst"] + min(target)
            and i["dst"] + max(map(add, target, words)) <= size
        )

    def _stray_run(self, run: list[int], i: Resolved) -> str:
        """The complaint about the first bad descriptor; those of no words need no place."""
        scratch, size = self.arch.scratch_words, self.arch.vector_words
        for at in range(0, len(run), 4):
            to, source, words, target = run[at : at + 4]
            source, target = i["src"] + source, i["dst"] + target
            which = f"descriptor {i['aux'] + at // 4}"
            if not 0 <= to < self.program.tiles:
                return f"{which} goes to tile {to}; there are 0..{self.program.tiles - 1}"
            if words < 0:
                return f"{which} has {words} words; give 0 or more"
            if words and not 0 <= source <= source + words <= size:
                return (
                    f"{which} reads words {span(source, source + words)}; there are 0..{size - 1}"
                )
            if words and source < scratch < source + words:
                where = f"words {span(source, source + words)}"
                return f"{which} reads {where}; the inbox begins at {scratch}"
            if words and not scratch <= target <= target + words <= size:
                where = f"words {span(target, target + words)}"
                return f"{which} writes {where}; the inbox has {scratch}..{size - 1}"
        return ""

    # --- streams ---

    def _pair_streams(self) -> None:
        """The k-th STREAM has as many beats as the k-th instruction that consumes one."""
        takes = self._where(Engine.COMPUTE, STREAM_OPS)
        gives = self._where(Engine.MEMORY, (Op.STREAM,))
        for taken, given in zip_longest(takes, gives):
            if given is None:
                self._fail(Engine.COMPUTE, taken[0], "there's no STREAM for it")
            elif taken is None:
                self._fail(Engine.MEMORY, given[0], "no compute instruction takes its beats")
            else:
                self._pair(taken, given)

    def _where(self, engine: Engine, ops: Container[int]) -> Iterator[tuple[int, Row]]:
        return ((i, row) for i, row in enumerate(self.engines[engine]) if row[_OP] in ops)

    def _pair(self, taken: tuple[int, Row], given: tuple[int, Row]) -> None:
        pairs = [
            [row[COLUMN[name]] for name in ("n", "n_reg", "m", "m_reg")]
            for _, row in (taken, given)
        ]
        if pairs[0] == pairs[1]:
            return
        names = tuple(sorted({r for _, a, _, b in pairs for r in (a, b) if r}))
        for values, tile in self.registers.of_class(self.index, names).items():
            now = dict(zip(names, values, strict=True)) | {0: 0}
            want, have = ((n + now[a]) * self.arch.row_beats(m + now[b]) for n, a, m, b in pairs)
            if want != have:
                text = (
                    f"takes {want} beats, and its STREAM (memory instruction {given[0]}) has {have}"
                )
                self._fail(Engine.COMPUTE, taken[0], text, tile)
