// Bytes and what keeps them alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace intact::engine {

struct Bytes {
  std::span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;  // none: the caller, or somebody else, keeps them
  bool is_mapped = false;             // pages of a file, which release_pages may let go

  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

// Copies to a multiple of 64, with kSlack zeros behind: what kernels read fastest.
Bytes aligned_copy(const void* data, size_t bytes);

}  // namespace intact::engine
