#include "steps/causal_conv.h"

#include <algorithm>
#include <cstring>

#include "kernels/registry.h"
#include "steps/common/row_index.h"
#include "steps/common/views.h"

namespace intact {
namespace {

constexpr size_t kColumns = 1024;  // of an item: its weights stay in the first cache
constexpr size_t kTokens = 64;  // whose addresses are passed at once

// One item is some columns of a sequence, which no other column reads, through all tokens.
class CausalConv final : public Step {
 public:
  CausalConv(const FloatGemmOps& ops, const CausalConvSpec& s) : ops_(ops), s_(s) {
    for (const View* v : {&s.x, &s.y, &s.state, &s.weight}) demand_floats(*v);
    if (s.past) demand_floats(*s.past);
    demand(0 <= s.sequences && s.sequences < (int64_t{1} << 24), "too many sequences");
    const int64_t rows = s.x.sizes[0], columns = s.x.sizes[1], taps = s.weight.sizes[0];
    demand(0 < taps && taps <= (1 << 16) && columns < (int64_t{1} << 30), "taps or columns are out of range");
    demand(s.weight.sizes[1] == columns, "a weight for each column");
    demand(s.y.sizes[0] == rows && s.y.sizes[1] == columns, "x and y have one shape");
    demand(s.sequences > 0 ? rows % s.sequences == 0 : rows == 0, "as many tokens for each sequence");
    for (const View* v : {&s.state, s.past ? &*s.past : &s.state})
      demand(v->sizes[0] == s.sequences * (taps - 1) && v->sizes[1] == columns, "states of taps - 1 tokens");
    if (s.bias) demand_vector(*s.bias, Type::f32, static_cast<size_t>(columns), "a bias for each column");
    tokens_ = s.sequences > 0 ? static_cast<size_t>(rows / s.sequences) : 0;
    kept_ = static_cast<size_t>(taps - 1);
    columns_ = static_cast<size_t>(columns);
    blocks_ = (columns_ + kColumns - 1) / kColumns;
    reads(s.x);
    reads(s.weight);
    if (s.past) reads(*s.past);
    if (s.bias) reads(*s.bias);
    writes(s.y);
    writes(s.state);
  }

  std::string name() const override { return name_of(&ops_); }
  size_t items() const override { return static_cast<size_t>(s_.sequences) * blocks_; }
  size_t scratch() const override {
    return align64((kept_ + 1) * sizeof(ptrdiff_t)) +
           (3 * kept_ + 1) * align64(kColumns * sizeof(float));  // weights, and tokens on both sides
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    for (size_t item = begin; item < end; ++item) {
      const size_t first = item % blocks_ * kColumns;
      walk(memory, {item / blocks_, first, std::min(kColumns, columns_ - first)}, scratch);
    }
  }

 private:
  struct Part {
    size_t sequence, first, count;  // columns
  };
  struct Work {
    ptrdiff_t* offsets;
    float *weights, *joined;
  };

  static void demand_floats(const View& v) {
    demand_rows(v);
    demand(v.type == Type::f32, "a convolution over tokens is of float32");
    demand(v.strides[0] % 4 == 0 && v.offset % 4 == 0, "float32 lies at multiples of 4");
  }

  const float* token(const Memory& memory, const Part& part, size_t t) const {
    const auto row = static_cast<int64_t>(part.sequence * tokens_ + t);
    return row_of<const float>(s_.x, memory, row) + part.first;
  }
  // A token before the new ones; nullptr where that is 0.
  const float* kept(const Memory& memory, const Part& part, size_t t) const {
    if (!s_.past) return nullptr;
    const auto row = static_cast<int64_t>(part.sequence * kept_ + t);
    return row_of<const float>(*s_.past, memory, row) + part.first;
  }

  void walk(const Memory& memory, const Part& part, uint8_t* scratch) const {
    Work work{};
    work.offsets = reinterpret_cast<ptrdiff_t*>(scratch);
    scratch += align64((kept_ + 1) * sizeof(ptrdiff_t));
    work.weights = reinterpret_cast<float*>(scratch);
    work.joined = work.weights + (kept_ + 1) * part.count;
    for (size_t tap = 0; tap <= kept_; ++tap) {
      const auto row = static_cast<int64_t>(tap);
      const float* const from = row_of<const float>(s_.weight, memory, row) + part.first;
      std::memcpy(work.weights + tap * part.count, from, part.count * sizeof(float));
    }
    const size_t early = std::min(kept_, tokens_);
    join(memory, part, early, work.joined);
    set_offsets(work, static_cast<ptrdiff_t>(part.count));
    sum(memory, part, work, 0, early, [&](size_t t) { return work.joined + t * part.count; });
    set_offsets(work, static_cast<ptrdiff_t>(s_.x.strides[0]) / 4);
    sum(memory, part, work, early, tokens_, [&](size_t t) { return token(memory, part, t - kept_); });
    keep(memory, part);
  }

  // The tokens before the new ones, and the first of these behind them.
  void join(const Memory& memory, const Part& part, size_t early, float* joined) const {
    for (size_t t = 0; t < kept_ + early; ++t, joined += part.count) {
      const float* const from = t < kept_ ? kept(memory, part, t) : token(memory, part, t - kept_);
      if (from != nullptr) {
        std::memcpy(joined, from, part.count * sizeof(float));
      } else {
        std::fill_n(joined, part.count, 0.0f);
      }
    }
  }

  void set_offsets(const Work& work, ptrdiff_t down) const {
    for (size_t tap = 0; tap <= kept_; ++tap) work.offsets[tap] = static_cast<ptrdiff_t>(tap) * down;
  }

  // Tokens [begin, end), the first of whose taps lies at `at(token)`.
  template <class At>
  void sum(const Memory& memory, const Part& part, const Work& work, size_t begin, size_t end,
           const At& at) const {
    const float* x[kTokens];
    float* y[kTokens];
    const float* const start = s_.bias ? s_.bias->at<const float>(memory) + part.first : nullptr;
    while (begin < end) {
      const size_t count = std::min(kTokens, end - begin);
      for (size_t i = 0; i < count; ++i) {
        x[i] = at(begin + i);
        const auto row = static_cast<int64_t>(part.sequence * tokens_ + begin + i);
        y[i] = row_of<float>(s_.y, memory, row) + part.first;
      }
      ops_.depthwise({x, work.offsets, kept_ + 1, work.weights, start, y, count, part.count});
      begin += count;
    }
  }

  // The last tokens become the state, the earliest one first: each lies in front of where it was.
  void keep(const Memory& memory, const Part& part) const {
    for (size_t t = 0; t < kept_; ++t) {
      const size_t place = tokens_ + t;
      const float* const from =
          place < kept_ ? kept(memory, part, place) : token(memory, part, place - kept_);
      const auto row = static_cast<int64_t>(part.sequence * kept_ + t);
      float* const to = row_of<float>(s_.state, memory, row) + part.first;
      if (from != nullptr) {
        std::memmove(to, from, part.count * sizeof(float));
      } else {
        std::fill_n(to, part.count, 0.0f);
      }
    }
  }

  const FloatGemmOps& ops_;
  CausalConvSpec s_;
  size_t tokens_ = 0, kept_ = 0, columns_ = 0, blocks_ = 0;
};

}  // namespace

std::unique_ptr<Step> make_causal_conv(const FloatGemmOps& ops, const CausalConvSpec& spec) {
  return std::make_unique<CausalConv>(ops, spec);
}

}  // namespace intact
