// A module whose leaves are models of their own, and its clock.
//
// The module's Verilog runs with stubs in place of its leaves; the generated wiring.h passes values
// between a stub's ports and its model's. Like any simulator, it evaluates until nothing changes.
// Needs Top, the class of the module's model, Root, that of its root, and TOP, its name.
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "verilated.h"
#if VM_TRACE_FST
#include "verilated_fst_c.h"
using Waves = VerilatedFstC;
#elif VM_TRACE
#include "verilated_vcd_c.h"
using Waves = VerilatedVcdC;
#endif

namespace {

// A leaf at its place.
struct Node {
    virtual ~Node() = default;
    virtual void clock(bool level) = 0;
    virtual void take(const Root& stubs) = 0;
    virtual bool give(Root& stubs) const = 0;  // whether anything is new
#if VM_TRACE
    virtual void trace(Waves& waves) = 0;
#endif
};

template <class Model>
struct NodeOf : Node {
    Model model;

    NodeOf(VerilatedContext* context, const char* name) : model{context, name} {}

    void clock(bool level) override {
        model.clk = level;
        model.eval();
    }

#if VM_TRACE
    void trace(Waves& waves) override { model.trace(&waves, 99); }
#endif
};

using Nodes = std::vector<std::unique_ptr<Node>>;

template <class Port>
bool change(Port& port, const Port& value) {
    const bool changed = port != value;
    if (changed) port = value;
    return changed;
}

}  // namespace

#include "wiring.h"  // std::vector<Nodes> make_nodes(context): groups, by tile and then by switch

namespace {

struct Machine {
    VerilatedContext context;
    Top top{&context, TOP};
    std::vector<Nodes> all = make_nodes(&context);
    uint64_t half_period_ps = 500;
    uint64_t half_periods = 0;
#if VM_TRACE
    std::unique_ptr<Waves> waves;
#endif

    // All inputs as the outputs and the world have them; only the nodes of [first, last).
    void settle(std::size_t first, std::size_t last, bool level = false) {
        bool changed;
        do {
            top.clk = level;
            top.eval();
            changed = false;
            for (std::size_t i = first; i < last; ++i) {
                for (auto& node : all[i]) {
                    node->take(*top.rootp);
                    node->clock(level);
                }
            }
            for (std::size_t i = first; i < last; ++i) {
                for (auto& node : all[i]) changed |= node->give(*top.rootp);
            }
        } while (changed);
    }

    void settle() {
        settle(0, all.size());
        dump();
    }

    void edge(std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) {
            for (auto& node : all[i]) node->clock(true);
        }
    }

    void give(std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) {
            for (auto& node : all[i]) node->give(*top.rootp);
        }
    }

    // From a settled state, the rising edge of all clocks.
    void edge() {
        edge(0, all.size());
        top.clk = true;
        top.eval();
        give(0, all.size());
#if VM_TRACE
        if (waves) {
            settle(0, all.size(), true);
            dump();
        }
#endif
    }

    void tick() {
        settle();
        edge();
    }

    // A cycle of one group of nodes only, while all are idle.
    void tick(std::size_t tile) {
        settle(tile, tile + 1);
        edge(tile, tile + 1);
        give(tile, tile + 1);
    }

    void dump() {
#if VM_TRACE
        if (waves) waves->dump(half_period_ps * half_periods++);
#endif
    }

    void reset() {
        top.rst = 1;
        for (int i = 0; i < 3; ++i) tick();
        top.rst = 0;
        settle();
    }

    Machine() { reset(); }

    ~Machine() { Verilated::threadContextp(&context); }  // models leave the thread's context
};

}  // namespace

double sc_time_stamp() { return 0; }
