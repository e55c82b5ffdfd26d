"""Both ends of a step: the token's embedding and angles, and the logits with their arg max."""

from tokenpath.hw.arch.isa import Engine, Op

from .emit import Emitter
from .step import Step


def embed(step: Step) -> None:
    """The token's embedding row on every tile, from the one that holds it."""
    emitter, width = step.emitter, step.shape.d_model
    wide, per_tile = step.arch.row_beats(width), step.mapping.vocab_rows
    owner = emitter.step_rule("token_owner", span=per_tile)
    at = emitter.step_rule("token_row", scale=wide, span=per_tile, offset=step.store.at["embed"])
    emitter.stream(Op.LOAD, at, n=owner, m=width, dst=step.x, x=step.mapping.residual_frac)
    arrived = _broadcast(step) if step.arch.tiles > 1 else None
    step.fetch_gain("0.attn_norm")
    if arrived:
        at, semaphore = arrived
        emitter.wait(Engine.COMPUTE, semaphore)
        emitter.compute(Op.SUM, dst=step.x, src=at, n=width, m=1)


def _broadcast(step: Step) -> tuple[int, int]:
    """The owner's row along its row of the array, then down the columns.

    Which tiles send depends on the token. Returns where the row arrives and the semaphore.
    """
    emitter, width, tiles = step.emitter, step.shape.d_model, range(step.arch.tiles)
    rows, columns = step.arch.topology.grid
    per_tile = step.mapping.vocab_rows
    along, down = emitter.inbox(width), emitter.inbox(width)
    in_row, in_column = emitter.semaphore("embed.row"), emitter.semaphore("embed.column")
    line = tuple(
        tuple(
            (t // columns * columns + (t + a) % columns, 0, width, 0) for a in range(1, columns + 1)
        )
        for t in tiles
    )
    column = tuple(
        tuple(((t + a * columns) % len(tiles), 0, width, 0) for a in range(1, rows + 1))
        for t in tiles
    )
    emitter.hand_over(Engine.COMPUTE, Emitter.TO_NETWORK)
    emitter.wait(Engine.NETWORK, Emitter.TO_NETWORK)
    emitter.emit(
        Engine.NETWORK,
        Op.PUT,
        src=step.x,
        dst=along,
        aux=emitter.descriptors(line),
        y=in_row,
        m=emitter.step_rule("token_owner", scale=columns, span=per_tile),
    )
    group = emitter.step_rule("token_group", span=per_tile, span2=columns)
    emitter.wait(Engine.NETWORK, in_row, group)
    emitter.emit(
        Engine.NETWORK,
        Op.PUT,
        src=along,
        dst=down,
        aux=emitter.descriptors(column),
        y=in_column,
        m=emitter.step_rule("token_group", scale=rows, span=per_tile, span2=columns),
    )
    return down, in_column


def rope_angles(step: Step) -> None:
    """Cosines and sines of the position, from the two tables, once a step."""
    dim = step.shape.head_dim
    high = step.emitter.step_rule(
        "position_high", scale=dim, span=step.rope_span, offset=step.rope_high
    )
    low = step.emitter.step_rule(
        "position_low", scale=dim, span=step.rope_span, offset=step.rope_low
    )
    step.emitter.compute(Op.ROPE, dst=step.angles, src=high, aux=low, n=dim, m=1)


def head(step: Step) -> None:
    """Final norm, logits of each tile's vocabulary, arg max over all of them on tile 0."""
    emitter, mapping, tiles = step.emitter, step.mapping, range(step.arch.tiles)
    spans = [mapping.vocab_span(t) for t in tiles]
    words = emitter.per_tile([end - first for first, end in spans])
    step.norm(step.final_gain)
    width = step.shape.d_model
    step.linear(
        "head",
        rows=words,
        elements=width,
        dst=step.logits,
        frac=step.numeric.act_frac,
    )
    pair = step.buffer("pair", 2)
    emitter.compute(
        Op.ARGMAX,
        dst=pair,
        src=step.logits,
        n=words,
        aux=emitter.per_tile([first for first, _ in spans]),
    )
    emitter.hand_over(Engine.COMPUTE, Emitter.TO_NETWORK)
    emitter.wait(Engine.NETWORK, Emitter.TO_NETWORK)
    pairs, arrived = emitter.inbox(2 * len(tiles)), emitter.semaphore("best")
    to_first = tuple(((0, 0, 2, 2 * t),) for t in tiles)
    count = emitter.put(to_first, src=pair, dst=pairs, semaphore=arrived)
    emitter.wait(Engine.COMPUTE, arrived, count)
    emitter.compute(Op.ARGPAIR, dst=step.best, src=pairs, n=count)
