"""Bufferless router: every flit that comes in goes out in the same cycle, by deflection."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tokenpath.hw.arbiter import choose, place_of
from tokenpath.hw.arch.deflection import SLOTS, Lanes, check_dims
from tokenpath.hw.arch.dims import Dim
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.flit import coordinates
from tokenpath.hw.route import hop
from tokenpath.hw.router import Router


class DeflectionRouter(Router):
    """The ports of :class:`Router`, for packets of one flit; links have no credits.

    In cycle t, on the state at its start, it does what ``hw.arch.deflection.decide`` says with the
    flits that came in t - 1 and the first one of the tile's queue, for which the tile holds
    ``SLOTS`` credits; they leave in t, the credit for the queue's flit comes in t. All routers
    leave reset in the same cycle, the first one of an epoch. ``vc`` of a flit on a link is the
    parity of its epoch.

    All but the last stage of switches is decided behind the wire, before the registers, of next
    cycle's flits: what they wish, who is delivered, who comes before whom, which lane the queue's
    flit enters. Data only follow what is in registers, so that their multiplexers are small.
    """

    def __init__(self, *, dims: Sequence[Dim], flit_words: int, epoch_bits: int) -> None:
        """An epoch has 2**``epoch_bits`` cycles. Raises InputError for dimensions that deflection
        can't work on."""
        check_dims(dims)
        links = sum(dim.ports for dim in dims)
        super().__init__(
            dims=dims, flit_words=flit_words, depths=[SLOTS, *[1] * links],
            cycles=[1] * (1 + links), params=RouterParams(kind="deflection"),
        )  # fmt: skip
        self.lanes = Lanes.of(dims)
        self.epoch_bits = epoch_bits
        self._sizes = [dim.size for dim in dims]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parity, coming = self._epochs(m)
        arrivals = [_Arrival(m, self, lane, coming) for lane in range(len(self.lanes.inputs))]
        words = []
        for one in arrivals:
            words.append(Signal(len(one.words), name=f"words{one.lane}", reset_less=True))
            m.d.sync += words[-1].eq(one.words)
        queue, delivers = _Queue(m, self), _delivers(m, arrivals)
        self._to_tile(m, [each[1:] for each in words], delivers, queue)
        flits = [_Flit(each.valid & ~delivers[each.lane], each.wishes) for each in arrivals]
        before, step = _order(m, arrivals), len(flits) // 2
        while step > 1:
            crosses = _crosses(m, flits, before, step)
            flits, before = _followed(m, crosses, flits, before, step)
            held = Signal(len(flits), name=f"crossed{step}")
            m.d.sync += held.eq(Cat(crosses))
            words = [Mux(each, words[i ^ step], words[i]) for i, each in enumerate(held)]
            step //= 2
        flits, enters = self._enter(m, flits, queue)
        own = Cat(parity, queue.data)
        words = [Mux(each, own, word) for each, word in zip(enters, words, strict=True)]
        self._leave(m, arrivals, words, *self._kept(m, flits, before))
        return m

    def _epochs(self, m: Module) -> tuple[Value, Value]:
        """The parity of this cycle's epoch and of the next one's."""
        now, parity = Signal(self.epoch_bits + 1, name="now", init=1), Signal(name="parity")
        m.d.sync += [now.eq(now + 1), parity.eq(now[-1])]
        return parity, now[-1]

    def wishes(self, to: Value) -> list[Value]:
        """The output lanes that bring a flit nearer to packed coordinates."""
        ways = len(self.lanes.outputs) // 2
        found: list[Value] = [Const(0, 1)] * (2 * ways)
        here, there = coordinates(self._sizes, self.position), coordinates(self._sizes, to)
        way = 0
        for dim, x, d in zip(self.ports.dims, here, there, strict=True):
            if dim.ports:
                minus = hop(dim, x, d)[0][0]
                found[way], found[ways + way] = (x != d) & ~minus, (x != d) & minus
                way += 1
        return found

    def linked(self, port: int | None) -> Value:
        """Whether this tile has a link at a port."""
        if port is None:
            return Const(0, 1)
        i = self.ports.dim_of(port) or 0
        dim, x = self.ports.dims[i], coordinates(self._sizes, self.position)[i]
        if dim.is_ring:
            return Const(1, 1)
        return x != (dim.size - 1 if port == self.ports.base[i] else 0)

    def _to_tile(self, m: Module, data: list[Value], delivers: Value, queue: "_Queue") -> None:
        """A lane's flit leaves to the tile, or else the queue's, or neither."""
        sink, some, lane = self.output(0), Signal(name="delivered"), Signal(range(len(data)))
        m.d.sync += [some.eq(delivers.any()), lane.eq(place_of(delivers))]
        m.d.comb += [
            queue.delivered.eq(queue.here & ~some),
            sink.valid.eq(some | queue.here),
            sink.flit.data.as_value().eq(Mux(some, choose(data, lane), queue.data)),
            sink.flit.head.eq(1),
            sink.flit.tail.eq(1),
        ]

    def _enter(
        self, m: Module, flits: "list[_Flit]", queue: "_Queue"
    ) -> "tuple[list[_Flit], Signal]":
        """The flits of all places, the queue's in the first empty one before a switch to an output
        that it wishes, or else in the first empty one; a register that says in which."""
        own, count = queue.coming, len(flits)
        free, near = Signal(count, name="free"), Signal(count, name="near")
        here, enters = Signal(count, name="enter"), Signal(count, name="enters")
        m.d.comb += [
            free.eq(Cat(~flit.full for flit in flits)),
            near.eq(Cat(free[i] & own[i & ~1 : (i & ~1) + 2].any() for i in range(count))),
            here.eq(Mux(near.any(), _first(near), Mux(own.any(), _first(free), 0))),
            queue.entered.eq(enters.any()),
        ]
        m.d.sync += enters.eq(here)
        entered = [
            _Flit(flit.full | each, flit.wishes | Mux(each, own, 0))
            for flit, each in zip(flits, here, strict=True)
        ]
        return entered, enters

    def _kept(
        self, m: Module, flits: "list[_Flit]", before: "_Before"
    ) -> "tuple[list[_Flit], _Before]":
        """What the last stage needs to know, in registers."""
        kept = []
        for i, flit in enumerate(flits):
            at = i & ~1
            full, wishes = Signal(name=f"full{i}"), Signal(2, name=f"last{i}")
            m.d.sync += [full.eq(flit.full), wishes.eq(flit.wishes[at : at + 2])]
            kept.append(_Flit(full, Cat(Const(0, at), wishes)))
        order: _Before = {pair: Signal(name=f"first{pair[1]}") for pair in before}
        m.d.sync += [order[pair].eq(value) for pair, value in before.items()]
        return kept, order

    def _leave(
        self, m: Module, arrivals: "list[_Arrival]", words: list[Value], flits: "list[_Flit]",
        before: "_Before",
    ) -> None:  # fmt: skip
        """The last stage of switches, and the links behind it."""
        crosses = _crosses(m, flits, before, 1)
        for i, port in enumerate(self.lanes.outputs):
            full = Mux(crosses[i], flits[i ^ 1].full, flits[i].full)
            word = Mux(crosses[i], words[i ^ 1], words[i])
            back = arrivals[self.lanes.back[i]]
            m.d.comb += back.again.eq(Cat(full, word))
            if port is not None:
                out = self.output(port)
                m.d.comb += [
                    out.valid.eq(full & self.linked(port)),
                    Cat(out.flit.vc, out.flit.data.as_value()).eq(word),
                    out.flit.head.eq(1),
                    out.flit.tail.eq(1),
                ]


