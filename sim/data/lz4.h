// Stands in for liblz4, which Verilator's FST writer asks for: blocks that any LZ4 reader expands.
//
// A sequence is a token, literals, and a match of 4 bytes or more up to 65,535 bytes back; the last
// one has literals only.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

inline int LZ4_compress_default(const char* from, char* to, int size, int) {
    constexpr int kBits = 13, kNear = 65535, kLiteralsAtEnd = 12;
    std::vector<int> seen(std::size_t{1} << kBits, -kNear - 1);
    char* out = to;
    int written = 0;  // bytes of from that are in out
    const auto extend = [&](int length) {
        if (length < 15) return;
        for (length -= 15; length >= 255; length -= 255) *out++ = static_cast<char>(255);
        *out++ = static_cast<char>(length);
    };
    const auto literals = [&](int end, int match) {
        const int count = end - written;
        *out++ = static_cast<char>(std::min(count, 15) << 4 | std::min(match, 15));
        extend(count);
        std::memcpy(out, from + written, count);
        out += count;
    };
    for (int at = 0; at + kLiteralsAtEnd < size;) {
        uint32_t word;
        std::memcpy(&word, from + at, 4);
        int& last = seen[word * 2654435761u >> (32 - kBits)];
        const int back = last;
        last = at;
        if (at - back > kNear || std::memcmp(from + back, from + at, 4) != 0) {
            ++at;
            continue;
        }
        int match = 4;
        while (at + match + 5 < size && from[back + match] == from[at + match]) ++match;
        literals(at, match - 4);
        *out++ = static_cast<char>((at - back) & 255);
        *out++ = static_cast<char>((at - back) >> 8);
        extend(match - 4);
        at += match;
        written = at;
    }
    literals(size, 0);
    return static_cast<int>(out - to);
}
