// The bytes of a file, mapped read-only, so that processes share them; or bytes of the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/bytes.h"

namespace intact::engine {

// The bytes of both functions begin at a multiple of 64. Throws Failure (INTACT_NO_FILE).
Bytes map_file(const std::string& path);

// Lets go of the memory of a part of a mapped file, but for pages that it shares with others. Who reads it
// gets it back.
void release_pages(std::span<const uint8_t> part);

// The caller's bytes: as they lie, or copied to where kernels can read them.
Bytes borrow(const void* data, size_t bytes);

}  // namespace intact::engine
