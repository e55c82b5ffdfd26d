"""What is proved of arbiters, of input buffers with their credits, and of links."""

from collections.abc import Sequence
from types import SimpleNamespace

from amaranth.hdl import Cat, Const, Mux, Signal, Value, ValueLike
from amaranth.utils import ceil_log2

from .formal_prover import Setting


def implies(premise: ValueLike, conclusion: ValueLike) -> Value:
    """Premise false or conclusion true; both 1 bit."""
    return ~Value.cast(premise).bool() | Value.cast(conclusion).bool()


def total(bits: Sequence[ValueLike]) -> Value:
    """How many are set."""
    count = Value.cast(0)
    for bit in bits:
        count = count + Value.cast(bit)
    return count


def at_most_one(bits: Sequence[ValueLike]) -> Value:
    """Whether no two are set."""
    return total(bits) <= 1


def arbiter(hw: SimpleNamespace, s: Setting, *, count: int, kind: str) -> None:
    """A grant to one of the allowed requests, if there is one; a request waits for at most
    ``count`` - 1 others to be done, where one that stays isn't done.

    Allowed are all, none, or, behind a winner that stays, this one only.
    """
    m = s.m
    m.submodules.dut = dut = hw.Arbiter(count=count, kind=kind)
    s.drive(dut.requests, dut.advance)
    if kind != "pairs":  # which has none that stay
        s.drive(dut.stay)
    closed, staying, owner = s.free("closed"), Signal(), Signal(count)
    m.d.comb += dut.allowed.eq(Mux(closed, 0, Mux(staying, owner, -1)))
    with m.If(dut.advance & dut.valid):
        m.d.sync += [staying.eq(dut.stay), owner.eq(dut.grant)]
    _grants(hw, s, dut, count)
    before = _order(s, count, kind)
    s.invariant("who_stays_is_first", *(
        implies(staying & owner[i], ~Cat(before[j][i] for j in range(count) if j != i).any())
        for i in range(count)
    ), implies(staying, total(owner) == 1))  # fmt: skip
    done = s.named("done", dut.advance & dut.valid & ~dut.stay)
    for i in range(count):
        waited = Signal(range(count + 1), name=f"waited{i}")
        served = s.named(f"served{i}", dut.advance & dut.grant[i])
        with m.If(served | ~dut.requests[i]):
            m.d.sync += waited.eq(0)
        with m.Elif(done & (waited < count)):
            m.d.sync += waited.eq(waited + 1)
        s.prove(f"fair{i}", waited < count)
        ahead = total([before[j][i] for j in range(count) if j != i])
        s.invariant(f"waited_or_ahead{i}", waited + ahead < count)
        s.cover(f"waits{i}", waited == count - 1)


def _grants(hw: SimpleNamespace, s: Setting, dut: Value, count: int) -> None:
    wanted = s.named("wanted", dut.requests & dut.allowed)
    number = [Const(i, ceil_log2(count) or 1) for i in range(count)]
    s.prove("one_grant", at_most_one(list(dut.grant)))
    s.prove("to_a_requester", (dut.grant & ~wanted) == 0)
    s.prove("when_there_is_one", dut.valid == wanted.any(), dut.grant.any() == dut.valid)
    chosen = s.named("chosen", hw.choose_winner(number, dut.sides))
    s.prove("winner", *(
        implies(dut.grant[i], (dut.index == i) & (chosen == i)) for i in range(count)
    ))  # fmt: skip


def _order(s: Setting, count: int, kind: str) -> list[list[Value]]:
    """[j][i]: j comes before i, by the arbiter's registers; with what is invariant of them."""
    if kind != "round_robin":
        order = ranks(s, "dut.", count)
        if kind == "pairs":  # cyclic: no more than one is behind the next number
            steps = [order[i][i + 1] for i in range(count - 1)]
            s.invariant("cyclic", at_most_one([~step for step in steps]), *(
                order[j][k] == Cat(steps[j:k]).all() for k in range(count) for j in range(k)
            ))  # fmt: skip
        return order
    behind = pointer(s, "dut.behind", count - 1)
    return [
        [Const(0, 1) if i == j else behind[j] & ~behind[i] if j > i else behind[j] == behind[i]
         for i in range(count)] for j in range(count)
    ]  # fmt: skip


def pointer(s: Setting, path: str, bits: int) -> list[Value]:
    """Bit i: number i is not before a pointer, by the register of ``bits`` and one bit more that is
    always set; invariant: so are all behind it that is."""
    behind = [*(s.peek(path, bits) if bits else ()), Const(1, 1)]
    s.invariant(f"pointer_{path}", *(implies(behind[i], behind[i + 1]) for i in range(bits)))
    return behind


