"""Switch allocation of any kind: ``hw.arch.allocation``, one router after the other.

``network.request`` does the same faster for routers of plain choices. Here the first flits of a
router's buffers are gathered in rows of ``asking``, then matched. An arbiter is ``ARBITER`` words
of ``arbiters``: for round robin its first is the pointer, for matrix each says how late its number
was served last.
"""

# ruff: noqa: F403, F405
from .columns import *
from .jit import first_bit, hot, inner, wide
from .network import credits_at
from .state import Engines, Network


@hot
def key(s: Engines, n: Network, arbiter: int, count: int, number: int) -> int:
    """How far behind the first one of an arbiter over ``count`` a number is."""
    if s.constants[MATRIX]:
        return wide(n.arbiters[arbiter + number])
    ahead = number - n.arbiters[arbiter]
    return wide(ahead + count if ahead < 0 else ahead)


@hot
def serve(s: Engines, n: Network, arbiter: int, count: int, number: int) -> None:
    """An arbiter's pick was granted: it is last from now on."""
    if s.constants[MATRIX]:
        n.counts[SERVED_N] += 1
        n.arbiters[arbiter + number] = n.counts[SERVED_N]
    else:
        n.arbiters[arbiter] = 0 if number + 1 == count else number + 1


@hot
def arbiter_of(s: Engines, port: int, kind: int) -> int:
    """Where one of a port's arbiters begins."""
    return wide((port * ARBITERS + kind) * s.constants[ARBITER])


@hot
def usable(s: Engines, n: Network, o: int, need: int) -> int:
    """The VCs of the output of row ``o`` that a head can take if it needs so many credits."""
    vcs = wide(n.outputs[o + O_VCS])
    can = vcs >> VC_BITS & vcs & VC_MASK
    if need > 1 and n.outputs[o + O_DOWN] >= 0:
        for vc in range(s.constants[VCS]):
            if n.credits[credits_at(o) + vc] < need:
                can &= ~(1 << vc)
    return wide(can)


@hot
def credits_of(s: Engines, n: Network, o: int) -> int:
    """Credits of all VCs of the output of row ``o``."""
    total = wide(0)
    for vc in range(s.constants[VCS]):
        total += n.credits[credits_at(o) + vc]
    return wide(total)


@hot
def needs(s: Engines, n: Network, node: int, number: int, port: int) -> int:
    """Credits that a head from the buffer of this ``number`` needs at output ``port``: two where it
    enters a ring of bubbles.
    """
    if s.constants[BUBBLE] and node < s.constants[TILES]:
        ring = n.port_ring[port - n.node_port0[node]]
        return 2 if ring and n.port_ring[number >> PORT_BITS] != ring else 1
    return 1


@inner
def ask(s: Engines, n: Network, node: int, buffer: int, count: int, t: int) -> int:
    """The first flit of a buffer asks, if it can leave: row ``count`` of ``asking`` says for what.
    Returns the next cycle to look at it.
    """
    buffers, outputs, soon = n.buffers, n.outputs, wide(NEVER)
    number, held = wide(buffers[buffer + B_NUMBER]), wide(buffers[buffer + B_HELD])
    turn = held
    if held == 0:
        turn = wide(buffers[buffer + B_WIDTH + SLOT_WIDTH * buffers[buffer + B_HEAD] + 1])
    adaptive = held == 0 and s.constants[ROUTING] >= WEST_FIRST
    ways = 2 if adaptive and turn & VC_MASK else 1
    best, most, pick = wide(-1), wide(-1), wide(0)
    for k in range(ways):
        port = (turn >> VC_BITS) + k * (turn & VC_MASK)
        o = port * O_WIDTH
        if held:
            can = held & VC_MASK
            can &= can if s.constants[WHOLE] else outputs[o + O_VCS]
        else:
            can = usable(s, n, o, needs(s, n, node, number, port))
            can &= s.constants[LOCAL_VCS] if adaptive else turn & VC_MASK
        if can == 0:
            continue
        if outputs[o + O_FREE] > t:
            soon = min(soon, wide(outputs[o + O_FREE]))
            continue
        credits = credits_of(s, n, o) if ways > 1 else wide(0)
        if credits > most:
            best, most, pick = o, credits, can & -can
    row = count * Q_WIDTH
    n.asking[row + Q_OUTPUT] = best
    n.asking[row + Q_PICK] = pick
    n.asking[row + Q_BUFFER] = buffer
    n.asking[row + Q_HEAD] = 1 if held == 0 and s.constants[STAGES] > 2 else 0
    return wide(soon)


