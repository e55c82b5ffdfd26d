"""One step of a program without its values: who waits for whom, in one of the legal orders.

Control never depends on data, and a semaphore has one engine that waits for it. So whatever can
run stays able to run until it does, and if one order of the engines reaches the end, all do; if
one gets stuck, all get stuck at the same instructions.
"""

from collections import deque
from dataclasses import dataclass, field

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.isa import COLUMN, STREAM_OPS, Engine, Op
from tokenpath.hw.arch.program import Program
from tokenpath.hw.arch.reach import Registers, flat, shape_of
from tokenpath.hw.arch.static import Resolved, resolver

Clock = list[int]
"""How many ticks of each engine, then how many puts between each pair of tiles, have happened."""


@dataclass(slots=True, eq=False)
class Node:
    """One instruction of one tile. An engine's ticks are its instructions, a PUT's its descriptors.

    ``first`` ticks of the engine lie before it, ``ticks`` are its own. ``issue`` is the clock
    when it issues, ``end`` when it ends; without the engine's own ticks, which are ``first``.
    """

    tile: int
    engine: Engine
    index: int
    op: Op
    operands: Resolved
    beats: int
    first: int
    ticks: int
    wait: int
    post: int
    puts: list[list[int]]
    arrivals: "list[Post]" = field(default_factory=list)
    stream: "Node | None" = None
    issue: Clock = field(default_factory=list)
    end: Clock = field(default_factory=list)

    @property
    def agent(self) -> int:
        """Number of its engine among all engines."""
        return 3 * self.tile + self.engine


@dataclass(slots=True, eq=False)
class Post:
    """One post of a semaphore, or the arrival of a put.

    ``marks`` are the components of clocks that it adds itself, with their values: a tick of the
    poster's engine and, for a put, its number among those between the two tiles (from 1 on).
    """

    node: Node
    marks: tuple[tuple[int, int], ...]

    @property
    def tick(self) -> int:
        """The tick of the poster's engine."""
        return self.marks[0][1]

    @property
    def clock(self) -> Clock:
        """What has happened before the post; a put says what had when it was issued."""
        return self.node.issue if len(self.marks) > 1 else self.node.end


@dataclass(slots=True, eq=False)
class Wait:
    """An instruction that takes posts of semaphore ``key`` = (tile, number).

    ``total`` is what has been taken with it and by all before it.

    ``before`` is, for each poster, how many of its posts may happen before it issues.
    """

    node: Node
    key: tuple[int, int]
    total: int
    before: dict[int, int]


Events = list[tuple[Node, bool]]
"""Issues (False) and ends (True) of instructions, in an order in which they can happen."""


