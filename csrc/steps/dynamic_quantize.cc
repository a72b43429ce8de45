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
  const int64_t size = s.block == 0 ? 1 : s.x.sizes[1], block = std::max<int64_t>(1, s.block);
  const int64_t rows = s.block == 0 ? 1 : s.x.sizes[0], blocks = size / block + (size % block != 0 ? 1 : 0);
  for (const View* v : {&s.scales, s.zeros ? &*s.zeros : &s.scales}) {
    demand_rows(*v);
    demand(v->sizes[0] == rows && v->sizes[1] == blocks, "there is a scale for each block");
  }
  if (s.zeros) demand(s.zeros->type == Type::u8, "zero points are uint8");
}

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
    const auto columns = static_cast<size_t>(s_.x.sizes[1]);
    WholeRange range;
    for (int64_t row = 0; row < s_.x.sizes[0]; ++row) {
      range.add(ops_, row_of<const float>(s_.x, memory, row), columns);
    }
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
    each_ = std::max<int64_t>(
        1, static_cast<int64_t>(tuning::tensors::kGrain) / std::max<int64_t>(1, s.x.sizes[1]));
    reads(s.x);
    writes(s.codes);
    if (s.block != 0) {
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
  const DynamicQuantizeOps& ops_;
  DynamicQuantizeSpec s_;
  int64_t each_;
};

}  // namespace

std::unique_ptr<Step> make_dynamic_range(const ReduceOps& ops, const DynamicQuantizeSpec& spec) {
  return std::make_unique<DynamicRange>(ops, spec);
}

std::unique_ptr<Step> make_dynamic_quantize(const DynamicQuantizeOps& ops, const DynamicQuantizeSpec& spec) {
  return std::make_unique<DynamicQuantize>(ops, spec);
}

}  // namespace intact
