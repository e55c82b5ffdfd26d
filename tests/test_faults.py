"""The faults that benchmarks plant still fit the hardware's source."""

from benchmarks import mutation
from benchmarks.faults import FAULTS, Fault
from benchmarks.network_differential import machine


def test_each_text_stands_once_in_its_file_and_each_machine_can_be_built(monkeypatch):
    assert mutation.lost() == []
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert all(machine(*one) for one in {fault.machine for fault in FAULTS if fault.machine})
    gone = Fault("no such text", "credits", "count - 2", "count")
    monkeypatch.setattr(mutation, "FAULTS", (gone,))
    assert mutation.lost() == ["no such text: hw/credits.py has 0 of 'count - 2'"]
