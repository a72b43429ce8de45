// The bytes of a file, mapped read-only, so that processes share them; or bytes of the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace intact::engine {

struct FileBytes {
  std::span<const uint8_t> bytes;     // begin at a multiple of 64
  std::shared_ptr<const void> owner;  // keeps them there
};

// Throws Failure (INTACT_NO_FILE).
FileBytes map_file(const std::string& path);

// The caller's bytes: as they lie, or copied to where kernels can read them.
FileBytes borrow(const void* data, size_t bytes);

}  // namespace intact::engine
