#include "steps/dynamic_quantize.h"

#include <algorithm>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/row_index.h"
#include "steps/common/whole_range.h"

namespace intact {
namespace {

void demand_spec(const DynamicQuantizeSpec& s) {
  demand_rows(s.x);
  demand_rows(s.codes);
  demand_same_sizes(s.x, s.codes);
  demand(s.x.type == Type::f32 && s.scales.type == Type::f32, "a range of floats has a float for scale");
  demand(s.codes.type == (s.zeros ? Type::u8 : Type::i8), "codes are int8, or uint8 with zero points");
  demand(s.block >= 0, "a block has elements");
  if (s.parts) {
    demand_rows(*s.parts);
    demand(s.block == 0 && s.x.sizes[1] > 0 && s.parts->type == Type::f32, "ends of parts of one range");
    demand(s.parts->sizes[0] == range_parts(s.x) && s.parts->sizes[1] == 2, "two ends of each part");
  }
  const int64_t size = s.block == 0 ? 1 : s.x.sizes[1], block = std::max<int64_t>(1, s.block);
  const int64_t rows = s.block == 0 ? 1 : s.x.sizes[0], blocks = size / block + (size % block != 0 ? 1 : 0);
  for (const View* v : {&s.scales, s.zeros ? &*s.zeros : &s.scales}) {
    demand_rows(*v);
    demand(v->sizes[0] == rows && v->sizes[1] == blocks, "there is a scale for each block");
  }
  if (s.zeros) demand(s.zeros->type == Type::u8, "zero points are uint8");
}

// Rows of a part of x of which about `grain` elements are worth a thread.
int64_t rows_each(const View& x, size_t grain) {
  return std::max<int64_t>(1, static_cast<int64_t>(grain) / std::max<int64_t>(1, x.sizes[1]));
}

int64_t rows_of_part(const View& x) {
  constexpr int64_t kMost = 64;  // parts: each thread merges all of them
  return std::max(rows_each(x, tuning::tensors::kGrain), (x.sizes[0] + kMost - 1) / kMost);
}

// The ends of rows from `begin` on.
WholeRange range_of(const ReduceOps& ops, const View& x, const Memory& memory, int64_t begin, int64_t end) {
  WholeRange range;
  for (int64_t row = begin; row < end; ++row) {
    range.add(ops, row_of<const float>(x, memory, row), static_cast<size_t>(x.sizes[1]));
  }
  return range;
}

class RangeParts final : public Step {
 public:
  RangeParts(const ReduceOps& ops, const DynamicQuantizeSpec& s)
      : ops_(ops), x_(s.x), parts_(*s.parts), each_(rows_of_part(s.x)) {
    demand_spec(s);
    reads(x_);
    writes(parts_);
  }
  std::string name() const override { return name_of(&ops_); }
  size_t items() const override { return static_cast<size_t>(parts_.sizes[0]); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    for (auto part = static_cast<int64_t>(begin); part < static_cast<int64_t>(end); ++part) {
      const int64_t last = std::min((part + 1) * each_, x_.sizes[0]);
      const WholeRange range = range_of(ops_, x_, memory, part * each_, last);
      auto* const ends = row_of<float>(parts_, memory, part);
      ends[0] = range.low;
      ends[1] = range.high;
    }
  }

 private:
  const ReduceOps& ops_;
  View x_, parts_;
  int64_t each_;
};

class DynamicRange final : public Step {
 public:
  DynamicRange(const ReduceOps& ops, const DynamicQuantizeSpec& s) : ops_(ops), s_(s) {
    demand_spec(s);
    demand(s.block == 0, "blocks have ranges of their own");
    reads(s.x);
    writes(s.scales);
    if (s.zeros) writes(*s.zeros);
  }
  std::string name() const override { return name_of(&ops_); }
  size_t items() const override { return 1; }

  void run(const Memory& memory, size_t, size_t, uint8_t*) const noexcept override {
    const WholeRange range = range_of(ops_, s_.x, memory, 0, s_.x.sizes[0]);
    const float scale = range.scale(s_.zeros.has_value());
    *s_.scales.at<float>(memory) = scale;
    if (s_.zeros) *s_.zeros->at<uint8_t>(memory) = uint8_zero(range.low, scale);
  }

