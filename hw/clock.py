"""Clock periods that both Amaranth 0.5 and its successor take."""

from typing import Any

from amaranth import hdl


def period(*, hz: float = 1e6) -> Any:
    """A clock period for ``Simulator.add_clock``: seconds in Amaranth 0.5.10, a Period later."""
    later = getattr(hdl, "Period", None)
    return 1 / hz if later is None else later(Hz=hz)
