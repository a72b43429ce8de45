#include "runtime/checked.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(from, bytes) (static_cast<void>(from), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(from, bytes) (static_cast<void>(from), static_cast<void>(bytes))
#endif

namespace intact {
namespace {

enum Mark : uint8_t { kRead = 1, kWritten = 2, kSlackRead = 4 };
constexpr uint8_t kDeclared = kRead | kWritten;
constexpr uint8_t kFills[] = {0, 255};

// visit(offset from the block's start) for every element of a view, its halo included.
template <class Visit>
void each_element(const View& v, int axis, int64_t offset, const Visit& visit) {
  if (axis == v.rank) return visit(static_cast<size_t>(offset));
  const bool image = v.rank == 4 && (axis == 1 || axis == 2);
  const int64_t before = image ? v.halo[static_cast<size_t>(axis - 1)] : 0;
  const int64_t behind = image ? v.halo[static_cast<size_t>(axis + 1)] : 0;
  const auto at = static_cast<size_t>(axis);
  for (int64_t i = -before; i < v.sizes[at] + behind; ++i) {
    each_element(v, axis + 1, offset + i * v.strides[at], visit);
  }
}

template <class Visit>
void each_element(const View& v, const Visit& visit) {
  each_element(v, 0, static_cast<int64_t>(v.offset), visit);
}

}  // namespace

void Checker::fail(const char* what) const {
  const std::string name = program_.steps()[step_]->name();
  throw std::logic_error("step " + std::to_string(step_) + " (" + name + ") " + what);
}

Checker::Region Checker::region_of(uint32_t block) const {
  const Block& b = program_.blocks()[block];
  const bool kept = b.kind == BlockKind::arena || b.kind == BlockKind::output;
  const bool writable = kept && program_.window_of(block) == nullptr;  // its bytes are those of its parent
  const size_t slack = b.kind == BlockKind::arena ? kSlack : 0;
  const size_t bytes = writable && blocks_[block] != nullptr ? b.bytes + slack : 0;
  Region region{blocks_[block], {}, std::vector<uint8_t>(bytes, 0)};
  region.before.assign(region.data, region.data + bytes);
  return region;
}

void Checker::mark(const Access& access) {
  const View& v = access.view;
  const Window* const window = program_.window_of(v.block);
  const uint32_t whole = window == nullptr ? v.block : window->parent;
  std::vector<uint8_t>& marks = regions_[whole].marks;
  if (marks.empty()) return;  // an input or a constant: nobody writes there
  const auto moved = static_cast<size_t>(blocks_[v.block] - blocks_[whole]);
  const size_t unit = bytes_of(v.type);
  each_element(v, [&](size_t from) {
    const size_t offset = moved + from;
    for (size_t i = 0; i < unit; ++i) marks[offset + i] |= access.writes ? kWritten : kRead;
    const size_t end = std::min(offset + unit + access.slack, marks.size());  // pixels may lie apart
    for (size_t i = offset + unit; i < end; ++i) marks[i] |= kSlackRead;
  });
}

void Checker::check_bytes(const View& v) const {
  if (v.type != Type::u8 || (v.low == 0 && v.high == 255)) return;
  const uint8_t* const data = blocks_[v.block];
  bool within = true;
  each_element(v, [&](size_t offset) { within = within && v.low <= data[offset] && data[offset] <= v.high; });
  if (!within) fail("reads a byte that its tensor cannot hold");
}

// The memory as it was for what is declared, and `fill` everywhere else.
void Checker::prepare(uint8_t fill) {
  for (Region& r : regions_) {
    for (size_t i = 0; i < r.marks.size(); ++i) r.data[i] = (r.marks[i] & kDeclared) ? r.before[i] : fill;
  }
  if (scratch_bytes_ > 0) std::memset(scratch_, fill, scratch_bytes_);
}

void Checker::check_untouched(uint8_t fill) const {
  for (const Region& r : regions_) {
    for (size_t i = 0; i < r.marks.size(); ++i) {
      if (r.marks[i] & kWritten) continue;
      if (r.data[i] != ((r.marks[i] & kRead) ? r.before[i] : fill)) fail("writes what it does not declare");
    }
  }
}

void Checker::poison(bool on) const {
  for (const Region& r : regions_) {
    if (r.marks.empty()) continue;
    ASAN_UNPOISON_MEMORY_REGION(r.data, r.marks.size());
    for (size_t i = 0, end = 0; on && i < r.marks.size(); i = end + 1) {
      for (end = i; end < r.marks.size() && r.marks[end] == 0;) ++end;
      if (end > i) ASAN_POISON_MEMORY_REGION(r.data + i, end - i);
    }
  }
}

void Checker::run(size_t step, uint8_t* const* blocks, const std::function<void()>& run) {
  step_ = step;
  blocks_ = blocks;
  regions_.clear();
  for (uint32_t b = 0; b < program_.blocks().size(); ++b) regions_.push_back(region_of(b));
  program_.steps()[step]->each_access([&](const Access& access) {
    mark(access);
    if (!access.writes) check_bytes(access.view);
  });
  std::vector<std::vector<uint8_t>> first;
  for (const uint8_t fill : kFills) {
    prepare(fill);
    poison(true);
    run();
    poison(false);
    check_untouched(fill);
    for (size_t b = 0; b < regions_.size(); ++b) {
      const Region& r = regions_[b];
      if (fill == kFills[0]) first.emplace_back(r.data, r.data + r.marks.size());
      for (size_t i = 0; fill != kFills[0] && i < r.marks.size(); ++i) {
        if ((r.marks[i] & kWritten) && r.data[i] != first[b][i]) fail("depends on what it does not declare");
      }
    }
  }
  for (Region& r : regions_) {
    for (size_t i = 0; i < r.marks.size(); ++i) {
      if (!(r.marks[i] & kWritten)) r.data[i] = r.before[i];
    }
  }
}

}  // namespace intact
