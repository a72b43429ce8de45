#include "steps/softmax.h"

#include "steps/common/norm_step.h"

namespace intact {
namespace {

class Softmax final : public NormStep {
 public:
  Softmax(const FloatOps& ops, const TransposeOps& turn, const SoftmaxSpec& s)
      : NormStep(ops, turn, {s.x, s.mask, s.y, std::nullopt, std::nullopt}), gain_(s.gain) {}

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    each(
        memory, begin, end, scratch,
        [&](float* x, const float* mask) { return softmax(ops_, x, n_, gain_, mask); },
        [&](float* x, size_t rows, const float* mask) { ops_.softmax_columns(x, n_, rows, gain_, mask); });
  }

 private:
  float gain_;
};

}  // namespace

std::unique_ptr<Step> make_softmax(const FloatOps& ops, const TransposeOps& turn, const SoftmaxSpec& spec) {
  return std::make_unique<Softmax>(ops, turn, spec);
}

}  // namespace intact