def ranks(s: Setting, path: str, count: int) -> list[list[Value]]:
    """[j][i]: j comes before i, by the registers of an ``Order``; invariant: it is one."""
    pairs = {(j, k): s.peek(f"{path}before{j}_{k}") for k in range(count) for j in range(k)}
    order = [
        [Const(0, 1) if i == j else pairs[j, i] if j < i else ~pairs[i, j]
         for i in range(count)] for j in range(count)
    ]  # fmt: skip
    s.invariant(f"order_of_{path}", *(
        implies(order[i][j] & order[j][k], order[i][k])
        for i in range(count) for j in range(count) for k in range(count) if i != k
    ))  # fmt: skip
    return order


class Queue:
    """What has to be in a queue of ``depth`` flits, by what is pushed and popped.

    ``fill`` counts the flits. ``entries`` are the flits themselves, the first one first: ``entry``
    in the cycle of its ``push``.
    """

    def __init__(
        self, s: Setting, name: str, *, depth: int, push: Value, pop: Value, entry: Value
    ) -> None:
        m = s.m
        self.depth, self.push, self.pop = depth, push, pop
        self.fill = Signal(range(depth + 2), name=f"fill_{name}")
        m.d.sync += self.fill.eq(self.fill + push - pop)
        self.entries = [Signal(len(entry), name=f"entry{i}_{name}") for i in range(depth)]
        after = s.named(f"after_{name}", (self.fill - pop)[: len(self.fill)])
        for i, one in enumerate(self.entries):
            moved = Mux(pop, self.entries[i + 1] if i + 1 < depth else 0, one)
            m.d.sync += one.eq(Mux(push & (after == i), entry, moved))

    def there(self, place: int) -> Value:
        """Whether it has an entry at ``place``."""
        return self.fill > place


def storage(
    s: Setting, name: str, path: str, queue: Queue, *, v: int, vcs: int, tags: Value, data: slice,
    tag: slice,
) -> None:  # fmt: skip
    """Invariants: pointers, rows and tags of a buffer's queue ``v`` are its ``queue``'s.

    ``data`` and ``tag`` are the parts of an entry that are in the rows and in the tags.
    """
    depth, bits = queue.depth, ceil_log2(queue.depth)
    entries = queue.entries
    if depth > 1:
        first, second, end = (
            s.peek(f"{path}.{pointer}{v}", bits) for pointer in ("first", "second", "end")
        )
        where = [s.named(f"at{i}_{name}", (first + i) % depth) for i in range(depth)]
        s.invariant(f"pointers_{name}", first < depth, second == where[1],
                    end == s.named(f"end_{name}", (first + queue.fill) % depth))  # fmt: skip
    else:
        where = [Const(0, 1)]
    width, tag_bits = len(entries[0][data]), len(entries[0][tag])
    whole = 1 << bits
    rows = [_row(s, f"{path}.rows", v * whole + i, vcs * whole, width) for i in range(depth)]
    s.invariant(f"filled_{name}", queue.fill <= depth,
                s.peek(f"{path}.filled", vcs)[v] == (queue.fill != 0))  # fmt: skip
    for i, entry in enumerate(entries):
        s.invariant(f"row{i}_{name}", *(
            implies(queue.there(i) & (where[i] == k), row == entry[data])
            for k, row in enumerate(rows)
        ))  # fmt: skip
    s.invariant(f"tag0_{name}", tags == Mux(queue.there(0), entries[0][tag], 0))
    for k in range(depth) if depth > 1 else ():
        row = _row(s, f"{path}.tags{v}", k, depth, tag_bits)
        s.invariant(f"tags{k}_{name}", *(
            implies(queue.there(i) & (where[i] == k), row == entries[i][tag])
            for i in range(1, depth)
        ))  # fmt: skip


def _row(s: Setting, path: str, row: int, rows: int, width: int) -> Signal:
    return s.peek(path if rows == 1 else f"{path}[{row}]", width)


