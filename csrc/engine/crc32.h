// The CRC-32 of zlib, gzip and PNG (polynomial 0xedb88320).
#pragma once

#include <cstddef>
#include <cstdint>

namespace intact::engine {

uint32_t crc32(const uint8_t* data, size_t bytes);

}  // namespace intact::engine
