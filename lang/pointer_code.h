// Pointers on the interpreter and the CPU: 64-bit values that carry which of the launch's arguments they may reach.
//     (argument + 1) << 48 | (element + 2^47)     of an argument, or of memory behind the arguments that a launch names
//     element                                     of none of them: the element at address `element` * its size; zero is the null pointer
//     (2^16 - 8 + r) << 48 | element              the same, r bytes further
// Every access looks at the argument's storage, so that a wild pointer is an error and never touches memory.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace tegula {

constexpr uint64_t kPointerBias = uint64_t{1} << 47;
constexpr uint64_t kPointerOffset = (uint64_t{1} << 48) - 1;

/// Memory of one argument; empty: none that pointers reach.
struct Reach {
    const uint8_t* data = nullptr;
    uint64_t bytes = 0;
};

constexpr uint64_t pointer_code(uint64_t argument, int64_t element) {
    return (argument + 1) << 48 | ((static_cast<uint64_t>(element) + kPointerBias) & kPointerOffset);
}
constexpr int64_t pointer_element(uint64_t code) { return static_cast<int64_t>((code & kPointerOffset) - kPointerBias); }

/// The pointer to the element of `bits` bits at an address, in whichever object reaches furthest from there; right behind its end where no other
/// begins.
uint64_t pointer_to(uint64_t address, unsigned bits, std::span<const Reach> objects);
/// Where the pointer leads; of elements narrower than a byte the byte that holds the first bit.
uint64_t address_of(uint64_t code, unsigned bits, std::span<const Reach> objects);
/// As `print` shows it.
std::string pointer_text(uint64_t code);
/// What messages call object number `number`, of which the first `params` are named parameters.
std::string unnamed_object(uint64_t number, uint64_t params);

}  // namespace tegula
