"""Races of one step: two accesses to the same place, one of them a write, that nothing orders.

Accesses are looked at in the order of one execution. A place is a cell: words between which the
network engines (or the APPENDs) tell no difference. A cell remembers the last access of each
agent, which is enough, as an agent's accesses are ordered and so is what follows them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from tokenpath.hw.arch.access import UNIT, Memory, accesses, span
from tokenpath.hw.arch.control import Control, Node, Post
from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.happens import Order
from tokenpath.hw.arch.isa import Op, PutOp
from tokenpath.hw.arch.program import Program


class Kind(Enum):
    """How a place is touched: two ADDs or two MAXes may come in either order."""

    READ = "reads", "read"
    WRITE = "writes", "write"
    ADD = "adds to", "add to"
    MAX = "raises", "raise"


ARRIVES = {PutOp.STORE: Kind.WRITE, PutOp.ADD: Kind.ADD, PutOp.MAX: Kind.MAX}


@dataclass(slots=True, eq=False)
class Touch:
    """One access: ``node`` may touch first..end from its issue until ``tick`` of ``agent`` ends.

    The write of a put is over with its ``arrival``. ``place`` is what the cells know the agent by.
    """

    node: Node
    kind: Kind
    first: int
    end: int
    place: int
    agent: int
    tick: int
    arrival: Post | None = None


@dataclass(slots=True)
class Cell:
    """The last touches of a place by each agent that something may yet conflict with."""

    readers: dict[int, Touch] = field(default_factory=dict)
    writers: dict[int, Touch] = field(default_factory=dict)
    is_written_later: bool = False


class Space:
    """One memory of one tile, cut into cells at ``points``; what lies outside is private."""

    def __init__(self, points: Iterable[int]) -> None:
        self.points = sorted(set(points))
        self.cells = [Cell() for _ in self.points[1:]]

    def over(self, first: int, end: int) -> range:
        """Cells that first..end has a part of."""
        if first >= end:
            return range(0)
        low = max(0, bisect_right(self.points, first) - 1)
        return range(low, min(len(self.cells), bisect_left(self.points, end)))


def check_step(program: Program, position: int, token: int) -> None:
    """Raise InputError for a deadlock, a race or a post that nobody takes in one step."""
    control = Control(program, position, token)
    Races(control).check()
    _check_taken(control)


def _check_taken(control: Control) -> None:
    """Every semaphore is 0 again at the end of the step."""
    taken = {wait.key: wait.total for wait in control.waits}
    for key, posters in sorted(control.posts.items()):
        posts = [post for run in posters.values() for post in run]
        left = len(posts) - taken.get(key, 0)
        if left:
            last = posts[-1].node
            what = f"semaphore {key[1]} of tile {key[0]}"
            text = f"{left} of {len(posts)} posts of {what} are never taken ({control.at})"
            raise InputError(f"{control.where(last)}: {text}")


class Races:
    """Looks for a race in the step that ``control`` executed."""

    def __init__(self, control: Control) -> None:
        self.control, self.order = control, Order(control)
        self.program = control.program
        self.scratch = self.program.arch.scratch_words
        self.vector, self.append, self.store = self._spaces()

    def _spaces(self) -> tuple[list[Space], list[Space], list[Space]]:
        """Cells of each tile's vector memory, append buffer and store."""
        tiles = range(self.program.tiles)
        points: list[list[set[int]]] = [[set() for _ in tiles] for _ in range(3)]
        for one in points[0]:
            one |= {self.scratch, self.program.arch.vector_words}
        inbox: list[set[tuple[int, int]]] = [set() for _ in tiles]
        for queue in self.control.nodes:
            for node in queue:
                for to, source, words, target in node.puts:
                    if words:
                        points[0][node.tile] |= {source, source + words}
                        points[0][to] |= {target, target + words}
                        inbox[to].add((target, target + words))
                if node.op == Op.APPEND and node.operands["n"]:
                    for which, name in ((1, "src"), (2, "dst")):
                        at = node.operands[name]
                        points[which][node.tile] |= {at, at + node.operands["n"]}
        vector, append, store = ([Space(one) for one in some] for some in points)
        for space, arrivals in zip(vector, inbox, strict=True):
            for first, end in arrivals:
                for cell in space.over(first, end):
                    space.cells[cell].is_written_later = True
        return vector, append, store

    def check(self) -> None:
        """Raise InputError for the first race."""
        for node, ends in self.control.events:
            if ends:
                continue
            if node.op == Op.PUT:
                self._put(node)
            elif node.op == Op.STREAM:
                self._stream(node)
            else:
                self._operate(node)

    # --- touches ---

    def _put(self, node: Node) -> None:
        tiles = self.program.tiles
        kind = ARRIVES[PutOp(node.operands["x"])]
        for at, (_, source, words, _) in enumerate(node.puts):
            tick = node.first + at + 1
            touch = Touch(node, Kind.READ, source, source + words, node.agent, node.agent, tick)
            self._read(node.tile, touch)
        for at, (to, _, words, target) in enumerate(node.puts):
            place, arrival = 3 * tiles + node.tile, node.arrivals[at]
            touch = Touch(node, kind, target, target + words, place, node.agent, 0, arrival)
            self._touch(self.vector[to], touch, to, Memory.VECTOR)

    def _stream(self, node: Node) -> None:
        """A STREAM's beats count as read until the operation that takes them has ended."""
        taker = node.stream
        if taker:
            first, tick = node.operands["src"], taker.first + taker.ticks
            touch = Touch(
                node, Kind.READ, first, first + node.beats, taker.agent, taker.agent, tick
            )
            self._touch(self.store[node.tile], touch, node.tile, Memory.STORE)

    def _operate(self, node: Node) -> None:
        spaces = {Memory.VECTOR: self.vector, Memory.APPEND: self.append, Memory.STORE: self.store}
        for access in accesses(self.program.arch, node.op, node.operands):
            if access.memory not in spaces:
                continue
            kind = Kind.WRITE if access.writes else Kind.READ
            agent, tick = node.agent, node.first + node.ticks
            for first, end in access.runs():
                touch = Touch(node, kind, first, end, agent, agent, tick)
                if access.memory == Memory.VECTOR and kind == Kind.READ:
                    self._read(node.tile, touch)
                else:
                    self._touch(spaces[access.memory][node.tile], touch, node.tile, access.memory)

    def _read(self, tile: int, touch: Touch) -> None:
        """A read of vector memory; in the inbox, what it reads must have been put there."""
        self._touch(self.vector[tile], touch, tile, Memory.VECTOR)
        if touch.end > self.scratch:
            self._check_filled(tile, touch)

    def _check_filled(self, tile: int, touch: Touch) -> None:
        """Words of the inbox that are read must have arrived before.

        A tile without KV may be idle and take part with words that nobody sends or uses.
        """
        space = self.vector[tile]
        over = space.over(max(touch.first, self.scratch), touch.end)
        cells = [(index, space.cells[index]) for index in over]
        needed = self.program.shards_of[tile] >= 0 or any(cell.writers for _, cell in cells)
        for index, cell in cells:
            if not cell.writers and (needed or cell.is_written_later):
                first = max(touch.first, space.points[index])
                words = span(first, min(touch.end, space.points[index + 1]))
                text = f"reads words {words}, which no put of the step has written before"
                raise InputError(f"{self.control.where(touch.node)}: {text} ({self.control.at})")

    # --- conflicts ---

    def _touch(self, space: Space, touch: Touch, tile: int, memory: Memory) -> None:
        """Compare with what each cell remembers, then remember this touch there."""
        for index in space.over(touch.first, touch.end):
            cell = space.cells[index]
            for old in cell.writers.values():
                if old.kind != touch.kind or touch.kind == Kind.WRITE:
                    self._compare(old, touch, tile, memory)
            if touch.kind == Kind.READ:
                cell.readers[touch.place] = touch
                continue
            for old in cell.readers.values():
                self._compare(old, touch, tile, memory)
            cell.readers.clear()
            if touch.kind == Kind.WRITE:
                cell.writers.clear()
            cell.writers[touch.place] = touch

    def _compare(self, old: Touch, new: Touch, tile: int, memory: Memory) -> None:
        if old.node is new.node and not new.arrival:
            ordered = True  # an operation reads before it writes
        elif not old.arrival:
            ordered = self.order.ended(old.agent, old.tick, new.node)
        elif new.place == old.place:
            ordered = True  # puts of one tile arrive in order
        else:
            ordered = self.order.arrived(old.arrival, new.node)
        if not ordered:
            raise InputError(self._race(old, new, tile, memory))

    def _race(self, old: Touch, new: Touch, tile: int, memory: Memory) -> str:
        subject, other = (old, new) if new.arrival and not old.arrival else (new, old)
        first, end = max(old.first, new.first), min(old.end, new.end)
        does, may = subject.kind.value[0], other.kind.value[1]
        words = f"{UNIT[memory]} {span(first, end)}"
        return (
            f"tile {tile}: {self._name(subject)} {does} {words} while {self._name(other)} "
            f"may {may} them ({self.control.at})"
        )

    def _name(self, touch: Touch) -> str:
        where = self.control.where(touch.node)
        return f"the put of {where}" if touch.arrival else where.split(" ", 2)[2]
