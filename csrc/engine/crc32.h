// The CRC-32 of zlib, gzip and PNG (polynomial 0xedb88320).
#pragma once

#include <cstddef>
#include <cstdint>

namespace intact::engine {

uint32_t crc32(const uint8_t* data, size_t bytes);

// The same without instructions that not every machine has. `crc`: of the bytes before these.
uint32_t crc32_by_tables(const uint8_t* data, size_t bytes, uint32_t crc = 0);

}  // namespace intact::engine
