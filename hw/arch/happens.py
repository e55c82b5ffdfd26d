"""What happens before what in every legal execution of a step: vector clocks to a fixpoint.

**Order.** An engine ends an instruction before it issues the next one. A post happens at the end
of its instruction; a put's at the receiver, after the put was issued, its words were read and all
earlier puts from that tile to that one have arrived. The beats of a STREAM have all been read
before the operation that takes them ends (that the STREAM waits for room is not used). A clock
says for each engine how many of its ticks, and for each pair of tiles how many of the puts from
one to the other, have surely happened.

**Waits.** A wait that brings what was taken of its semaphore to W needs W posts to have happened,
but which? Any W of those that don't happen after the wait itself. So it surely knows a tick of an
engine if fewer than W of these posts don't know it: its clock is, in each component, the W-th
smallest of theirs (their maximum if there are just W).

**Fixpoint.** Which posts happen after a wait follows from the clocks, so we begin with what one
execution (:mod:`.control`) did before each wait and apply the rule until nothing changes: more
posts that may come first, smaller clocks, more such posts.

*All that is claimed is true.* Take any execution, and in it the earliest wait w before which
something that its clock claims has not happened. Then the W posts that did happen were not all
among those that the rule counts: one of them, q, is "after w". On the path of orders from w to q
there is a first step x -> y of which y happened before w and x didn't. Engines, streams and puts
keep their order, so y is a wait with a false claim, earlier than w: a contradiction.

*All that is true is claimed.* What is true is among what we begin with. And it satisfies the
rule: if w can't happen before some tick, then of the posts that can, fewer than W remain; posts
after w aren't among them. Each round therefore keeps it.
"""

from tokenpath.hw.arch.control import Clock, Control, Node, Post, Wait
from tokenpath.hw.arch.isa import STREAM_OPS


class Order:
    """Which instructions and arrivals of a step precede an instruction in every execution."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self._size = 3 * control.program.tiles + len(control.messages)
        self._waits = {wait.node: wait for wait in control.waits}
        while self._clocks() | self._recount():
            pass

    def ended(self, agent: int, tick: int, node: Node) -> bool:
        """Whether a tick of an engine surely ends before ``node`` issues."""
        return (node.first if agent == node.agent else node.issue[agent]) >= tick

    def arrived(self, post: Post, node: Node) -> bool:
        """Whether a put surely arrives before ``node`` issues."""
        return all(node.issue[component] >= tick for component, tick in post.marks[1:])

    # --- clocks ---

    def _clocks(self) -> bool:
        """Clocks of all nodes with the present ``before`` of each wait; whether they changed.

        A post that may come first, but came later in the execution, still has its last clock.
        """
        changed = False
        now: list[Clock] = [[0] * self._size for _ in self.control.nodes]
        for node, ends in self.control.events:
            agent = node.agent
            if not ends:
                if node in self._waits:
                    now[agent] = self._after_wait(now[agent], self._waits[node])
                changed |= node.issue != now[agent]
                node.issue = now[agent]
                continue
            if node.stream and node.op in STREAM_OPS:
                stream = node.stream
                now[agent] = _join(
                    now[agent], stream.end, ((stream.agent, stream.first + stream.ticks),)
                )
            node.end = now[agent]
        return changed

    def _after_wait(self, clock: Clock, wait: Wait) -> Clock:
        """The clock with what a wait knows."""
        posts = self.control.posts.get(wait.key, {})
        counts = {poster: count for poster, count in wait.before.items() if count}
        if wait.total == 0:
            return clock
        if sum(counts.values()) == wait.total:  # all of them: the last of each poster says it all
            for poster, count in counts.items():
                post = posts[poster][count - 1]
                clock = _join(clock, post.clock, post.marks)
            return clock
        known = []
        for poster, count in counts.items():
            for post in posts[poster][:count]:
                known.append(_marked(list(post.clock), post.marks))
        surely = [sorted(ticks)[wait.total - 1] for ticks in zip(*known, strict=True)]
        return list(map(max, clock, surely))

    # --- posts ---

    def _recount(self) -> bool:
        """Count the posts that don't happen after each wait anew; whether that changed."""
        changed = False
        for wait in self.control.waits:
            posts = self.control.posts.get(wait.key, {})
            before = {poster: _not_after(run, wait.node) for poster, run in posts.items()}
            changed |= before != {poster: wait.before.get(poster, 0) for poster in before}
            wait.before = before
        return changed


def _not_after(posts: list[Post], node: Node) -> int:
    """How many of a poster's posts don't happen after ``node`` issues: the first ones.

    The others know all that ``node`` knows, so to count them would change no clock; but without
    them most waits turn out to need every post that is left.
    """
    agent, known = node.agent, node.first + 1
    low, high = 0, len(posts)
    while low < high:
        middle = (low + high) // 2
        post = posts[middle]
        ticks = post.tick if post.node.agent == agent else post.clock[agent]
        low, high = (low, middle) if ticks >= known else (middle + 1, high)
    return low


def _join(clock: Clock, other: Clock, marks: tuple[tuple[int, int], ...]) -> Clock:
    """What is known by either side, and ``marks``, which come with all that ``other`` knows."""
    component, tick = marks[-1]
    if clock[component] >= tick:
        return clock
    return _marked(list(map(max, clock, other)), marks)


def _marked(clock: Clock, marks: tuple[tuple[int, int], ...]) -> Clock:
    for component, tick in marks:
        clock[component] = max(clock[component], tick)
    return clock
