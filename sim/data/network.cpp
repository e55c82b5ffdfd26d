// Sources and sinks around a Verilator model of hw/network.py, by the rules of sim/fast/traffic.py,
// and a watch on every link.
#include <cstdint>
#include <vector>

#include "Vnetwork.h"
#include "Vnetwork___024root.h"

using Top = Vnetwork;
using Root = Vnetwork___024root;
constexpr char TOP[] = "network";

#include "machine.h"

#ifndef PORTS_sent__valid  // a network of one tile
#define PORTS_sent__valid
#define PORTS_sent__flit
#define PORTS_returned
#define PORTS_lanes
#endif

namespace {

using Flit = VlWide<3>;  // two words; head, tail, VC

// Rows of sim/verilated_network.py. Sources take packets in order, the last is never made.
struct Packet { int64_t cycle, flits, at, vcs, left; };  // left: when its head was sent
struct Wire { int64_t depth, cycles; };
struct Arrival { int64_t cycle, tile, vc, ends, first, second; };
struct Settings {
    int64_t lanes, depth, most, quiet, flits, room, checked;
    int64_t whole;  // a credit is for a packet
};
struct Found {
    int64_t cycles, arrivals;
    int64_t link_flits, no_credit, all_held, woven, waits;  // corners
    int64_t rule, cycle, link;  // the first rule that is broken on a link, 0 for none
};

enum Rule { NONE, CREDIT, HELD, BUSY, LOST };

uint32_t bits_of(const Flit& flit) { return flit[2]; }  // head, tail << 1, VC << 2

// A tile's network interface, sending side.
struct Source {
    Packet* packet;  // that it sends, or the next one
    int64_t place = 0;
    int vc = 0, pointer = 0;
    std::vector<int64_t> credits;

    // Whether its flit has a credit; then vc is the flit's.
    bool sends(int lanes, bool whole) {
        if (place) return whole || credits[vc] > 0;
        for (int i = 0; i < lanes; ++i) {
            const int each = (pointer + i) % lanes;
            if (!(packet->vcs >> each & 1) || !credits[each]) continue;
            vc = each;
            pointer = each + 1;
            return true;
        }
        return false;
    }
};

struct Watch {
    std::vector<int64_t> credits;
    std::vector<bool> held;
    int64_t free_at = 0;
    int last_vc = -1;  // of a packet that hasn't ended
};

struct Bench {
    Machine& machine;
    const Settings& is;
    Packet* packets;
    const uint32_t* words;
    const Wire* wires;
    Arrival* arrivals;
    Found& found;
    Top& top = machine.top;
    std::vector<CData*> in_valid{PORTS_i__valid}, credit{PORTS_i__credit};
    std::vector<CData*> out_valid{PORTS_o__valid}, sent{PORTS_sent__valid}, back{PORTS_returned};
    std::vector<CData*> vcs{PORTS_lanes};
    std::vector<Flit*> in{PORTS_i__flit}, out{PORTS_o__flit}, on_link{PORTS_sent__flit};
    std::vector<Source> sources{};
    std::vector<Watch> watches{};

    void run(const int64_t* first) {
        for (std::size_t tile = 0; tile < in.size(); ++tile) {
            const std::vector<int64_t> credits(is.lanes, is.depth);
            sources.push_back({packets + first[tile], 0, 0, 0, credits});
        }
        for (std::size_t i = 0; i < sent.size(); ++i) {
            watches.emplace_back();
            int lanes = 0;
            while (*vcs[i] >> lanes & 1) ++lanes;
            watches[i].credits.assign(lanes, wires[i].depth);
            watches[i].held.assign(lanes, false);
        }
        int64_t quiet = 0, t = 0;
        for (; t < is.most && quiet < is.quiet && found.arrivals < is.room; ++t) {
            for (std::size_t tile = 0; tile < sources.size(); ++tile) send(tile, t);
            machine.settle();
            for (std::size_t tile = 0; tile < out.size(); ++tile) receive(tile, t);
            for (std::size_t i = 0; i < watches.size(); ++i) watch(i, t);
            quiet += found.arrivals >= is.flits;
            machine.edge();
        }
        found.cycles = t;
        if (quiet == is.quiet) settle_accounts(t);
    }

