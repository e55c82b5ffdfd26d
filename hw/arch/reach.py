"""Which values the registers of a program can have: on each tile, over all steps."""

from collections.abc import Iterable, Iterator
from itertools import product

from tokenpath.hw.arch.isa import REGISTERS
from tokenpath.hw.arch.program import Program, StepRule

TOKEN_RULES = frozenset({"token_row", "token_owner", "token_group"})
SPLIT_RULES = frozenset({"position_high", "position_low"})
KV_RULES = frozenset({"kv_rows", "kv_first", "kv_append", "kv_next"})
RULES = TOKEN_RULES | SPLIT_RULES | KV_RULES
"""The kinds of a StepRule."""

Values = tuple[int, ...]


def flat(view: memoryview) -> memoryview:
    """A buffer's elements in one dimension; a buffer without elements stays as it is."""
    if view.ndim == 1 or not view.nbytes:
        return view
    flat_view: memoryview = view.cast("B").cast(view.format)  # type: ignore[call-overload]
    return flat_view


def shape_of(view: memoryview) -> Values:
    """The shape of a buffer, which every buffer of a program has."""
    return view.shape or ()


class Registers:
    """Values that sets of registers take together, with the step rules at their extremes.

    A step rule is a piecewise linear function of the position (or the token). Its pieces repeat
    with each turn of the pages, shifted by a constant, as long as the window is filling and from
    then on. So a sum of operands is at its smallest and largest at an end of a piece in the first
    or the last turn of one of these two stretches, and only such steps are looked at. (Registers
    whose turns differ, as no compiled instruction has them, are followed up to 65,536 positions.)
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.table = flat(program.registers)
        self.rules = {rule.register: rule for rule in program.rules}
        self._ruled: dict[tuple[Values, int, int], list[Values]] = {}
        self._distinct: dict[tuple[int, Values], dict[Values, int]] = {}

    def of_tile(self, tile: int, registers: Values) -> set[Values]:
        """Values that ``registers`` have on a tile in one step or another."""
        base = tile * REGISTERS
        moving = tuple(r for r in registers if r in self.rules)
        if not moving:
            return {tuple(self.table[base + r] for r in registers)}
        found = set()
        for values in self._moving(tile, moving):
            now = dict(zip(moving, values, strict=True))
            found.add(tuple(now.get(r, self.table[base + r]) for r in registers))
        return found

    def of_class(self, index: int, registers: Values) -> dict[Values, int]:
        """Values that ``registers`` have on the tiles of a class, each with the first such tile."""
        key = index, registers
        if key not in self._distinct:
            found: dict[Values, int] = {}
            for tile, code in enumerate(self.program.tile_code):
                if code == index:
                    for values in self.of_tile(tile, registers):
                        found.setdefault(values, tile)
            self._distinct[key] = found
        return self._distinct[key]

    def at_step(self, tile: int, position: int, token: int) -> list[int]:
        """All registers of a tile in one step."""
        values = self.table[tile * REGISTERS : (tile + 1) * REGISTERS].tolist()
        for register, rule in self.rules.items():
            values[register] = self._value(rule, tile, position, token)
        return values

    def _value(self, rule: StepRule, tile: int, position: int, token: int) -> int:
        p = self.program
        return rule.value(
            position=position,
            token=token,
            tile=tile,
            shard=p.shards_of[tile],
            shards=p.shards,
            page=p.page,
        )

    def _moving(self, tile: int, registers: Values) -> list[Values]:
        """Values of registers with rules; tiles of one shard share those of the position."""
        rules = [self.rules[r] for r in registers]
        shard = self.program.shards_of[tile]
        key = registers, shard, tile if any(r.kind in TOKEN_RULES for r in rules) else -1
        if key not in self._ruled:
            steps = product(self._positions(rules, shard), self._tokens(rules, tile))
            found = {tuple(self._value(r, tile, p, t) for r in rules) for p, t in steps}
            self._ruled[key] = sorted(found)
        return self._ruled[key]

    def _tokens(self, rules: list[StepRule], tile: int) -> list[int]:
        """The ends of the pieces of the token rules."""
        vocab, ends = self.program.vocab, {0}
        for rule in rules:
            if rule.kind in TOKEN_RULES:
                group = rule.span * rule.span2
                for edge in (rule.span, tile * rule.span, (tile + 1) * rule.span, vocab):
                    ends |= {edge - 1, edge}
                first = tile // rule.span2 * group
                ends |= {first - 1, first, first + group - 1, first + group}
        return sorted(t for t in ends if 0 <= t < vocab)

    def _positions(self, rules: list[StepRule], shard: int) -> list[int]:
        """The ends of the pieces of the position rules; all positions if turns don't match."""
        context, ends = self.program.context, {0}
        moving = [rule for rule in rules if rule.kind not in TOKEN_RULES]
        turns = {rule.span if rule.kind in SPLIT_RULES else 0 for rule in moving}
        if (len(turns) > 1 and context <= 1 << 16) or (turns and context <= 64):
            return list(range(context))
        spans = {rule.span for rule in moving if rule.kind in KV_RULES}
        for rule in moving:
            if rule.kind in SPLIT_RULES:
                last = (context - 1) // rule.span * rule.span
                ends |= {rule.span - 1, last - 1, last, context - 1}
            else:
                ends |= self._page_ends(rule.span, spans, shard)
        return sorted(p for p in ends if 0 <= p < context)

    def _page_ends(self, span: int, spans: Iterable[int], shard: int) -> set[int]:
        """Where the pages of a shard enter and leave windows of ``span`` positions."""
        page, context = self.program.page, self.program.context
        turn, ends = page * self.program.shards, {0, context - 1, span - 1, span}
        for stretch in (0, context, *spans):  # where a stretch of equal turns begins or ends
            for edge in (shard * page, (shard + 1) * page):
                for shift in (0, span):
                    for p in _around(stretch, (edge + shift) % turn, turn):
                        ends |= {p - 2, p - 1, p, p + 1}
        return ends


def _around(stretch: int, residue: int, turn: int) -> Iterator[int]:
    """Numbers that are ``residue`` modulo ``turn``, two turns to each side of ``stretch``."""
    first = (stretch // turn - 2) * turn + residue
    return iter(range(first, first + 5 * turn, turn))
