#include "engine/bytes.h"

#include <cstring>

#include "runtime/context.h"

namespace intact::engine {

Bytes aligned_copy(const void* data, size_t bytes) {
  std::shared_ptr<uint8_t> memory(make_aligned(bytes + kSlack));
  if (bytes > 0) std::memcpy(memory.get(), data, bytes);
  return {{memory.get(), bytes}, memory};
}

}  // namespace intact::engine