 private:
  const ReduceOps& ops_;
  DynamicQuantizeSpec s_;
};

class DynamicQuantize final : public Step {
 public:
  DynamicQuantize(const DynamicQuantizeOps& ops, const DynamicQuantizeSpec& s) : ops_(ops), s_(s) {
    demand_spec(s);
    each_ = rows_each(s.x, tuning::tensors::kGrain);
    reads(s.x);
    if (s.parts) reads(*s.parts);
    writes(s.codes);
    if (s.block != 0 || s.parts) {
      writes(s.scales);
      if (s.zeros) writes(*s.zeros);
    } else {
      reads(s.scales);
      if (s.zeros) reads(*s.zeros);
    }
  }
  std::string name() const override { return name_of(&ops_); }
  size_t items() const override {
    return s_.x.sizes[1] == 0 ? 0 : static_cast<size_t>((s_.x.sizes[0] + each_ - 1) / each_);
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    const auto n = static_cast<size_t>(s_.x.sizes[1]), block = static_cast<size_t>(s_.block);
    const int64_t last = std::min(static_cast<int64_t>(end) * each_, s_.x.sizes[0]);
    if (s_.parts) return run_by_parts(memory, begin, last);
    for (int64_t row = static_cast<int64_t>(begin) * each_; row < last; ++row) {
      const float* const x = row_of<const float>(s_.x, memory, row);
      const auto scales = row_of<float>(s_.scales, memory, block == 0 ? 0 : row);
      if (s_.zeros) {
        const auto codes = row_of<uint8_t>(s_.codes, memory, row);
        const auto zeros = row_of<uint8_t>(*s_.zeros, memory, block == 0 ? 0 : row);
        block == 0 ? ops_.uint8_by(x, n, *scales, *zeros, codes)
                   : ops_.uint8(x, n, block, codes, scales, zeros);
      } else {
        const auto codes = row_of<int8_t>(s_.codes, memory, row);
        block == 0 ? ops_.int8_by(x, n, *scales, codes) : ops_.int8(x, n, block, codes, scales);
      }
    }
  }

 private:
  // Every thread works out the scale; the one with the first rows writes it.
  void run_by_parts(const Memory& memory, size_t begin, int64_t last) const {
    WholeRange range;
    for (int64_t part = 0; part < s_.parts->sizes[0]; ++part) {
      const auto* const ends = row_of<const float>(*s_.parts, memory, part);
      range.merge(ends[0], ends[1]);
    }
    const float scale = range.scale(s_.zeros.has_value());
    const uint8_t zero = s_.zeros ? uint8_zero(range.low, scale) : uint8_t{0};
    if (begin == 0) {
      *s_.scales.at<float>(memory) = scale;
      if (s_.zeros) *s_.zeros->at<uint8_t>(memory) = zero;
    }
    const auto n = static_cast<size_t>(s_.x.sizes[1]);
    for (int64_t row = static_cast<int64_t>(begin) * each_; row < last; ++row) {
      const float* const x = row_of<const float>(s_.x, memory, row);
      if (s_.zeros) {
        ops_.uint8_by(x, n, scale, zero, row_of<uint8_t>(s_.codes, memory, row));
      } else {
        ops_.int8_by(x, n, scale, row_of<int8_t>(s_.codes, memory, row));
      }
    }
  }

  const DynamicQuantizeOps& ops_;
  DynamicQuantizeSpec s_;
  int64_t each_;
};

}  // namespace

int64_t range_parts(const View& x) {
  const int64_t each = rows_of_part(x);
  return std::max<int64_t>(1, (x.sizes[0] + each - 1) / each);
}

std::unique_ptr<Step> make_dynamic_range(const ReduceOps& ops, const DynamicQuantizeSpec& spec) {
  if (spec.parts) return std::make_unique<RangeParts>(ops, spec);
  return std::make_unique<DynamicRange>(ops, spec);
}

std::unique_ptr<Step> make_dynamic_quantize(const DynamicQuantizeOps& ops, const DynamicQuantizeSpec& spec) {
  return std::make_unique<DynamicQuantize>(ops, spec);
}

}  // namespace intact