@inner
def pick_channel(s: Engines, n: Network, base: int, source: int, output: int, kind: int) -> int:
    """The row of ``asking`` of the first VC of input number ``source`` that asks for ``output``
    (row; -1: for any), by the input's arbiter ``kind``; or -1. Heads that ask for a VC only are
    those of CHANNEL_HEADS.
    """
    heads = 1 if kind == CHANNEL_HEADS else 0
    best, least, arbiter = wide(-1), wide(NEVER), arbiter_of(s, base + source, kind)
    for i in range(n.matching[FIRST_ROW + source], n.matching[END_ROW + source]):
        row = i * Q_WIDTH
        if n.asking[row + Q_HEAD] != heads:
            continue
        if output >= 0 and n.asking[row + Q_OUTPUT] != output:
            continue
        vc = wide(n.buffers[n.asking[row + Q_BUFFER] + B_NUMBER] & VC_MASK)
        behind = key(s, n, arbiter, wide(s.constants[VCS]), vc)
        if behind < least:
            best, least = wide(row), behind
    return best


@hot
def serve_channel(s: Engines, n: Network, base: int, source: int, row: int, kind: int) -> None:
    """The VC of a row was picked: it is last of its input."""
    vc = wide(n.buffers[n.asking[row + Q_BUFFER] + B_NUMBER] & VC_MASK)
    serve(s, n, arbiter_of(s, base + source, kind), wide(s.constants[VCS]), vc)


