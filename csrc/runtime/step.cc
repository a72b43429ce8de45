#include "runtime/step.h"

#include <algorithm>

#include "base/check.h"

namespace intact {
namespace {

constexpr size_t kMostBytes = 10;  // of a number: 7 bits each
constexpr size_t kMostNumbers = 8 + 2 * static_cast<size_t>(kMaxRank) + 4;
constexpr uint64_t kWrites = 1, kHasHalo = 2;

// Writes numbers, 7 bits a byte from the lowest on; all but the last byte have their highest bit set.
class Writer {
 public:
  void put(uint64_t n) {
    for (; n >= 128; n >>= 7) bytes_[count_++] = static_cast<uint8_t>(n | 128);
    bytes_[count_++] = static_cast<uint8_t>(n);
  }
  // Small magnitudes of both signs take few bytes.
  void put_signed(int64_t n) { put(static_cast<uint64_t>(n) << 1 ^ static_cast<uint64_t>(n >> 63)); }
  const uint8_t* begin() const { return bytes_; }
  const uint8_t* end() const { return bytes_ + count_; }

 private:
  uint8_t bytes_[kMostNumbers * kMostBytes];
  size_t count_ = 0;
};

uint64_t get(const uint8_t*& from) {
  uint64_t n = *from & 127;
  for (int shift = 7; (*from++ & 128) != 0; shift += 7) n |= uint64_t{*from & 127u} << shift;
  return n;
}

int64_t get_signed(const uint8_t*& from) {
  const uint64_t n = get(from);
  return static_cast<int64_t>(n >> 1 ^ (~(n & 1) + 1));
}

}  // namespace

void Step::declare(const View& view, bool writes, size_t slack) {
  demand(view.rank >= 0 && view.rank <= kMaxRank, "a view has more axes than kMaxRank");
  const bool has_halo = (view.halo[0] | view.halo[1] | view.halo[2] | view.halo[3]) != 0;
  Writer to;
  to.put((writes ? kWrites : 0) | (has_halo ? kHasHalo : 0));
  to.put(static_cast<uint64_t>(view.type));
  to.put(static_cast<uint64_t>(view.rank));
  to.put(view.low);
  to.put(uint64_t{255} - view.high);
  to.put(view.block);
  to.put(view.offset);
  to.put(slack);
  for (int i = 0; i < view.rank; ++i) {
    to.put_signed(view.sizes[static_cast<size_t>(i)]);
    to.put_signed(view.strides[static_cast<size_t>(i)]);
  }
  for (size_t i = 0; has_halo && i < view.halo.size(); ++i) to.put_signed(view.halo[i]);
  if (accesses_.empty()) accesses_.reserve(56);  // three matrices
  accesses_.insert(accesses_.end(), to.begin(), to.end());
}

Access Step::read_access(size_t& at) const {
  const uint8_t* from = accesses_.data() + at;
  const uint64_t flags = get(from);
  Access access{{}, (flags & kWrites) != 0, 0};
  View& view = access.view;
  view.type = static_cast<Type>(get(from));
  view.rank = static_cast<int>(get(from));
  view.low = static_cast<uint8_t>(get(from));
  view.high = static_cast<uint8_t>(255 - get(from));
  view.block = static_cast<uint32_t>(get(from));
  view.offset = get(from);
  access.slack = get(from);
  for (int i = 0; i < view.rank; ++i) {
    view.sizes[static_cast<size_t>(i)] = get_signed(from);
    view.strides[static_cast<size_t>(i)] = get_signed(from);
  }
  for (size_t i = 0; (flags & kHasHalo) != 0 && i < view.halo.size(); ++i) view.halo[i] = get_signed(from);
  at = static_cast<size_t>(from - accesses_.data());
  return access;
}

}  // namespace intact
