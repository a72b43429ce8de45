#include "runtime/program.h"

#include <algorithm>

#include "base/check.h"

namespace intact {
namespace {

// Offsets within these bounds do not overflow 64 bits, and no machine has more memory.
constexpr int64_t kMost = int64_t{1} << 46;

// The offsets, relative to element 0, of the first byte of a view and of the one behind its last.
struct Range {
  int64_t first = 0, last = 0;

  // `from` and `to` are the first and last index along an axis.
  void extend(int64_t from, int64_t to, int64_t stride) {
    if (stride > kMost || stride < -kMost) refuse("a view's stride is too large");
    const int64_t far = stride == 0 ? kMost : kMost / (stride < 0 ? -stride : stride);
    if (from < -far || to > far) refuse("a view reaches too far");
    const int64_t a = from * stride, b = to * stride;
    first += a < b ? a : b;
    last += a < b ? b : a;
    if (first < -kMost || last > kMost) refuse("a view reaches too far");
  }
};

// The indices along one axis that a step may touch, from `first` on and before `end`. Halos count pixels
// above, left of, below and right of an image whose axes 1 and 2 are rows and columns.
struct Indices {
  int64_t first, end;
};

Indices indices_of(const View& v, int axis) {
  const bool image = v.rank == 4 && (axis == 1 || axis == 2);
  const int64_t before = image ? v.halo[axis - 1] : 0, after = image ? v.halo[axis + 1] : 0;
  if (v.sizes[axis] > kMost || before > kMost || after > kMost) refuse("a view is too large");
  return {-before, v.sizes[axis] + after};
}

// An image without pixels may have a halo, which is read.
bool is_empty(const View& v) {
  for (int i = 0; i < v.rank; ++i) {
    const Indices indices = indices_of(v, i);
    if (indices.first == indices.end) return true;
  }
  return false;
}

Range range_of(const View& v) {
  Range r;
  for (int i = 0; i < v.rank; ++i) {
    const Indices indices = indices_of(v, i);
    r.extend(indices.first, indices.end - 1, v.strides[i]);
  }
  r.last += static_cast<int64_t>(bytes_of(v.type));
  return r;
}

void check_form(const View& v) {
  if (v.rank < 0 || v.rank > kMaxRank) refuse("a view has more axes than kMaxRank");
  const auto unit = static_cast<int64_t>(bytes_of(v.type));
  for (int i = 0; i < v.rank; ++i) {
    if (v.sizes[i] < 0) refuse("a view has a negative size");
    if (v.strides[i] % unit != 0) refuse("a view's stride is no multiple of its element");
  }
  for (const int64_t h : v.halo) {
    if (h < 0) refuse("a view has a negative halo");
    if (h > 0 && v.rank != 4) refuse("only an image (n, h, w, c) has a halo");
  }
  if (v.offset % static_cast<size_t>(unit) != 0) refuse("a view's offset is no multiple of its element");
}

}  // namespace

void Program::arena(size_t bytes) {
  if (!steps_.empty()) refuse("the arena's size is given before the first step");
  if (bytes > static_cast<size_t>(kMost)) refuse("the arena is too large");
  blocks_[0].bytes = bytes;
}

void Program::tensor(size_t offset, size_t bytes) {
  if (offset > static_cast<size_t>(kMost) || bytes > static_cast<size_t>(kMost))
    refuse("a tensor is too large");
  const auto begin = static_cast<int64_t>(offset);
  intervals_.push_back({begin, begin + static_cast<int64_t>(bytes)});
  is_sorted_ = false;
}

uint32_t Program::constant(const void* data, size_t bytes) {
  return block({BlockKind::constant, bytes, static_cast<const uint8_t*>(data), 1});
}

uint32_t Program::block(const Block& b) {
  if (b.bytes > static_cast<size_t>(kMost)) refuse("a block is too large");
  blocks_.push_back(b);
  return static_cast<uint32_t>(blocks_.size() - 1);
}

uint32_t Program::window(Window::Of of, uint32_t parent, size_t offset, size_t bytes, size_t stride,
                         size_t count) {
  if (parent >= blocks_.size()) refuse("a window on a block that does not exist");
  const Block whole = blocks_[parent];
  if (window_of(parent) != nullptr) refuse("a window on a window");
  if (count < 1 || count > static_cast<size_t>(kMost)) refuse("a window is on one part or more");
  if (bytes > static_cast<size_t>(kMost) || (count > 1 && stride > bytes / (count - 1))) {
    refuse("a window leaves its tensor");
  }
  const uint32_t made = block({whole.kind, bytes - stride * (count - 1), nullptr, 1});
  windows_.push_back({of, made, parent, offset, bytes, stride, count});
  return made;
}

void Program::repeat(size_t times) {
  if (times < 1) refuse("steps are run at least once");
  times_ = times;
  opens_ = times > 1;
}

void Program::add(std::shared_ptr<const Step> step) {
  if (step == nullptr) refuse("no step");
  bool is_declared = false;
  step->each_access([&](const Access& access) {
    check(access);
    is_declared = true;
  });
  if (!is_declared) refuse("a step that declares no view");
  const size_t scratch = (step->scratch() + 63) / 64 * 64;
  if (scratch > scratch_) scratch_ = scratch;
  const Weights weights = step->weights();
  for (size_t i = ahead_.size(); weights.bytes > 0 && i > 0 && ahead_[i - 1].bytes == 0; --i) {
    ahead_[i - 1] = weights;
  }
  ahead_.emplace_back();
  if (opens_) repeats_.push_back({steps_.size(), 0, times_});
  opens_ = false;
  steps_.push_back(std::move(step));
  if (times_ > 1) repeats_.back().end = steps_.size();
}

void Program::check(const Access& access) {
  const View& v = access.view;
  check_form(v);
  if (v.block >= blocks_.size()) refuse("a view names a block that does not exist");
  Block& b = blocks_[v.block];
  if (access.writes && (b.kind == BlockKind::constant || b.kind == BlockKind::input)) {
    refuse("a step writes into an input or a constant");
  }
  if (access.writes && times_ > 1 && window_of(v.block) == nullptr)
    refuse("a step overwrites what it made before");
  if (is_empty(v)) return;
  const Range r = range_of(v);
  // Element 0 of an image that is only halo may be outside the bytes that are touched.
  if (v.offset > static_cast<size_t>(kMost)) refuse("a view leaves its block");
  const auto offset = static_cast<int64_t>(v.offset), bytes = static_cast<int64_t>(b.bytes);
  const int64_t room = bytes + static_cast<int64_t>(b.kind == BlockKind::arena ? kSlack : 0);
  if (offset + r.first < 0 || offset + r.last > bytes) refuse("a view leaves its block");
  if (v.block == 0) check_tensor(offset + r.first, offset + r.last);
  if (access.slack > static_cast<size_t>(room - offset - r.last)) refuse("a step reads behind its block");
  const size_t unit = bytes_of(v.type);
  if (b.alignment < unit) b.alignment = unit;
  if (const Window* window = window_of(v.block)) check_window(*window, unit);
  if (b.data != nullptr && reinterpret_cast<uintptr_t>(b.data) % unit != 0) {
    refuse("a constant does not lie at a multiple of its element");
  }
}

// A view lies in a tensor if the farthest end of those that begin before it is behind it.
void Program::check_tensor(int64_t first, int64_t last) {
  if (intervals_.empty()) return;
  if (!is_sorted_) {
    std::sort(intervals_.begin(), intervals_.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    int64_t farthest = 0;
    for (Interval& interval : intervals_) interval.end = farthest = std::max(farthest, interval.end);
    is_sorted_ = true;
  }
  const auto behind =
      std::upper_bound(intervals_.begin(), intervals_.end(), first,
                       [](int64_t at, const Interval& interval) { return at < interval.begin; });
  if (behind == intervals_.begin() || behind[-1].end < last) refuse("a view leaves its tensor");
}

// The arena must have its size by now.
void Program::check_window(const Window& window, size_t unit) {
  if (times_ == 1) refuse("a window is named by steps that are repeated");
  if (window.of == Window::Of::time && window.count != times_) refuse("a window has a part for each time");
  Block& parent = blocks_[window.parent];
  if (window.bytes > parent.bytes || window.offset > parent.bytes - window.bytes)
    refuse("a window leaves its block");
  if (window.parent == 0) {
    check_tensor(static_cast<int64_t>(window.offset), static_cast<int64_t>(window.offset + window.bytes));
  }
  if (window.offset % unit != 0 || window.stride % unit != 0)
    refuse("a window's stride is no multiple of its element");
  if (parent.alignment < unit) parent.alignment = unit;
}

const Repeat* Program::repeat_from(size_t step) const {
  const auto is = [&](const Repeat& repeat) { return repeat.begin == step; };
  const auto found = std::find_if(repeats_.begin(), repeats_.end(), is);
  return found == repeats_.end() ? nullptr : &*found;
}

const Window* Program::window_of(size_t block) const {
  const auto is = [&](const Window& window) { return window.block == block; };
  const auto found = std::find_if(windows_.begin(), windows_.end(), is);
  return found == windows_.end() ? nullptr : &*found;
}

}  // namespace intact
