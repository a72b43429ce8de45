#include "engine/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace intact::engine {
namespace {

constexpr size_t kSlices = 16;
using Tables = std::array<std::array<uint32_t, 256>, kSlices>;

// Table s has what a byte becomes behind which s more bytes follow: 16 bytes at a time are 16 look-ups that
// do not wait for each other. Source: Kounavis and Berry, "A systematic approach to building high performance
// software-based CRC generators", 2005.
constexpr Tables make_tables() {
  Tables found{};
  for (uint32_t n = 0; n < 256; ++n) {
    uint32_t c = n;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? 0xedb88320u ^ c >> 1 : c >> 1;
    found[0][n] = c;
  }
  for (size_t s = 1; s < kSlices; ++s) {
    for (size_t n = 0; n < 256; ++n) found[s][n] = found[s - 1][n] >> 8 ^ found[0][found[s - 1][n] & 255];
  }
  return found;
}

constexpr Tables kTables = make_tables();

}  // namespace

uint32_t crc32(const uint8_t* data, size_t bytes) {
  uint32_t crc = ~0u;
  if constexpr (std::endian::native == std::endian::little) {
    for (; bytes >= kSlices; data += kSlices, bytes -= kSlices) {
      uint32_t words[4];
      std::memcpy(words, data, sizeof words);
      words[0] ^= crc;
      crc = 0;
      for (size_t w = 0; w < 4; ++w) {
        for (size_t b = 0; b < 4; ++b) crc ^= kTables[15 - 4 * w - b][words[w] >> 8 * b & 255];
      }
    }
  }
  for (; bytes > 0; ++data, --bytes) crc = kTables[0][(crc ^ *data) & 255] ^ crc >> 8;
  return ~crc;
}

}  // namespace intact::engine
