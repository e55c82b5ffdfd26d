"""The SwiGLU layer on the tiles."""

from tokenpath.hw.arch.isa import Op

from .step import Step


def hidden(step: Step, layer: int) -> None:
    """The SwiGLU layer: gate and up by rows, SiLU, hidden slice gathered in its group,
    down, sum."""
    emitter, mapping, numeric = step.emitter, step.mapping, step.numeric
    tiles, width = range(step.arch.tiles), step.shape.d_model
    team = mapping.hidden
    rows = [end - first for first, end in (mapping.hidden_rows(t) for t in tiles)]
    slices = [end - first for first, end in (mapping.hidden_slice(t) for t in tiles)]
    down = [end - first for first, end in (mapping.down_rows(t) for t in tiles)]
    gate, up = step.buffer("gate", max(rows)), step.buffer("up", max(rows))
    mine = step.buffer("hidden", max(rows))
    count = emitter.per_tile(rows)
    step.norm(step.gain)
    for name, dst in (("gate", gate), ("up", up)):
        step.linear(
            f"{layer}.{name}",
            rows=count,
            elements=width,
            dst=dst,
            frac=numeric.act_frac,
        )
    emitter.compute(Op.SILU, dst=mine, src=gate, aux=up, n=count, x=numeric.act_frac)
    gather = step.collective("hidden", layer % 2, team).all_reduce(
        mine, slices, reduce=(), segments=team.member_lines, algorithm=mapping.reduce
    )
    length = emitter.per_tile(slices)
    emitter.compute(Op.QUANT, dst=0, src=gather[0], n=length, m=1, x=numeric.act_frac)
    part = step.buffer("down", max(down))
    step.linear(
        f"{layer}.down",
        rows=emitter.per_tile(down),
        elements=length,
        dst=part,
        frac=mapping.residual_frac,
    )
    step.add_residual(
        step.collective("down", layer % 2, team).all_reduce(
            part,
            [width] * len(tiles),
            reduce=team.group_lines,
            segments=team.member_lines,
            algorithm=mapping.reduce,
            spread=True,
        ),
        f"{layer + 1}.attn_norm" if layer + 1 < step.shape.layers else None,
    )