@inner
def input_first(s: Engines, n: Network, base: int, ports: int, sources: int, heads: int) -> int:
    """Match ``sources``, a bit each: every input picks a VC, every output an input. With ``heads``
    it is VCs that are allocated, not the switch. Returns the inputs that got something; MATCHED has
    their rows.
    """
    kind, of_output = (CHANNEL_HEADS, OUTPUT_HEADS) if heads else (CHANNEL, OUTPUT)
    asked, left = wide(0), sources
    while left:
        source = first_bit(left)
        left &= left - 1
        row = pick_channel(s, n, base, source, wide(-1), kind)
        if row < 0:
            continue
        n.matching[MATCHED + source] = row
        output = wide(n.asking[row + Q_OUTPUT] // O_WIDTH)
        arbiter, number = arbiter_of(s, output, of_output), output - base
        if asked >> number & 1:
            other = wide(n.matching[TAKER + number])
            if key(s, n, arbiter, ports, source) > key(s, n, arbiter, ports, other):
                continue
        asked |= 1 << number
        n.matching[TAKER + number] = source
    winners = wide(0)
    while asked:
        number = first_bit(asked)
        asked &= asked - 1
        source = wide(n.matching[TAKER + number])
        winners |= 1 << source
        serve_channel(s, n, base, source, wide(n.matching[MATCHED + source]), kind)
        serve(s, n, arbiter_of(s, base + number, of_output), ports, source)
    return winners


@inner
def pairs(n: Network, base: int, sources: int) -> tuple[int, int]:
    """WANTED of every input: a bit for each output that it asks the switch for. Returns the inputs
    and the outputs of a pair.
    """
    asking, asked = wide(0), wide(0)
    while sources:
        source = first_bit(sources)
        sources &= sources - 1
        wanted = wide(0)
        for i in range(n.matching[FIRST_ROW + source], n.matching[END_ROW + source]):
            row = i * Q_WIDTH
            if n.asking[row + Q_HEAD] == 0:
                wanted |= 1 << (n.asking[row + Q_OUTPUT] // O_WIDTH - base)
        n.matching[WANTED + source] = wanted
        asked |= wanted
        asking |= (1 << source) if wanted else 0
    return asking, asked


@inner
def output_first(s: Engines, n: Network, base: int, ports: int, sources: int) -> int:
    """Match: each output picks an input, each input an output, some times over. MATCHED has the
    outputs' rows.
    """
    inputs, outputs = pairs(n, base, sources)
    everyone = inputs
    for iteration in range(s.constants[ITERATIONS]):
        offered = offer(s, n, base, ports, inputs, outputs)
        while offered:
            source = first_bit(offered)
            offered &= offered - 1
            offers, best, least = wide(n.matching[OFFERS + source]), wide(-1), wide(NEVER)
            while offers:
                output = first_bit(offers)
                offers &= offers - 1
                behind = key(s, n, arbiter_of(s, base + source, INPUT), ports, output)
                if behind < least:
                    best, least = output, behind
            n.matching[MATCHED + source] = (base + best) * O_WIDTH
            inputs &= ~(1 << source)
            outputs &= ~(1 << best)
            if iteration == 0:
                serve(s, n, arbiter_of(s, base + source, INPUT), ports, best)
                serve(s, n, arbiter_of(s, base + best, OUTPUT), ports, source)
    return everyone & ~inputs


@inner
def offer(s: Engines, n: Network, base: int, ports: int, inputs: int, outputs: int) -> int:
    """Each of the outputs picks one of the inputs; OFFERS and the inputs that were picked."""
    offered = wide(0)
    while outputs:
        output = first_bit(outputs)
        outputs &= outputs - 1
        best, least, left = wide(-1), wide(NEVER), inputs
        while left:
            source = first_bit(left)
            left &= left - 1
            if n.matching[WANTED + source] >> output & 1:
                behind = key(s, n, arbiter_of(s, base + output, OUTPUT), ports, source)
                if behind < least:
                    best, least = source, behind
        if best >= 0:
            if offered >> best & 1 == 0:
                n.matching[OFFERS + best] = 0
            n.matching[OFFERS + best] |= 1 << output
            offered |= 1 << best
    return offered


@inner
def wavefront(s: Engines, n: Network, base: int, ports: int, sources: int) -> int:
    """Match along the diagonals from the router's first on. MATCHED has the outputs' rows."""
    inputs, outputs = pairs(n, base, sources)
    everyone, at = inputs, arbiter_of(s, base, DIAGONAL)
    first = wide(n.arbiters[at])
    for d in range(ports):
        left = inputs
        while left:
            source = first_bit(left)
            left &= left - 1
            output = (first + d - source + ports) % ports
            if n.matching[WANTED + source] & outputs & 1 << output:
                n.matching[MATCHED + source] = (base + output) * O_WIDTH
                inputs &= ~(1 << source)
                outputs &= ~(1 << output)
    if inputs != everyone:
        n.arbiters[at] = 0 if first + 1 == ports else first + 1
    return everyone & ~inputs


@inner
def hold_channels(s: Engines, n: Network, base: int, ports: int, sources: int) -> None:
    """VC allocation, the first of three stages: heads that win hold their VC from now on."""
    winners = input_first(s, n, base, ports, sources, 1)
    while winners:
        row = wide(n.matching[MATCHED + first_bit(winners)])
        winners &= winners - 1
        o, bit = wide(n.asking[row + Q_OUTPUT]), wide(n.asking[row + Q_PICK])
        n.outputs[o + O_VCS] &= ~(bit << VC_BITS)
        n.buffers[n.asking[row + Q_BUFFER] + B_HELD] = o // O_WIDTH << VC_BITS | bit


@inner
def allocate(s: Engines, n: Network, node: int, sources: int, wins: int) -> int:
    """Match what the inputs of a router ask for; returns the number of winners, of this block's
    routers in all; the flit of each has its way in its slot.
    """
    base, kind = wide(n.node_port0[node]), s.constants[ALLOCATOR]
    ports = wide(n.node_port0[node + 1] - base)
    if s.constants[STAGES] > 2:
        hold_channels(s, n, base, ports, sources)
    if kind == INPUT_FIRST:
        winners = input_first(s, n, base, ports, sources, 0)
    elif kind == OUTPUT_FIRST:
        winners = output_first(s, n, base, ports, sources)
    else:
        winners = wavefront(s, n, base, ports, sources)
    while winners:
        source = first_bit(winners)
        winners &= winners - 1
        row = wide(n.matching[MATCHED + source])
        if kind != INPUT_FIRST:
            row = pick_channel(s, n, base, source, row, CHANNEL)
            serve_channel(s, n, base, source, row, CHANNEL)
        buffer, bit = wide(n.asking[row + Q_BUFFER]), wide(n.asking[row + Q_PICK])
        o = wide(n.asking[row + Q_OUTPUT])
        n.outputs[o + O_PICK] = buffer + first_bit(bit)
        n.winners[wins] = o
        wins += 1
    return wins


@inner
def request_any(s: Engines, n: Network, block: int, t: int) -> tuple[int, int]:
    """``network.request`` for routers of any choices: router by router, all flits of one first."""
    soon, wins, count, node, sources, some = wide(NEVER), 0, 0, wide(-1), wide(0), 0
    for word in range(n.blocks[block], n.blocks[block + 1]):
        units = n.busy[word]
        some |= units
        while units:
            buffer = ((word << 6) + first_bit(units)) << s.constants[UNIT]
            units &= units - 1
            here = wide(n.buffers[buffer + B_NODE])
            if here != node:
                if count:
                    wins = allocate(s, n, node, sources, wins)
                node, count, sources = here, 0, wide(0)
            soon = min(soon, ask(s, n, node, buffer, count, t))
            if n.asking[count * Q_WIDTH + Q_OUTPUT] < 0:
                continue
            source = wide(n.buffers[buffer + B_NUMBER] >> PORT_BITS)
            if sources >> source & 1 == 0:
                n.matching[FIRST_ROW + source] = count
            count += 1
            n.matching[END_ROW + source] = count
            sources |= 1 << source
            soon = t + 1
    if count:
        wins = allocate(s, n, node, sources, wins)
    n.summary[block >> 6] &= ~((1 if some == 0 else 0) << (block & 63))
    return wins, wide(soon)
