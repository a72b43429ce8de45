// Prints checksums of pseudo-random bytes, by tables and by this machine's instructions: of `offset` bytes on, so many
// as each argument says.
#include "engine/crc32.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  std::vector<uint8_t> bytes(1 << 16);
  uint32_t state = 1;
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
  for (size_t offset = 0; offset < 3; ++offset) {
    for (int i = 1; i < argc; ++i) {
      const auto count = static_cast<size_t>(std::atoi(argv[i]));
      std::printf("%u %u\n", intact::engine::crc32_by_tables(bytes.data() + offset, count),
                  intact::engine::crc32(bytes.data() + offset, count));
    }
  }
  return 0;
}
