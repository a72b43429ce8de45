// What libFuzzer calls (https://llvm.org/docs/LibFuzzer.html), and what it has for mutators.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

// Makes another plan of one, and of a second one, with right checksums.
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t* data, size_t size, const uint8_t* other, size_t other_size,
                                 uint8_t* to, size_t most, unsigned seed);

// Opens and runs a plan; an internal fault of the library ends the process.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
}
