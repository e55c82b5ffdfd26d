"""Verilog cut at its leaves: each once, a stub for each place, values passed both ways."""

import re

from tokenpath.sim.verilated_parts import cut, model

ARRAY = r"""
module array(clk, go, done);
  input clk;
  input go;
  output done;
  tile tile10 (
    .clk(clk),
    .go(go)
  );
  tile tile2 (
    .clk(clk),
    .go(go)
  );
  switch0 node12 (
    .clk(clk)
  );
endmodule
"""
TILE = r"""
module tile(clk, go);
  input clk;
  wire [1:0] \flit$3 ;
  \tile.core  core (
    .clk(clk)
  );
  \tile.router  router (
    .clk(clk)
  );
  links links (
    .clk(clk)
  );
endmodule

module links(clk);
endmodule

module \tile.core (clk, go, o__flit, \push$3 );
  input clk;
  wire clk;
  input go;
  output [66:0] o__flit;
  reg [66:0] o__flit;
  output done;
  input \push$3 ;
  \tile.core.leaf  leaf (
    .clk(clk)
  );
endmodule

module \tile.core.leaf (clk);
endmodule

module \tile.router (clk);
  input clk;
  \tile.core.leaf  leaf (
    .clk(clk)
  );
endmodule
"""
SWITCH = "module switch0(clk);\n  input clk;\nendmodule\n"
PARTS = cut({"tile": TILE, "array": ARRAY, "switch0": SWITCH})


def modules(text: str) -> list[str]:
    """Names of the modules of a text, in order."""
    return re.findall(r"^module \\?([\w.]+)", text, re.MULTILINE)


def test_a_leaf_has_all_that_it_contains_and_the_top_the_rest() -> None:
    assert {name: modules(text) for name, text in PARTS.leaves.items()} == {
        "tile.core": ["tile.core", "tile.core.leaf"],
        "tile.router": ["tile.core.leaf", "tile.router"],
        "switch0": ["switch0"],
    }
    assert modules(PARTS.top) == ["array", "links", "tile", "tile.core", "tile.router", "switch0"]
    for text in (ARRAY, TILE[TILE.index("module tile(") : TILE.index("module \\tile.core ")]):
        assert all(part in PARTS.top for part in re.findall(r"^module.*?^endmodule", text, 24))


def test_a_stub_has_the_ports_of_its_leaf_and_nothing_else() -> None:
    mark = "/*verilator public_flat_rw*/;\n"
    assert PARTS.top.split("module \\tile.core ")[1].startswith(
        "(clk, go, o__flit, \\push$3 );\n"
        f"  input clk {mark}  input go {mark}  output reg [66:0] o__flit {mark}"
        f"  output reg done {mark}  input \\push$3 {mark}endmodule\n"
    )


def test_each_place_has_its_node_in_the_order_of_tiles_and_then_switches() -> None:
    made = re.findall(r"all\[(\d)\].push_back\(\S+<(\w+)>\(context, \"(\S+)\"\)", PARTS.wiring)
    assert made == [
        ("0", "Node0", "tile2.core"), ("0", "Node1", "tile2.router"),
        ("1", "Node2", "tile10.core"), ("1", "Node3", "tile10.router"),
        ("2", "Node4", "node12"),
    ]  # fmt: skip
    assert re.findall(r"(Node\d) final : NodeOf<(\w+)>", PARTS.wiring) == [
        (f"Node{i}", model(leaf))
        for i, leaf in enumerate(["tile.core", "tile.router"] * 2 + ["switch0"])
    ]


def test_values_pass_between_a_stub_and_its_model() -> None:
    node = PARTS.wiring.split("Node2 final")[1].split("};")[0]
    at = "stubs.array__DOT__tile10__DOT__core__DOT__"
    assert f"{{ model.go = {at}go; model.push__0243 = {at}push__0243; }}" in node
    assert (
        f"{{ return change({at}o___05Fflit, model.o___05Fflit) | change({at}done, model.done); }}"
        in node
    )
    assert "clk" not in PARTS.wiring


NETWORK = r"""
module network(clk, i__0__valid, i__10__valid, i__2__valid, lanes__0);
  input clk;
  input i__0__valid;
  input i__10__valid;
  input i__2__valid;
  output [1:0] lanes__0;
  output [3:0] other__x;
  router node0 (
    .clk(clk)
  );
endmodule
"""


def test_a_network_has_its_routers_and_its_ports_by_number() -> None:
    parts = cut({"network": NETWORK, "router": "module router(clk);\nendmodule\n"}, "network")
    assert set(parts.leaves) == {"router"}
    assert modules(parts.top) == ["network", "router"]
    assert parts.wiring.startswith(
        "#define PORTS_i__valid &top.i___05F0___05Fvalid, &top.i___05F2___05Fvalid, "
        "&top.i___05F10___05Fvalid\n"
        '#define PORTS_lanes &top.lanes___05F0\n#include "Vrouter.h"'
    )
