"""Recorded traffic: read, refused, and replayed to the cycle."""

from dataclasses import replace

import numpy as np
import pytest

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import PRESETS
from tokenpath.hw.arch.router_params import RouterParams
from tokenpath.hw.arch.timing import SINK_CYCLES
from tokenpath.sim.traffic import TrafficMachine, replay
from tokenpath.sim.traffic_trace import NEVER, Trace

HEAD = "cycle,source,destination,flits\n"


def write(tmp_path, text):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return path


def test_a_trace_is_read_and_sorted_by_source(tmp_path):
    trace = Trace.read(write(tmp_path, HEAD + "9,1,0,2\n3,1,2,1\n9,1,1,4\n0,0,2,1\n"))
    assert trace.last == 9
    rows, first = trace.by_source(3)
    assert first.tolist() == [0, 2, 6]
    assert rows.tolist() == [
        [0, 2, 1], [NEVER, 0, 1],
        [3, 2, 1], [9, 0, 2], [9, 1, 4], [NEVER, 0, 1],
        [NEVER, 0, 1],
    ]  # fmt: skip


def test_packets_take_the_cycles_of_their_way_and_wait_for_those_before_them():
    arch = replace(PRESETS["tiny"].on("line:4"), router=RouterParams(depth=4))
    rows = [[100, 0, 3, 1], [100, 0, 3, 1], [7, 2, 2, 3]]
    found, last = replay(arch, Trace(rows=np.array(rows, np.int64)))
    way = 1 + 3 + SINK_CYCLES  # into the router, three links, the sink
    assert last == 100 + 1 + way
    assert found.longest == way + 1  # the second packet leaves a cycle later
    assert found.latency == pytest.approx((way + way + 1 + 1 + 2 + SINK_CYCLES) / 3)
    assert (found.packets, found.missing) == (3, 0)


def test_each_packet_has_its_delivery():
    arch = replace(PRESETS["tiny"].on("line:4"), router=RouterParams(depth=4))
    rows = [[100, 0, 3, 1], [100, 0, 3, 1], [7, 2, 2, 3]]
    run = TrafficMachine.recorded(arch, Trace(rows=np.array(rows, np.int64)))
    run.run_until(105)
    way = 1 + 3 + SINK_CYCLES
    assert run.delivered().tolist() == [0, 0, 0, 0, 7 + 1 + 2 + SINK_CYCLES, 0, 0]
    run.run_until(1000)
    assert run.delivered()[:2].tolist() == [100 + way, 101 + way]


def test_where_vcs_follow_from_destinations_a_packet_waits_for_its_own():
    arch = replace(PRESETS["tiny"].on("line:4"), router=RouterParams.parse("vc2-d1-ordered"))
    rows = [[0, 0, 1, 1], [0, 0, 3, 1], [0, 0, 2, 1]]  # on the VCs 1, 1, 0
    run = TrafficMachine.recorded(arch, Trace(rows=np.array(rows, np.int64)))
    run.run_until(1000)
    left, hops = np.array([0, 2, 3]), np.array([1, 3, 2])
    assert run.delivered()[:3].tolist() == (left + 1 + hops + SINK_CYCLES).tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,3,4\n", "begin with the line cycle,source,destination,flits"),
        (HEAD, "has no packets"),
        (HEAD + "1,2,3\n", "line 2: '1,2,3' is not cycle,source"),
        (HEAD + "1,2,3,0\n", "at least one flit"),
        (HEAD + "0,0,0,1\n1,-2,3,1\n", "line 3"),
        (HEAD + "9999999999,0,0,1\n", "line 2"),
        (HEAD + "a,0,0,1\n", "line 2"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        Trace.read(write(tmp_path, text))


def test_a_missing_file_and_a_missing_tile_are_refused(tmp_path):
    with pytest.raises(InputError, match="can't read the trace"):
        Trace.read(tmp_path / "none.csv")
    trace = Trace(rows=np.array([[0, 0, 4, 1]]))
    with pytest.raises(InputError, match="packet of tile 4, the topology tiles 0 to 3"):
        replay(PRESETS["tiny"], trace)
