"""The token path ledger."""
from typing import Any
def attribute(machine: Any) -> Any:
    return None
