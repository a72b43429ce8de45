#include "steps/rotary.h"

#include <cstring>

#include "base/tuning.h"
#include "steps/common/sequences.h"

namespace intact {
namespace {

class Rotary final : public Step {
 public:
  explicit Rotary(const RotarySpec& s) : s_(s), sequences_(s.last, s.x.sizes[0]) {
    for (const View* v : {&s.x, &s.y, &s.cosines, &s.sines}) {
      demand_rows(*v);
      demand(v->type == Type::f32, "rotations are of float32");
    }
    demand_same_sizes(s.x, s.y);
    demand_same_sizes(s.cosines, s.sines);
    demand(s.heads > 0 && s.x.sizes[1] % s.heads == 0, "heads of one size");
    size_ = s.x.sizes[1] / s.heads;
    pairs_ = s.cosines.sizes[1];
    demand(2 * pairs_ <= size_, "heads are as long as their pairs");
    each_ = std::max<int64_t>(
        1, static_cast<int64_t>(tuning::tensors::kGrain) / std::max<int64_t>(1, s.x.sizes[1]));
    reads(s.x);
    reads(s.last);
    reads(s.cosines);
    reads(s.sines);
    writes(s.y);
  }

  std::string name() const override { return "rotary"; }
  size_t items() const override {
    return s_.x.sizes[1] == 0 ? 0 : static_cast<size_t>((s_.x.sizes[0] + each_ - 1) / each_);
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t*) const noexcept override {
    const int64_t last = std::min(static_cast<int64_t>(end) * each_, s_.x.sizes[0]),
                  tokens = sequences_.tokens();
    for (int64_t row = static_cast<int64_t>(begin) * each_; row < last; ++row) {
      int64_t position = sequences_.before(memory, row / tokens, s_.cosines.sizes[0]) + row % tokens;
      if (position >= s_.cosines.sizes[0]) {
        memory.fail();
        return;
      }
      const float* const c = row_of<const float>(s_.cosines, memory, position);
      const float* const s = row_of<const float>(s_.sines, memory, position);
      const float* x = row_of<const float>(s_.x, memory, row);
      float* y = row_of<float>(s_.y, memory, row);
      for (int64_t head = 0; head < s_.heads; ++head, x += size_, y += size_) {
        if (s_.interleaved) {
          turn_neighbours(x, c, s, y);
        } else {
          turn_halves(x, c, s, y);
        }
        if (size_ > 2 * pairs_)
          std::memcpy(y + 2 * pairs_, x + 2 * pairs_,
                      static_cast<size_t>(size_ - 2 * pairs_) * sizeof(float));
      }
    }
  }

 private:
  void turn_halves(const float* __restrict x, const float* __restrict c, const float* __restrict s,
                   float* __restrict y) const {
    for (int64_t i = 0; i < pairs_; ++i) {
      const float a = x[i], b = x[i + pairs_];
      y[i] = a * c[i] - b * s[i];
      y[i + pairs_] = a * s[i] + b * c[i];
    }
  }
  void turn_neighbours(const float* __restrict x, const float* __restrict c, const float* __restrict s,
                       float* __restrict y) const {
    for (int64_t i = 0; i < pairs_; ++i) {
      const float a = x[2 * i], b = x[2 * i + 1];
      y[2 * i] = a * c[i] - b * s[i];
      y[2 * i + 1] = a * s[i] + b * c[i];
    }
  }

  RotarySpec s_;
  Sequences sequences_;
  int64_t size_, pairs_, each_;
};

}  // namespace

std::unique_ptr<Step> make_rotary(const RotarySpec& spec) { return std::make_unique<Rotary>(spec); }

}  // namespace intact