class Control:
    """Executes one step.

    What happened: ``events`` and ``waits`` in order, ``posts`` by semaphore and poster, and
    ``messages``, [component of clocks, number of puts] of each (source, destination).
    Posters: engine ``3 * tile + engine`` for its own tile, ``3 * tiles + tile`` for the puts of a
    tile. Each one's posts of a semaphore happen in their order. Raises InputError for a deadlock.
    """

    def __init__(self, program: Program, position: int, token: int) -> None:
        self.program, self.at = program, f"at position {position}"
        self.events: Events = []
        self.waits: list[Wait] = []
        self.posts: dict[tuple[int, int], dict[int, list[Post]]] = {}
        self.messages: dict[tuple[int, int], list[int]] = {}
        registers = Registers(program)
        self._table = flat(program.descriptors)
        self._resolvers = [
            [[resolver(r) for r in rows] for rows in code.engines] for code in program.code
        ]
        self.nodes: list[list[Node]] = []
        for tile in range(program.tiles):
            values = registers.at_step(tile, position, token)
            queues = [self._queue(tile, engine, values) for engine in Engine]
            self._pair(queues)
            self.nodes.extend(queues)
        self._pc, self._issued = [0] * len(self.nodes), [False] * len(self.nodes)
        self._have: dict[tuple[int, int], int] = {}
        self._taken: dict[tuple[int, int], int] = {}
        self._sleeping: dict[tuple[int, int], int] = {}
        self._fifo = [0] * program.tiles  # beats read and not yet claimed by an operation
        self._run()

    # --- nodes ---

    def _queue(self, tile: int, engine: Engine, values: list[int]) -> list[Node]:
        code, first, queue = self.program.tile_code[tile], 0, []
        for index, row in enumerate(self.program.code[code].engines[engine]):
            names, resolve = self._resolvers[code][engine][index]
            i, op = resolve(tuple(values[r] for r in names)), Op(row[COLUMN["op"]])
            streams = op == Op.STREAM or op in STREAM_OPS
            beats = i["n"] * self.program.arch.row_beats(i["m"]) if streams else 0
            puts = self._descriptors(tile, i) if op == Op.PUT else []
            wait, post = row[COLUMN["wait"]], row[COLUMN["post"]]
            ticks = max(1, len(puts))
            queue.append(Node(tile, engine, index, op, i, beats, first, ticks, wait, post, puts))
            first += ticks
        return queue

    def _descriptors(self, tile: int, i: Resolved) -> list[list[int]]:
        """[destination, source word, words, target word] of each descriptor of a PUT."""
        base, found = tile * shape_of(self.program.descriptors)[1], []
        for at in range(base + i["aux"], base + i["aux"] + i["m"]):
            to, source, words, target = self._table[4 * at : 4 * at + 4].tolist()
            found.append([to, i["src"] + source, words, i["dst"] + target])
        return found

    def _pair(self, queues: list[list[Node]]) -> None:
        """Each STREAM with beats and the operation that takes them know each other."""
        takes = [node for node in queues[Engine.COMPUTE] if node.op in STREAM_OPS]
        gives = [node for node in queues[Engine.MEMORY] if node.op == Op.STREAM]
        for taken, given in zip(takes, gives, strict=True):
            if taken.beats != given.beats:
                text = f"takes {taken.beats} beats, and its STREAM has {given.beats} ({self.at})"
                raise InputError(f"{self.where(taken)}: {text}")
            if taken.beats:
                taken.stream, given.stream = given, taken

    # --- execution ---

    def _run(self) -> None:
        self._ready = deque(range(len(self.nodes)))
        while self._ready:
            agent = self._ready.popleft()
            while self._pc[agent] < len(self.nodes[agent]) and self._advance(agent):
                pass
        if any(pc < len(queue) for pc, queue in zip(self._pc, self.nodes, strict=True)):
            raise InputError(self._stuck())

    def _advance(self, agent: int) -> bool:
        """Issue and end the next instruction of an engine; False if it has to wait."""
        node = self.nodes[agent][self._pc[agent]]
        if not self._issued[agent]:
            if node.wait and not self._take(node):
                self._sleeping[node.tile, node.wait] = agent
                return False
            self._issued[agent] = True
            self.events.append((node, False))
            self._issue(node)
        if not self._can_end(node):
            return False
        self._issued[agent] = False
        self._pc[agent] += 1
        self.events.append((node, True))
        if node.post:
            self._post(
                (node.tile, node.post), agent, Post(node, ((agent, node.first + node.ticks),))
            )
        if node.stream:
            self._ready.append(node.stream.agent)
        return True

    def _take(self, node: Node) -> bool:
        key, count = (node.tile, node.wait), node.operands["wait_n"]
        if self._have.get(key, 0) < count:
            return False
        self._have[key] = self._have.get(key, 0) - count
        self._taken[key] = self._taken.get(key, 0) + count
        so_far = {poster: len(posts) for poster, posts in self.posts.get(key, {}).items()}
        self.waits.append(Wait(node, key, self._taken[key], so_far))
        return True

    def _issue(self, node: Node) -> None:
        if node.op == Op.PUT:
            for at, (to, *_) in enumerate(node.puts):
                sent = self.messages.setdefault(
                    (node.tile, to), [3 * self.program.tiles + len(self.messages), 0]
                )
                sent[1] += 1
                post = Post(node, ((node.agent, node.first + at + 1), (sent[0], sent[1])))
                node.arrivals.append(post)
                if node.operands["y"]:
                    self._post((to, node.operands["y"]), 3 * self.program.tiles + node.tile, post)
        elif node.stream:
            self._fifo[node.tile] += node.beats if node.op == Op.STREAM else -node.beats
            self._ready.append(node.stream.agent)

    def _can_end(self, node: Node) -> bool:
        """A STREAM when what is left of it fits on the way, an operation when its STREAM ended."""
        if not node.stream:
            return True
        if node.op == Op.STREAM:
            return self._fifo[node.tile] <= self.program.arch.stream_depth
        return self._pc[node.stream.agent] > node.stream.index

    def _post(self, key: tuple[int, int], poster: int, post: Post) -> None:
        self.posts.setdefault(key, {}).setdefault(poster, []).append(post)
        self._have[key] = self._have.get(key, 0) + 1
        if key in self._sleeping:
            self._ready.append(self._sleeping.pop(key))

    # --- complaints ---

    def where(self, node: Node) -> str:
        """A node as messages name it."""
        return self.program.where(node.tile, node.engine, node.index)

    def _stuck(self) -> str:
        """Which instruction waits for ever: one that gets too few posts, or one of a circle."""
        now = {
            a: q[pc]
            for a, (pc, q) in enumerate(zip(self._pc, self.nodes, strict=True))
            if pc < len(q)
        }
        for node in now.values():
            if node.wait and not self._issued[node.agent]:
                key = node.tile, node.wait
                sent = self._taken.get(key, 0) + self._have.get(key, 0) + len(self._unsent(key))
                needed = sum(
                    w.operands["wait_n"] for w in self.nodes[node.agent] if w.wait == node.wait
                )
                if sent < needed:
                    text = f"{needed} posts of semaphore {node.wait} are waited for, {sent} sent"
                    return f"{self.where(node)}: waits for ever: {text} ({self.at})"
        node = next(iter(now.values()))
        for _ in now:  # after as many steps it's in the circle
            node = now[self._blocker(node).agent]
        return f"{self.where(node)}: deadlock: waits for {self._reason(node)} ({self.at})"

    def _blocker(self, node: Node) -> Node:
        """The first instruction that a stuck one waits for."""
        if node.wait and not self._issued[node.agent]:
            return self._unsent((node.tile, node.wait))[0]
        assert node.stream is not None  # nothing else takes its time
        return node.stream

    def _unsent(self, key: tuple[int, int]) -> list[Node]:
        """The instructions still to come that post a semaphore, once for each post."""
        found = []
        for agent, queue in enumerate(self.nodes):
            for node in queue[self._pc[agent] :]:
                if node.tile == key[0] and node.post == key[1]:
                    found.append(node)
                if node.op == Op.PUT and node.operands["y"] == key[1] and not self._is_out(node):
                    found.extend(node for to, *_ in node.puts if to == key[0])
        return found

    def _is_out(self, node: Node) -> bool:
        return self._issued[node.agent] and self._pc[node.agent] == node.index

    def _reason(self, node: Node) -> str:
        """What a stuck instruction waits for."""
        blocker = self.where(self._blocker(node))
        if not self._issued[node.agent]:
            return f"semaphore {node.wait}, which {blocker} posts, itself waiting"
        if node.op == Op.STREAM:
            depth = self.program.arch.stream_depth
            return f"{blocker} to take its beats; stream_depth is {depth}"
        return f"the beats of {blocker}"
