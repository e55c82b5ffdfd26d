"""Flits that arrived: what is lost, comes twice, astray, torn, out of order or in between."""

from collections.abc import Callable

import numpy as np
import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.sim.arrivals import ENDS, FIRST, SECOND, TILE, VC, Sent
from tokenpath.sim.traffic_trace import NEVER

ROWS = np.array([[0, 1, 3], [4, 2, 1], [NEVER, 0, 1], [0, 2, 2], [NEVER, 0, 1]])
"""Packets of 3, 1 and 2 flits to the tiles 1, 2, 2, and two that are never made."""
PACKED = np.array([0, 1, 4])
SENT = Sent(ROWS, PACKED, headers=False)


def arrived() -> np.ndarray:
    """All flits, in order, packet by packet, a cycle each."""
    ends = np.array([1, 0, 2, 3, 1, 2])
    tile, vc = SENT.to[SENT.packet], np.zeros(6, np.int64)
    columns = [10 + np.arange(6), tile, vc, ends, *SENT.words.T.astype(np.int64)]
    return np.stack(columns, axis=1)


def test_words_say_which_flit_it_is() -> None:
    assert (SENT.words[:, 1] == [0, 1, 2, 256, 768, 769]).all()
    heads = SENT.place == 0
    assert (SENT.words[heads, 0] & 0xFFFFFF == [1, 4, 4]).all()
    assert (SENT.words[~heads, 0] & 0xFFFFFF != PACKED[SENT.to[SENT.packet]][~heads]).all()
    everywhere = Sent(ROWS, PACKED, headers=True).words[:, 0] & 0xFFFFFF
    assert (everywhere == PACKED[SENT.to[SENT.packet]]).all()
    assert SENT.at.tolist() == [0, 3, 4, 4, 6]


def test_all_flits_in_order_are_right_and_tails_deliver() -> None:
    assert SENT.fault(arrived()) == ""
    assert SENT.delivered(arrived()).tolist() == [12, 13, -1, 15, -1]


def test_packets_may_weave_on_different_vcs_of_a_tile() -> None:
    flits = arrived()[[0, 1, 2, 4, 3, 5]]
    assert "between the flits" in SENT.fault(flits)
    assert SENT.fault(flits, woven=True) == ""
    flits[4, VC] = 1
    assert SENT.fault(flits) == ""


def changed(row: int, column: int, value: int) -> Callable[[np.ndarray], np.ndarray]:
    def change(flits: np.ndarray) -> np.ndarray:
        flits[row, column] = value
        return flits

    return change


FAULTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "flit 1 of packet 0 never came": lambda flits: np.delete(flits, 1, axis=0),
    "flit 0 of packet 1 came twice": lambda flits: flits[[0, 1, 2, 3, 3, 4, 5]],
    "flit 3 of packet 0, in cycle 10 at tile 1 on VC 0, was never sent": changed(0, SECOND, 3),
    "flit 0 of packet 2, in cycle 10 at tile 1 on VC 0, was never sent": changed(0, SECOND, 512),
    "flit 0 of packet 9, in cycle 10 at tile 1 on VC 0, was never sent": changed(0, SECOND, 2304),
    "flit 2 of packet 0, in cycle 12 at tile 0 on VC 0, at the wrong tile": changed(2, TILE, 0),
    "flit 1 of packet 3, in cycle 15 at tile 2 on VC 0, with another first word": changed(
        5, FIRST, 7
    ),
    "flit 1 of packet 0, in cycle 11 at tile 1 on VC 0, wrongly marked": changed(1, ENDS, 2),
    "flit 0 of packet 1, in cycle 13 at tile 2 on VC 0, wrongly marked": changed(3, ENDS, 1),
    "flit 2 of packet 0, in cycle 12 at tile 1 on VC 0, out of order": lambda flits: flits[
        [0, 2, 1, 3, 4, 5]
    ],
    "flit 1 of packet 3, in cycle 15 at tile 2 on VC 1, between the flits of another packet": (
        changed(5, VC, 1)
    ),
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_is_named(text: str) -> None:
    assert SENT.fault(FAULTS[text](arrived())) == text


def test_a_packet_longer_than_its_places_is_refused() -> None:
    with pytest.raises(InputError, match="a packet of 257 flits; give at most 256"):
        Sent(np.array([[0, 1, 257]]), PACKED, headers=False)
