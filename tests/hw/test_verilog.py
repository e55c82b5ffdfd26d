"""Verilog of an array: complete, without repetition, the same every time."""

import re

import pytest
from test_tile import SMALL

from tokenpath.hw.verilog import array_verilog, merge_identical, network_verilog

RTLIL = r"""attribute \generator "Amaranth"
attribute \top 1
module \top
  wire width 1 \a
  cell \top.one \one
  end
  cell \top.two \two
  end
end
module \top.one
  wire width 1 \b
  cell \top.one.leaf \leaf
  end
end
module \top.one.leaf
  wire width 1 \c
end
attribute \x 1
module \top.two
  wire width 1 \b
  cell \top.two.leaf \leaf
  end
end
module \top.two.leaf
  wire width 1 \c
end
"""


def test_modules_that_are_equal_below_too_become_one() -> None:
    merged = merge_identical(RTLIL, keep="top")
    assert re.findall(r"^module (\S+)", merged, re.MULTILINE) == [
        r"\top", r"\top.one", r"\top.one.leaf",
    ]  # fmt: skip
    assert re.findall(r"cell (\S+)", merged) == [r"\top.one", r"\top.one", r"\top.one.leaf"]
    other = merge_identical(RTLIL.replace(r"wire width 1 \c", r"wire width 2 \c", 1), keep="top")
    assert other.count("\nmodule") == 5


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_an_array_has_one_tile_and_connects_all_its_ports() -> None:
    texts = array_verilog(SMALL.on("line2@die,switch2@die"))
    assert set(texts) == {"array", "tile", "switch1"}
    for name, count in (("tile", 4), ("switch1", 2)):
        head = texts[name].index(f"module {name}(")
        ports = set(re.findall(r"\w+", texts[name][head:].split("(", 1)[1].split(")", 1)[0]))
        uses = re.findall(rf"^  {name} \S+ \((.*?)^  \);", texts["array"], re.M | re.S)
        assert len(uses) == count
        assert all(set(re.findall(r"\.(\w+)\(", use)) == ports for use in uses)
    assert array_verilog(SMALL.on("line2@die,switch2@die")) == texts


@pytest.mark.filterwarnings("error::amaranth.hdl.UnusedElaboratable")
def test_a_network_has_a_router_and_connects_all_its_ports() -> None:
    arch = SMALL.on("line2@die,switch2@die")
    texts = network_verilog(arch)
    assert set(texts) == {"network", "router", "switch1"}
    for name, count in (("router", 4), ("switch1", 2)):
        assert len(re.findall(rf"^module {name}\(", texts[name], re.M)) == 1
        assert len(re.findall(rf"^  {name} \S+ \(", texts["network"], re.M)) == count
    assert network_verilog(arch) == texts
