#include "steps/layer_norm.h"

#include "steps/common/norm_step.h"

namespace intact {
namespace {

class LayerNorm final : public NormStep {
 public:
  LayerNorm(const FloatOps& ops, const TransposeOps& turn, const LayerNormSpec& s)
      : NormStep(ops, turn, {s.x, s.residual, s.y, s.codes, s.factors}),
        weight_(s.weight),
        bias_(s.bias),
        epsilon_(s.epsilon) {
    for (const auto& parameter : {s.weight, s.bias}) {
      if (!parameter) continue;
      demand_vector(*parameter, Type::f32, n_, "weight and bias have one float32 for each element of a row");
      reads(*parameter);
    }
  }

  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override {
    const float* weight = weight_ ? weight_->at<float>(memory) : nullptr;
    const float* bias = bias_ ? bias_->at<float>(memory) : nullptr;
    each(
        memory, begin, end, scratch,
        [&](float* x, const float* residual) {
          ops_.layer_norm(x, n_, residual, weight, bias, epsilon_);
          return 1.0f;
        },
        [&](float* x, size_t rows, const float* residual) {
          ops_.layer_norm_columns(x, n_, rows, residual, weight, bias, epsilon_);
        });
  }

 private:
  std::optional<View> weight_, bias_;
  float epsilon_;
};

}  // namespace

std::unique_ptr<Step> make_layer_norm(const FloatOps& ops, const TransposeOps& turn,
                                      const LayerNormSpec& spec) {
  return std::make_unique<LayerNorm>(ops, turn, spec);
}

}  // namespace intact
