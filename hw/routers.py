"""The router that an Arch asks for."""

from collections.abc import Sequence

from tokenpath.hw.arch.dims import Dim
from tokenpath.hw.arch.errors import require
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.route import Ports
from tokenpath.hw.router import Router
from tokenpath.hw.vc_router import VcRouter


def make_router(
    *, dims: Sequence[Dim], flit_words: int, params: RouterParams, hub: int | None = None
) -> Router:
    """The router of ``params``, whose depths and rates follow from the tiers of ``dims``.

    Raises InputError for dims that ``params`` aren't for.
    """
    params.channels(tuple(dims))
    for name, built in (("routing", "dimension_order"), ("switching", "wormhole")):
        value = getattr(params, name)
        require(value == built, f"router {name} {value!r} isn't in hardware yet; give {built!r}")
    require(not params.ordered, "'ordered' isn't in hardware yet; leave it out")
    ports = Ports(dims=dims, hub=hub)
    depths, cycles = [params.depth], [1]
    for port in range(1, ports.inputs[-1] + 1):
        tier = ports.dims[ports.dim_of(port) or 0].tier
        depths.append(params.buffer_flits(tier))
        cycles.append(tier.cycles_per_flit)
    if params.kind == "wormhole":
        return Router(dims=dims, flit_words=flit_words, depths=depths, cycles=cycles, hub=hub)
    return VcRouter(
        dims=dims, flit_words=flit_words, depths=depths, cycles=cycles, params=params, hub=hub
    )