    void send(std::size_t tile, int64_t t) {
        Source& source = sources[tile];
        Packet& packet = *source.packet;
        *in_valid[tile] = 0;
        if (!source.place && packet.cycle > t) return;
        if (!source.sends(is.lanes, is.whole)) {
            ++found.waits;
            return;
        }
        if (!source.place) packet.left = t;
        const bool head = source.place == 0, tail = source.place == packet.flits - 1;
        const uint32_t* word = words + 2 * (packet.at + source.place++);
        Flit& flit = *in[tile];
        flit[0] = word[0];
        flit[1] = word[1];
        flit[2] = head | tail << 1 | source.vc << 2;
        *in_valid[tile] = 1;
        source.credits[source.vc] -= head || !is.whole;
        if (!tail) return;
        source.place = 0;
        ++source.packet;
    }

    void receive(std::size_t tile, int64_t t) {
        for (int vc = 0; vc < is.lanes; ++vc) {
            sources[tile].credits[vc] += *credit[tile] >> vc & 1;
            if (sources[tile].credits[vc] > is.depth) broken(CREDIT, t, -1 - tile);
        }
        if (!*out_valid[tile]) return;
        const Flit& flit = *out[tile];
        const uint32_t bits = bits_of(flit);
        arrivals[found.arrivals++] = {t, int64_t(tile), bits >> 2 & 15, bits & 3, flit[0], flit[1]};
    }

    void watch(std::size_t i, int64_t t) {
        Watch& link = watches[i];
        const int lanes = link.credits.size();
        bool none = false, all = true;
        for (int vc = 0; vc < lanes; ++vc) none |= link.credits[vc] <= 0, all &= link.held[vc];
        found.no_credit += none;
        found.all_held += all;
        if (*sent[i]) {
            const uint32_t bits = bits_of(*on_link[i]);
            const bool head = bits & 1, tail = bits & 2;
            const int vc = is.checked ? bits >> 2 & 15 : 0;  // else a word of the routers
            ++found.link_flits;
            found.woven += link.last_vc >= 0 && link.last_vc != vc;
            link.last_vc = tail ? -1 : vc;
            if (vc >= lanes || (is.checked && link.held[vc] == head)) return broken(HELD, t, i);
            if (is.checked && t < link.free_at) broken(BUSY, t, i);
            link.credits[vc] -= is.checked && (head || !is.whole);
            if (link.credits[vc] < 0) broken(CREDIT, t, i);
            link.free_at = t + wires[i].cycles;
            link.held[vc] = !tail;
        }
        for (int vc = 0; vc < lanes; ++vc) {
            link.credits[vc] += is.checked && (*back[i] >> vc & 1);
            if (link.credits[vc] > wires[i].depth) broken(CREDIT, t, i);
        }
    }

    // Quiet for long: every credit has come home.
    void settle_accounts(int64_t t) {
        for (std::size_t tile = 0; tile < sources.size(); ++tile) {
            for (int64_t left : sources[tile].credits) {
                if (left != is.depth) broken(LOST, t, -1 - tile);
            }
        }
        for (std::size_t i = 0; is.checked && i < watches.size(); ++i) {
            for (int64_t left : watches[i].credits) {
                if (left != wires[i].depth) broken(LOST, t, i);
            }
        }
    }

    void broken(Rule rule, int64_t t, int64_t link) {
        if (!found.rule) found.rule = rule, found.cycle = t, found.link = link;
    }
};

}  // namespace

extern "C" {

void* tn_make() { return new Machine; }

void tn_free(void* handle) {
    delete static_cast<Machine*>(handle);
    Verilated::threadContextp(Verilated::defaultContextp());
}

// From reset until all flits have come, and some cycles more, or until a limit of the settings.
void tn_run(
    void* handle, const Settings* settings, Packet* packets, const uint32_t* words,
    const int64_t* first, const Wire* wires, Arrival* arrivals, Found* found
) {
    Machine& machine = *static_cast<Machine*>(handle);
    Bench bench{machine, *settings, packets, words, wires, arrivals, *found};
    for (CData* valid : bench.in_valid) *valid = 0;
    machine.reset();
    bench.run(first);
}
}
