// Pointers and the addresses behind them (pointer_code.h).
#include "lang/pointer_code.h"

namespace tegula {

namespace {

constexpr uint64_t kNoObject = 0xfff8;  ///< and up: what stands in place of an argument's number where there is a rest

}  // namespace

uint64_t pointer_to(uint64_t address, unsigned bits, std::span<const Reach> objects) {
    uint64_t most = 0, found = UINT64_MAX;
    for (uint64_t i = 0; i < objects.size(); ++i) {
        const auto begin = reinterpret_cast<uint64_t>(objects[i].data), from = address - begin;
        if (!objects[i].data || address < begin || from > objects[i].bytes || from * 8 % bits != 0) continue;
        const uint64_t left = objects[i].bytes - from;
        if (found == UINT64_MAX || left > most) found = i, most = left;
    }
    if (found != UINT64_MAX) return pointer_code(found, static_cast<int64_t>((address - reinterpret_cast<uint64_t>(objects[found].data)) * 8 / bits));
    const uint64_t bytes = bits / 8 ? bits / 8 : 1, element = address / bytes, rest = address % bytes;
    if (element > kPointerOffset) return 0;  // no memory lies there
    return rest ? (kNoObject + rest) << 48 | element : element;
}

uint64_t address_of(uint64_t code, unsigned bits, std::span<const Reach> objects) {
    const uint64_t argument = code >> 48, bytes = bits / 8 ? bits / 8 : 1;
    if (argument == 0) return (code & kPointerOffset) * bytes;
    if (argument > kNoObject) return (code & kPointerOffset) * bytes + (argument - kNoObject);
    if (argument > objects.size()) return 0;
    const int64_t element = pointer_element(code);
    __extension__ using Wide = __int128;
    return reinterpret_cast<uint64_t>(objects[argument - 1].data) + static_cast<uint64_t>((Wide(element) * bits) >> 3);
}

std::string pointer_text(uint64_t code) {
    const uint64_t argument = code >> 48;
    if (code == 0) return "ptr(none)";
    if (argument == 0 || argument > kNoObject) return "ptr(no argument)";
    return "ptr(argument " + std::to_string(argument - 1) + ", element " + std::to_string(pointer_element(code)) + ")";
}

std::string unnamed_object(uint64_t number, uint64_t params) { return "memory " + std::to_string(number - params) + " behind the arguments"; }

}  // namespace tegula
