#include "steps/elementwise.h"

#include <cstring>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/common/chunks.h"

namespace intact {
namespace {

using namespace tuning::moves;

// Copies n elements of kUnit bytes between a strided and a dense row.
template <size_t kUnit>
void gather(const uint8_t* x, int64_t stride, size_t n, uint8_t* y) {
  for (size_t i = 0; i < n; ++i) std::memcpy(y + i * kUnit, x + static_cast<int64_t>(i) * stride, kUnit);
}
template <size_t kUnit>
void scatter(const uint8_t* x, size_t n, uint8_t* y, int64_t stride) {
  for (size_t i = 0; i < n; ++i) std::memcpy(y + static_cast<int64_t>(i) * stride, x + i * kUnit, kUnit);
}

template <size_t kViews>
class Elementwise final : public Chunks<kViews> {
  static constexpr size_t kOperands = kViews - 1;

 public:
  Elementwise(const ElementwiseOps& ops, ElementwiseOperation operation,
              const std::array<View, kViews>& views)
      : Chunks<kViews>(views, kChunk), ops_(ops), views_(views) {
    // Operands with stride 0 have one element for the whole row.
    unsigned moves = 0;
    for (size_t v = 0; v < kOperands; ++v) moves |= (this->stride(v) != 0 ? 1u : 0u) << v;
    row_ = ops.find(operation, views[kOperands - 1].type, views[kOperands].type, moves);
    demand(row_ != nullptr, "there is no such operation on these types");
    if (kOperands == 3) demand(views[0].type == Type::b8, "what chooses is bool");
    for (size_t v = kOperands == 3; v < kOperands; ++v) {
      demand(views[v].type == views[kOperands - 1].type, "operands differ in their types");
    }
  }

  size_t scratch() const override { return kViews * kChunk * 8; }
  std::string name() const override { return name_of(&ops_); }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    this->each(begin, end, [&](const auto& at, size_t n) {
      const void* xs[kOperands];
      for (size_t v = 0; v < kOperands; ++v) {
        const uint8_t* const x = views_[v].template at<uint8_t>(memory) + at[v];
        xs[v] = lined_up(v, n) ? x : gathered(v, x, n, scratch + v * kChunk * 8);
      }
      uint8_t* const y = views_[kOperands].template at<uint8_t>(memory) + at[kOperands];
      const bool direct = lined_up(kOperands, n);
      uint8_t* const to = direct ? y : scratch + kOperands * kChunk * 8;
      row_(xs, n, to);
      if (!direct) scattered(to, n, y);
    });
  }

 private:
  bool lined_up(size_t v, size_t n) const {
    const int64_t stride = this->stride(v);
    const bool one_for_all = stride == 0 && kOperands > 1 && v < kOperands;
    return n < 2 || one_for_all || stride == static_cast<int64_t>(bytes_of(views_[v].type));
  }

  const uint8_t* gathered(size_t v, const uint8_t* x, size_t n, uint8_t* to) const {
    switch (bytes_of(views_[v].type)) {
      case 1: gather<1>(x, this->stride(v), n, to); break;
      case 2: gather<2>(x, this->stride(v), n, to); break;
      case 4: gather<4>(x, this->stride(v), n, to); break;
      default: gather<8>(x, this->stride(v), n, to);
    }
    return to;
  }

  void scattered(const uint8_t* from, size_t n, uint8_t* y) const {
    const int64_t stride = this->stride(kOperands);
    switch (bytes_of(views_[kOperands].type)) {
      case 1: return scatter<1>(from, n, y, stride);
      case 2: return scatter<2>(from, n, y, stride);
      case 4: return scatter<4>(from, n, y, stride);
      default: return scatter<8>(from, n, y, stride);
    }
  }

  const ElementwiseOps& ops_;
  std::array<View, kViews> views_;
  ElementwiseRow row_;
};

}  // namespace

std::unique_ptr<Step> make_elementwise(const ElementwiseOps& ops, const ElementwiseSpec& s) {
  const NamedElementwise* const named = find_elementwise(s.operation.c_str());
  demand(named != nullptr, "no operation has this name");
  demand(s.xs.size() == named->operands, "an operation has as many operands as it has");
  const auto& x = s.xs;
  const auto make = [&]<size_t kViews>(const std::array<View, kViews>& views) -> std::unique_ptr<Step> {
    return std::make_unique<Elementwise<kViews>>(ops, named->operation, views);
  };
  if (named->operands == 1) return make(std::array{x[0], s.y});
  if (named->operands == 2) return make(std::array{x[0], x[1], s.y});
  return make(std::array{x[0], x[1], x[2], s.y});
}

}  // namespace intact