class Tagged:
    """One flit, pushed whenever the proof likes, followed through its queue.

    ``here``: it is in the queue, ``ahead`` flits before it. ``leaves``: it is popped.
    """

    def __init__(self, s: Setting, name: str, queue: Queue, entry: Value) -> None:
        m, depth = s.m, queue.depth
        mark = s.free(f"mark_{name}")
        self.seen, self.here = Signal(name=f"seen_{name}"), Signal(name=f"here_{name}")
        self.ahead = Signal(range(depth + 1), name=f"ahead_{name}")
        self.entry = Signal(len(entry), name=f"marked_{name}")
        self.leaves = s.named(f"leaves_{name}", self.here & (self.ahead == 0) & queue.pop)
        with m.If(queue.push & mark & ~self.seen):
            m.d.sync += [self.seen.eq(1), self.here.eq(1), self.entry.eq(entry),
                         self.ahead.eq(queue.fill - queue.pop)]  # fmt: skip
        with m.If(self.here & queue.pop):
            m.d.sync += [self.ahead.eq(self.ahead - 1), self.here.eq(self.ahead != 0)]
        s.prove(f"not_lost_{name}", implies(self.here, self.ahead < queue.fill))
        s.invariant(f"marked_{name}", implies(self.here, self.seen), *(
            implies(self.here & (self.ahead == i), one == self.entry)
            for i, one in enumerate(queue.entries)
        ))  # fmt: skip


def buffer(hw: SimpleNamespace, s: Setting, *, vcs: int, depth: int) -> None:
    """A sender with ``Credits`` for each VC, an ``InputBuffer``, and a credit back for each pop.

    The sender has a credit exactly while there is a free slot, so it neither overflows the buffer
    nor wastes a slot; flits come out in order, each once, with data and tag unchanged.
    """
    m, data_bits, tag_bits = s.m, 4, 3
    m.submodules.dut = dut = hw.InputBuffer(
        vcs=vcs, depth=depth, data_bits=data_bits, tag_bits=tag_bits
    )
    s.drive(dut.push, dut.push_vc, dut.push_data, dut.push_tag, dut.select, dut.pop)
    s.assume(dut.push_vc < vcs)
    s.assume(dut.select < vcs)
    for v in range(vcs):
        name, credits = str(v), hw.Credits(slots=depth)
        m.submodules[f"credits{v}"] = credits
        push = s.named(f"push_{v}", dut.push & (dut.push_vc == v))
        pop, entry = dut.pop[v], Cat(dut.push_data, dut.push_tag)
        m.d.comb += [credits.take.eq(push), credits.give.eq(pop)]
        s.assume(implies(push, credits.any))  # the sender keeps to its credits
        s.assume(implies(pop, dut.filled[v]))
        queue = Queue(s, name, depth=depth, push=push, pop=pop, entry=entry)
        s.prove(f"filled_{v}", dut.filled[v] == (queue.fill != 0), queue.fill <= depth)
        s.prove(f"credits_{v}", credits.any == (queue.fill != depth))
        count = s.peek(f"credits{v}.count", depth.bit_length())
        s.prove(f"none_lost_or_made_up_{v}", count + queue.fill == depth)
        first = queue.entries[0]
        shown = dut.filled[v] & (dut.select == v)
        s.prove(f"order_{v}", implies(shown, dut.data == first[:data_bits]),
                dut.tags[v] == Mux(dut.filled[v], first[data_bits:], 0))  # fmt: skip
        tagged = Tagged(s, name, queue, entry)
        marked = tagged.entry
        s.prove(f"unchanged_{v}", implies(tagged.leaves, dut.tags[v] == marked[data_bits:]),
                implies(tagged.leaves & shown, dut.data == marked[:data_bits]))  # fmt: skip
        storage(s, name, "dut", queue, v=v, vcs=vcs, tags=dut.tags[v], data=slice(0, data_bits),
                tag=slice(data_bits, data_bits + tag_bits))  # fmt: skip
        s.cover(f"full_and_leaves_{v}", tagged.leaves & (queue.fill == depth))


def link(hw: SimpleNamespace, s: Setting, *, latency: int) -> None:
    """What enters leaves ``latency`` - 1 cycles later, flits and credits, and nothing else does."""
    m, delay = s.m, latency - 1
    m.submodules.dut = dut = hw.Link(latency=latency, flit_words=1, vcs=2, lanes=2)
    s.drive(dut.i.valid, dut.i.flit.as_value(), dut.o.credit)
    sent, back = Cat(dut.i.valid, dut.i.flit.as_value()), dut.o.credit
    for k in range(delay):
        later_sent, later_back = Signal(len(sent), name=f"sent{k}"), Signal(2, name=f"back{k}")
        m.d.sync += [later_sent.eq(sent), later_back.eq(back)]
        sent, back = later_sent, later_back
    s.prove("no_flit_lost_or_made_up", dut.o.valid == sent[0])
    s.prove("unchanged", implies(dut.o.valid, dut.o.flit.as_value() == sent[1:]))
    s.prove("credits", dut.i.credit == back)
    if delay > hw.MOST_REGISTERS:
        s.invariant("place", s.peek("dut.at", (delay - 1).bit_length()) < delay)
    s.cover("arrives", dut.o.valid & dut.i.credit.any())
