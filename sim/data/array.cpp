// The host of a Verilator model of hw/array.py: loads memories, runs steps, reads words.
#include <cstdint>
#include <type_traits>

#include "Varray.h"
#include "verilated.h"

namespace {

struct Model {
    VerilatedContext context;
    Varray array{&context};

    void tick() {
        array.clk = 0;
        array.eval();
        array.clk = 1;
        array.eval();
    }
};

template <class Port>
void put(Port& port, const uint32_t* words) {
    if constexpr (std::is_integral_v<Port>) {
        port = sizeof(Port) > 4 ? words[0] | static_cast<uint64_t>(words[1]) << 32 : words[0];
    } else {
        for (std::size_t i = 0; i < sizeof(Port) / 4; ++i) port[i] = words[i];
    }
}

}  // namespace

double sc_time_stamp() { return 0; }

extern "C" {

void* tp_make() {
    Model* model = new Model;
    model->array.rst = 1;
    for (int i = 0; i < 3; ++i) model->tick();
    model->array.rst = 0;
    return model;
}

void tp_free(void* handle) { delete static_cast<Model*>(handle); }

// Rows 0..count - 1 of a memory; a row is the whole of host_data in 32-bit words.
void tp_write(void* handle, int tile, int space, int count, const char* rows) {
    Model& model = *static_cast<Model*>(handle);
    const std::size_t words = (sizeof(model.array.host_data) + 3) / 4;
    const uint32_t* row = reinterpret_cast<const uint32_t*>(rows);
    model.array.host_tile = tile;
    model.array.host_space = space;
    model.array.host_write = 1;
    for (int address = 0; address < count; ++address, row += words) {
        model.array.host_address = address;
        put(model.array.host_data, row);
        model.tick();
    }
    model.array.host_write = 0;
}

void tp_read(void* handle, int tile, int space, int first, int count, void* to) {
    Model& model = *static_cast<Model*>(handle);
    model.array.host_tile = tile;
    model.array.host_space = space;
    for (int i = 0; i < count; ++i) {
        model.array.host_address = first + i;
        model.tick();
        static_cast<uint32_t*>(to)[i] = model.array.host_word;
    }
}

// Cycles of a step, or -1 if it has more than most.
int64_t tp_step(void* handle, int64_t most) {
    Model& model = *static_cast<Model*>(handle);
    model.array.go = 1;
    model.tick();
    model.array.go = 0;
    for (int64_t cycle = 0; cycle < most; ++cycle) {
        model.array.eval();
        if (model.array.done) {
            const int64_t cycles = model.array.cycles;
            for (int i = 0; i < 8; ++i) model.tick();  // counters of the units
            return cycles;
        }
        model.tick();
    }
    return -1;
}
}
