#include "engine/fuse.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "engine/kinds/norm_step.h"
#include "engine/kinds/product_spec.h"
#include "engine/kinds/views.h"
#include "engine/sizes.h"
#include "steps/attention.h"
#include "steps/layer_norm.h"

namespace intact::engine {
namespace {

// softmax(a b) v
struct Attention final : PlanStep {
  Attention(std::unique_ptr<PlanStep> scores_, std::unique_ptr<PlanStep> softmax_,
            std::unique_ptr<PlanStep> product_)
      : PlanStep("attention", *product_, {.strided = true}),
        steps{std::move(scores_), std::move(softmax_), std::move(product_)},
        scores(static_cast<const MatMul&>(*steps[0])),
        softmax(static_cast<const Softmax&>(*steps[1])),
        product(static_cast<const MatMul&>(*steps[2])) {
    reads = {scores.a, scores.b, product.b};
    if (softmax.mask != kNoValue) reads.push_back(softmax.mask);
    writes = {product.y};
  }

  void infer(Sizes& sizes) const override {
    for (const auto& step : steps) step->infer(sizes);
  }

  void bind(Binding& binding) const override {
    const Shape& shape = binding.shape(scores.y);
    const auto between = [&](int v) { return dense_view(0, 0, binding.tensor(v).type, shape); };
    const Codes &weights = binding.codes(softmax.y), *made = binding.grid(scores.y);
    AttentionSpec spec{};
    spec.scores = product_spec(scores, binding, matrices_under(scores.a, shape, binding),
                               binding.codes(scores.a).zero(), between(scores.y));
    spec.scale = made == nullptr ? 1.0f : made->scale32();
    spec.gain = static_cast<float>(softmax.gain);
    if (softmax.mask != kNoValue) spec.mask = spread(binding.real_in(softmax.mask), shape);
    spec.probability_scale = weights.scale32();
    spec.probabilities = {weights.zero(), weights.byte_low(), weights.byte_high()};
    spec.product =
        product_spec(product, binding, between(softmax.y), weights.zero(), binding.view(product.y));
    binding.add(make_attention(*binding.kernels.matmul, *binding.kernels.float_steps, spec));
  }

  std::array<std::unique_ptr<PlanStep>, 3> steps;
  const MatMul& scores;
  const Softmax& softmax;
  const MatMul& product;
};

// A LayerNorm whose floats are read, and quantized for others.
struct NormAndCodes final : PlanStep {
  NormAndCodes(std::unique_ptr<PlanStep> norm_, std::unique_ptr<PlanStep> quantize_, int factors_)
      : PlanStep("norm_and_codes", *norm_, {}),
        steps{std::move(norm_), std::move(quantize_)},
        norm(static_cast<const LayerNorm&>(*steps[0])),
        codes(steps[1]->writes[0]),
        factors(factors_) {
    reads = norm.reads;
    constants = norm.constants;
    writes = {norm.y, codes};
    in_place = {norm.x};
  }

  void infer(Sizes& sizes) const override {
    for (const auto& step : steps) step->infer(sizes);
  }

  void bind(Binding& binding) const override {
    LayerNormSpec spec = norm_spec(norm, binding);
    spec.codes = binding.real_out(codes);
    if (factors != kNoValue) {
      spec.factors = dense_under(binding.constant(factors), {elements(binding.shape(factors))});
    }
    binding.add(make_layer_norm(*binding.kernels.float_steps, *binding.kernels.transpose, spec));
  }

  std::array<std::unique_ptr<PlanStep>, 2> steps;
  const LayerNorm& norm;
  int codes, factors;
};

template <class Kind>
const Kind* maker(const Plan& plan, int value) {
  if (!plan.is_tensor(value) || plan.makers[static_cast<size_t>(value)] < 0) return nullptr;
  return dynamic_cast<const Kind*>(
      plan.steps[static_cast<size_t>(plan.makers[static_cast<size_t>(value)])].get());
}

size_t place_of(const Plan& plan, int value) {
  return static_cast<size_t>(plan.makers[static_cast<size_t>(value)]);
}

// Whether nobody but one step reads a tensor, and the caller does not either.
bool is_read_once(const Plan& plan, int value) {
  return plan.readers[static_cast<size_t>(value)].size() == 1 &&
         std::count(plan.outputs.begin(), plan.outputs.end(), value) == 0;
}

// Whether a product's left side is a softmax along the last axis of another product, which makes codes or
// floats.
template <class Product>
bool is_attention(const Plan& plan, const Product& product, bool makes_codes) {
  const auto* const softmax = maker<Softmax>(plan, product.a);
  const auto* const scores = softmax == nullptr ? nullptr : maker<Product>(plan, softmax->x);
  if (scores == nullptr) return false;
  const int rank = plan.tensor(scores->y).rank();
  const bool last = softmax->axis == -1 || softmax->axis == rank - 1;
  return last && plan.tensor(product.y).rank() == rank && (plan.grid(softmax->y) != nullptr) == makes_codes &&
         is_read_once(plan, scores->y) && is_read_once(plan, softmax->y);
}

template <class Product, class Fused>
void fuse_attentions(Plan& plan, bool makes_codes) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const auto* const product = dynamic_cast<const Product*>(plan.steps[i].get());
    if (product == nullptr || !is_attention(plan, *product, makes_codes)) continue;
    const size_t softmax = place_of(plan, product->a);
    const size_t scores = place_of(plan, plan.steps[softmax]->reads[0]);
    plan.steps[i] = std::make_unique<Fused>(std::move(plan.steps[scores]), std::move(plan.steps[softmax]),
                                            std::move(plan.steps[i]));
  }
}

// Of a product by a constant vector along its last axis that makes codes, what is multiplied, and the
// constant.
std::pair<int, int> scaled(const Plan& plan, const Binary& step) {
  for (const auto& [real, factors] : {std::pair{step.a, step.b}, std::pair{step.b, step.a}}) {
    if (step.function != "mul" || !plan.is_tensor(real) || !plan.is_constant(factors)) continue;
    const auto& x = plan.tensor(real).shape;
    const Shape& shape = plan.constant(factors).shape;
    if (shape.rank == 0 || static_cast<size_t>(shape.rank) > x.size() || plan.grid(step.y) == nullptr)
      continue;
    const bool outer_ones = std::all_of(shape.begin(), shape.end() - 1, [](int64_t n) { return n == 1; });
    if (outer_ones && x.back().text < 0 && x.back().value == shape.last()) return {real, factors};
  }
  return {kNoValue, kNoValue};
}

void fuse_norms(Plan& plan) {
  for (auto& step : plan.steps) {
    int real = kNoValue, factors = kNoValue;
    if (const auto* const quantize = dynamic_cast<const Quantize*>(step.get())) {
      real = quantize->x;
    } else if (const auto* const binary = dynamic_cast<const Binary*>(step.get())) {
      std::tie(real, factors) = scaled(plan, *binary);
    }
    if (maker<LayerNorm>(plan, real) == nullptr || plan.grid(real) != nullptr) continue;
    auto& norm = plan.steps[place_of(plan, real)];
    norm = std::make_unique<NormAndCodes>(std::move(norm), std::move(step), factors);
  }
}

}  // namespace

void fuse(Plan& plan) {
  fuse_attentions<MatMul, Attention>(plan, true);
  fuse_attentions<FloatMatMul, FloatAttention>(plan, false);
  fuse_norms(plan);
  std::erase(plan.steps, nullptr);
}

}  // namespace intact::engine
