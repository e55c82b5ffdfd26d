// The host of a Verilator model of hw/array.py: loads memories, runs steps, reads words.
#include <cstdint>

#include "Varray.h"
#include "Varray___024root.h"

using Top = Varray;
using Root = Varray___024root;
constexpr char TOP[] = "array";

#include "machine.h"

namespace {

template <class Port>
void put(Port& port, const uint32_t* words) {
    if constexpr (std::is_integral_v<Port>) {
        port = sizeof(Port) > 4 ? words[0] | static_cast<uint64_t>(words[1]) << 32 : words[0];
    } else {
        for (std::size_t i = 0; i < sizeof(Port) / 4; ++i) port[i] = words[i];
    }
}

}  // namespace

extern "C" {

void* tp_make() { return new Machine; }

void tp_free(void* handle) {
    delete static_cast<Machine*>(handle);
    Verilated::threadContextp(Verilated::defaultContextp());
}

// Rows 0..count - 1 of a memory; a row is the whole of host_data in 32-bit words.
void tp_write(void* handle, int tile, int space, int count, const char* rows) {
    Machine& machine = *static_cast<Machine*>(handle);
    Varray& array = machine.top;
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
    Varray& array = machine.top;
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
    machine.top.go = 1;
    machine.tick();
    machine.top.go = 0;
    for (int64_t cycle = 0; cycle < most; ++cycle) {
        machine.settle();
        if (machine.top.done) {
            const int64_t cycles = machine.top.cycles;
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
    machine.top.trace(machine.waves.get(), 99);
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
