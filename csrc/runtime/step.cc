#include "runtime/step.h"

#include <algorithm>

#include "base/check.h"

namespace intact {
namespace {

// The first number of an access, from its lowest byte on: type, rank, ends of bytes, and the block.
constexpr int kRank = 8, kLow = 16, kHigh = 24, kBlock = 32;
constexpr int64_t kWrites = 1, kHasHalo = 2;  // in the second one, below the slack
constexpr int kSlackAbove = 2;

constexpr int64_t byte_at(int64_t number, int place) { return number >> place & 255; }

}  // namespace

void Step::declare(const View& view, bool writes, size_t slack) {
  demand(view.rank >= 0 && view.rank <= kMaxRank, "a view has more axes than kMaxRank");
  const bool has_halo = view.halo != decltype(view.halo){};
  accesses_.reserve(24);  // three matrices
  accesses_.push_back(static_cast<int64_t>(view.type) | int64_t{view.rank} << kRank | int64_t{view.low} << kLow |
                      int64_t{view.high} << kHigh | static_cast<int64_t>(uint64_t{view.block} << kBlock));
  accesses_.push_back((writes ? kWrites : 0) | (has_halo ? kHasHalo : 0) |
                      static_cast<int64_t>(slack << kSlackAbove));
  accesses_.push_back(static_cast<int64_t>(view.offset));
  for (const auto* numbers : {&view.sizes, &view.strides}) {
    accesses_.insert(accesses_.end(), numbers->begin(), numbers->begin() + view.rank);
  }
  if (has_halo) accesses_.insert(accesses_.end(), view.halo.begin(), view.halo.end());
}

Access Step::read_access(size_t& at) const {
  const int64_t* from = accesses_.data() + at;
  const int64_t form = *from++, flags = *from++;
  Access access{{}, (flags & kWrites) != 0, static_cast<size_t>(flags) >> kSlackAbove};
  View& view = access.view;
  view.type = static_cast<Type>(byte_at(form, 0));
  view.rank = static_cast<int>(byte_at(form, kRank));
  view.low = static_cast<uint8_t>(byte_at(form, kLow));
  view.high = static_cast<uint8_t>(byte_at(form, kHigh));
  view.block = static_cast<uint32_t>(static_cast<uint64_t>(form) >> kBlock);
  view.offset = static_cast<size_t>(*from++);
  for (auto* numbers : {&view.sizes, &view.strides}) {
    std::copy_n(from, view.rank, numbers->begin());
    from += view.rank;
  }
  if ((flags & kHasHalo) != 0) {
    std::copy_n(from, view.halo.size(), view.halo.begin());
    from += view.halo.size();
  }
  at = static_cast<size_t>(from - accesses_.data());
  return access;
}

}  // namespace intact