_Before = dict[tuple[int, int], Value]
"""[i, k], i < k: whether the flit of place k comes before that of place i."""


class _Flit(NamedTuple):
    """What switches know of a place: whether it has a flit, and the outputs that it wishes."""

    full: Value
    wishes: Value


class _Arrival:
    """What comes into a lane in this cycle: over its link, or ``again`` from the output there.

    ``words``: parity of its epoch, data. ``old`` when it will be in the lane; ``here``: it has come
    to its tile.
    """

    def __init__(self, m: Module, router: DeflectionRouter, lane: int, coming: Value) -> None:
        port, self.lane = router.lanes.inputs[lane], lane
        all_words = Signal(2 + 32 * router.flit_words, name=f"arrival{lane}")
        self.again = Signal(all_words.shape(), name=f"again{lane}")
        if port is None:
            m.d.comb += all_words.eq(self.again)
        else:
            channel = router.input(port)
            over = Cat(channel.valid, channel.flit.vc, channel.flit.data.as_value())
            m.d.comb += all_words.eq(Mux(router.linked(port), over, self.again))
        self.valid, self.words = all_words[0], all_words[1:]
        self.to = self.words[1 : 1 + len(router.position)]
        self.wishes = Signal(len(router.lanes.outputs), name=f"wishes{lane}")
        self.old, self.here = Signal(name=f"old{lane}"), Signal(name=f"here{lane}")
        m.d.comb += [
            self.wishes.eq(Mux(self.valid, Cat(router.wishes(self.to)), 0)),
            self.old.eq(self.valid & (self.words[0] ^ coming)),
            self.here.eq(self.valid & ~self.wishes.any()),
        ]


