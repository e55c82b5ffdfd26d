// The host of a Verilator model of hw/array.py: loads memories, runs steps, reads words.
//
// The array's Verilog runs with stubs in place of its leaves (tile.core, tile.router, switches),
// each of which is a model of its own; the generated wiring.h passes values between a stub's ports
// and its model's. Like any simulator, it evaluates until nothing changes.
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

#include "Varray.h"
#include "Varray___024root.h"

namespace {

using Root = Varray___024root;

// A leaf at its place in the array.
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

template <class Port>
void put(Port& port, const uint32_t* words) {
    if constexpr (std::is_integral_v<Port>) {
        port = sizeof(Port) > 4 ? words[0] | static_cast<uint64_t>(words[1]) << 32 : words[0];
    } else {
        for (std::size_t i = 0; i < sizeof(Port) / 4; ++i) port[i] = words[i];
    }
}

}  // namespace

#include "wiring.h"  // std::vector<Nodes> make_nodes(context): those of a tile, or of a switch

namespace {

struct Machine {
    VerilatedContext context;
    Varray array{&context, "array"};
    std::vector<Nodes> all = make_nodes(&context);
    uint64_t half_period_ps = 500;
    uint64_t half_periods = 0;
#if VM_TRACE
    std::unique_ptr<Waves> waves;
#endif

    // All inputs as the outputs and the host have them; only the nodes of [first, last).
    void settle(std::size_t first, std::size_t last, bool level = false) {
        bool changed;
        do {
            array.clk = level;
            array.eval();
            changed = false;
            for (std::size_t i = first; i < last; ++i) {
                for (auto& node : all[i]) {
                    node->take(*array.rootp);
                    node->clock(level);
                }
            }
            for (std::size_t i = first; i < last; ++i) {
                for (auto& node : all[i]) changed |= node->give(*array.rootp);
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
            for (auto& node : all[i]) node->give(*array.rootp);
        }
    }

    // From a settled state, the rising edge of all clocks.
    void edge() {
        edge(0, all.size());
        array.clk = true;
        array.eval();
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

    // A cycle of one tile only: the host writes or reads while all are idle.
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

    Machine() {
        array.rst = 1;
        for (int i = 0; i < 3; ++i) tick();
        array.rst = 0;
        settle();
    }

    ~Machine() { Verilated::threadContextp(&context); }  // models leave the thread's context
};

}  // namespace

double sc_time_stamp() { return 0; }

extern "C" {

void* tp_make() { return new Machine; }

void tp_free(void* handle) {
    delete static_cast<Machine*>(handle);
    Verilated::threadContextp(Verilated::defaultContextp());
}

// Rows 0..count - 1 of a memory; a row is the whole of host_data in 32-bit words.
void tp_write(void* handle, int tile, int space, int count, const char* rows) {
    Machine& machine = *static_cast<Machine*>(handle);
    Varray& array = machine.array;
    const std::size_t words = (sizeof(array.host_data) + 3) / 4;
    const uint32_t* row = reinterpret_cast<const uint32_t*>(rows);
    array.host_tile = tile;
    array.host_space = space;
    array.host_write = 1;
    for (int address = 0; address < count; ++address, row += words) {
        array.host_address = address;
        put(array.host_data, row);
        machine.tick(tile);
    }
    array.host_write = 0;
    machine.settle();
}

void tp_read(void* handle, int tile, int space, int first, int count, void* to) {
    Machine& machine = *static_cast<Machine*>(handle);
    Varray& array = machine.array;
    array.host_tile = tile;
    array.host_space = space;
    for (int i = 0; i < count; ++i) {
        array.host_address = first + i;
        machine.tick(tile);
        machine.settle(tile, tile + 1);
        static_cast<uint32_t*>(to)[i] = array.host_word;
    }
}

// Cycles of a step, or -1 if it has more than most.
int64_t tp_step(void* handle, int64_t most) {
    Machine& machine = *static_cast<Machine*>(handle);
    machine.array.go = 1;
    machine.tick();
    machine.array.go = 0;
    for (int64_t cycle = 0; cycle < most; ++cycle) {
        machine.settle();
        if (machine.array.done) {
            const int64_t cycles = machine.array.cycles;
            for (int i = 0; i < 8; ++i) machine.tick();  // counters of the units
            return cycles;
        }
        machine.edge();
    }
    return -1;
}

#if VM_TRACE
// Waveforms from here on, to a file, until tp_close.
void tp_open(void* handle, const char* path, int64_t half_period_ps) {
    Machine& machine = *static_cast<Machine*>(handle);
    machine.half_period_ps = half_period_ps;
    machine.waves = std::make_unique<Waves>();
    machine.context.traceEverOn(true);
    machine.array.trace(machine.waves.get(), 99);
    for (auto& nodes : machine.all) {
        for (auto& node : nodes) node->trace(*machine.waves);
    }
    machine.waves->open(path);
}

void tp_close(void* handle) {
    Machine& machine = *static_cast<Machine*>(handle);
    if (machine.waves) machine.waves->close();
    machine.waves.reset();
}
#endif
}