class _Queue:
    """Flits from the tile: the first one and another, with which the tile has no credit left.

    Members: ``data`` of the first; ``here``: it is for this tile; ``coming``: the outputs that next
    cycle's first one wishes, none if there is none or it is for this tile; ``delivered`` and
    ``entered``: the first one leaves in this cycle.
    """

    def __init__(self, m: Module, router: DeflectionRouter) -> None:
        source, width = router.input(0), 32 * router.flit_words
        self.delivered, self.entered = Signal(name="own_delivered"), Signal(name="own_entered")
        pop = self.delivered | self.entered
        data = source.flit.data.as_value()
        arriving = Signal(1 + len(router.lanes.outputs), name="arriving")
        m.d.comb += arriving.eq(Mux(source.valid, Cat(1, router.wishes(data)), 0))
        first, second = Signal.like(arriving, name="first"), Signal.like(arriving, name="second")
        self.data = Signal(width, name="first_data", reset_less=True)
        second_data = Signal(width, name="second_data", reset_less=True)
        goes, coming = pop | ~first[0], Signal.like(arriving, name="coming")
        m.d.comb += coming.eq(Mux(goes, Mux(second[0], second, arriving), first))
        m.d.comb += source.credit.eq(pop)
        m.d.sync += first.eq(coming)
        with m.If(goes):
            m.d.sync += [self.data.eq(Mux(second[0], second_data, data)), second.eq(0)]
        with m.Elif(source.valid):
            m.d.sync += second.eq(arriving)
        with m.If(source.valid):
            m.d.sync += second_data.eq(data)
        self.here = first[0] & ~first[1:].any()
        self.coming = coming[1:]


def _delivers(m: Module, arrivals: list[_Arrival]) -> Signal:
    """Whose flit leaves to the tile in the next cycle, a bit each: the first old one for it, or the
    first."""
    delivers = Signal(len(arrivals), name="delivers")
    here = Cat(each.here for each in arrivals)
    old = Cat(each.here & each.old for each in arrivals)
    m.d.comb += delivers.eq(Mux(old.any(), _first(old), _first(here)))
    return delivers


def _first(bits: Value) -> Value:
    """The lowest 1 alone."""
    return Cat(bit & ~bits[:i].any() for i, bit in enumerate(bits))


def _order(m: Module, arrivals: list[_Arrival]) -> _Before:
    """Who comes before whom, of the flits that go on."""
    old = [each.old & ~each.here for each in arrivals]
    before: _Before = {}
    for i, k in combinations(range(len(arrivals)), 2):
        before[i, k] = Signal(name=f"before{i}_{k}")
        lower = arrivals[k].to < arrivals[i].to
        m.d.comb += before[i, k].eq(old[k] & (~old[i] | lower))
    return before


def _crosses(m: Module, flits: list[_Flit], before: _Before, step: int) -> list[Value]:
    """Of each place, whether the switch between it and the one ``step`` away exchanges its flits
    (``hw.arch.deflection``)."""
    crosses: list[Value] = [Const(0, 1)] * len(flits)
    for upper in (i for i in range(len(flits)) if not i & step):
        at, cross = upper & -step, Signal(name=f"cross{step}_{upper}")
        ups, lows = slice(at, at + step), slice(at + step, at + 2 * step)
        a, b = flits[upper].wishes, flits[upper + step].wishes
        a_says, b_says = a[ups].any() ^ a[lows].any(), b[ups].any() ^ b[lows].any()
        b_tells = Mux(before[upper, upper + step], b_says, ~a_says)
        m.d.comb += cross.eq(Mux(b_tells, b_says & b[ups].any(), a_says & a[lows].any()))
        crosses[upper] = crosses[upper + step] = cross
    return crosses


def _followed(
    m: Module, crosses: list[Value], flits: list[_Flit], before: _Before, step: int
) -> tuple[list[_Flit], _Before]:
    """The flits behind a stage, and who comes before whom of those that can still meet."""

    def seen(i: int, k: int) -> Value:
        return before[i, k] if i < k else ~before[k, i]

    behind, order = [], {}
    for i, cross in enumerate(crosses):
        there, here = flits[i ^ step], flits[i]
        both = Signal(1 + len(here.wishes), name=f"behind{step}_{i}")
        m.d.comb += both.eq(Mux(cross, Cat(there.full, there.wishes), Cat(here.full, here.wishes)))
        behind.append(_Flit(both[0], both[1:]))
    for i, k in before:
        if i & -step == k & -step:
            order[i, k] = Signal(name=f"before{step}_{i}_{k}")
            other = Mux(crosses[k], seen(i ^ step, k ^ step), seen(i ^ step, k))
            same = Mux(crosses[k], seen(i, k ^ step), seen(i, k))
            m.d.comb += order[i, k].eq(Mux(crosses[i], other, same))
    return behind, order
