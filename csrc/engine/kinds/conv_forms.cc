#include "engine/kinds/conv_forms.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "steps/common/epilogue.h"
#include "steps/conv.h"
#include "steps/winograd.h"

namespace intact::engine {
namespace {

// Weights of a part: of the constant, or made of it.
class Weights {
 public:
  Weights(const PartialConv& part, const Bytes& constant) : all_(constant.as<int8_t>()) {
    if (!part.weight.make) return;
    made_ = part.weight.make(all_.data());
    all_ = made_;
  }
  std::span<const int8_t> all() const { return all_; }

 private:
  std::vector<int8_t> made_;
  std::span<const int8_t> all_;
};

// The largest byte that a kernel can read, halos included.
int32_t high_of(const PartialConv& part) {
  return part.low ? std::max<int32_t>(part.x.high, part.low->high) : part.x.high;
}

// What packed weights are called: by all that they depend on beside the weights, as plan files have them.
std::string form_name(const void* kernel, const PartialConv& part, const std::string& apart = "") {
  return std::string(intact::name_of(kernel)) + ".to" + std::to_string(high_of(part)) + apart + part.label;
}

bool is_joined(const PartialConv& part) {
  return part.groups == 1 && part.dilations[1] == 1 && part.x.strides[2] == part.x.sizes[3];
}

// Of the forms that multiply every pixel of every window the first that suits the layer's size.
size_t suited(const std::vector<const GemmOps*>& forms, const PartialConv& part) {
  const int64_t pixels = product(std::span(part.y.sizes).first(3));
  const PartialWeights& w = part.weight;
  const int64_t window = w.kernel_h * w.kernel_w * w.in * (part.low ? 2 : 1);
  const auto fitting = [&](const GemmOps* k) { return fills(*k, pixels, window, w.out / part.groups); };
  const auto found = std::find_if(forms.begin(), forms.end(), fitting);
  return found == forms.end() ? 0 : static_cast<size_t>(found - forms.begin());
}

// Whether Winograd's form is meant for this convolution.
bool tiles_possible(const PartialConv& part) {
  const bool plain = part.strides == Pair{1, 1} && part.dilations == Pair{1, 1};
  return part.weight.kernel_h == 3 && part.weight.kernel_w == 3 && plain && part.groups == 1 && !part.low;
}

bool tiles_pay(const PartialConv& part, const GemmOps& direct, const Binding& binding) {
  const auto& [n, h, w, out, unused5, unused6] = part.y.sizes;
  const WinogradWork work{n, h, w, part.weight.in, out, binding.threads()};
  return winograd_pays(*binding.kernels.winograd, direct, work);
}

// Whether Winograd's form is proved exact: once, for weights that are packed so were.
bool tiles_fit(const PartialConv& part, Binding& binding) {
  const std::string form = form_name(binding.kernels.winograd, part);
  return *binding.part<bool>(form + " fits", [&] {
    const ConstantRecord& constant = binding.plan.constant(part.constant);
    const auto prove = [&] {
      return winograd_fits(static_cast<int32_t>(part.weight.out), static_cast<int32_t>(part.weight.in),
                           high_of(part), Weights(part, binding.plan.array(part.constant)).all().data());
    };
    return std::make_shared<const bool>(binding.plan.arrays.is_packed(constant, form) || prove());
  });
}

ConvViews views_of(const PartialConv& part, const Binding& binding) {
  return {part.x,       part.y,         part.low,    part.residual,
          part.strides, part.dilations, part.origin, binding.threads()};
}

// What the zero point of `x` adds to each channel's sum.
std::vector<int64_t> zeros_of(std::vector<int64_t> sums, const Codes& x) {
  for (int64_t& sum : sums) sum *= -x.zero();
  return sums;
}

EpilogueSpec epilogue_of(const PartialConv& part, const LayerRecord& layer, Binding& binding) {
  const int multiplied = layer.low == kNoValue ? layer.x : layer.low;
  const auto zeros = zeros_of(weight_sums(part, binding), binding.codes(multiplied));
  return bind_epilogue(layer.epilogue, layer.y, binding,
                       {part.weight.out, part.repeats, zeros, part.residual});
}

std::unique_ptr<Step> winograd_step(const PartialConv& part, const LayerRecord& layer, Binding& binding) {
  const WinogradOps& kernel = *binding.kernels.winograd;
  const std::string form = form_name(&kernel, part);
  const auto shared = binding.part<WinogradLayer>(form, [&] {
    const ConstantRecord& constant = binding.plan.constant(part.constant);
    const Bytes packed = binding.plan.arrays.packed(constant, form, [&](const Bytes& bytes) {
      return pack_winograd(static_cast<int32_t>(part.weight.out), static_cast<int32_t>(part.weight.in),
                           high_of(part), Weights(part, bytes).all().data(), kernel);
    });
    return std::make_shared<const WinogradLayer>(kernel, packed_weights(packed),
                                                 epilogue_of(part, layer, binding));
  });
  return make_winograd({views_of(part, binding), shared});
}

std::unique_ptr<Step> direct_step(const GemmOps& kernel, const PartialConv& part, const LayerRecord& layer,
                                  Binding& binding) {
  const std::string order = kernel.grouped ? ".halves" : "";
  const std::string apart = is_joined(part) ? order : order + ".apart" + std::to_string(part.groups);
  const std::string form = form_name(&kernel, part, apart);
  const auto shared = binding.part<ConvLayer>(form, [&] {
    const ConstantRecord& constant = binding.plan.constant(part.constant);
    const Bytes packed = binding.plan.arrays.packed(constant, form, [&](const Bytes& bytes) {
      const PartialWeights& w = part.weight;
      const auto size = [](int64_t n) { return static_cast<int32_t>(n); };
      const GemmWeights shape{size(w.out),       size(w.kernel_h), size(w.kernel_w), size(w.in),
                              size(part.groups), is_joined(part),  high_of(part)};
      return pack_gemm(shape, Weights(part, bytes).all().data(), kernel);
    });
    ConvLayerSpec spec{&kernel, packed_weights(packed), epilogue_of(part, layer, binding),
                       part.low.has_value()};
    spec.zero = binding.codes(layer.x).zero();
    if (part.low) {
      spec.shift = static_cast<int>(layer.shift);
      for (const int64_t n : zeros_of(weight_sums(part, binding), binding.codes(layer.x))) {
        spec.high_correction.push_back(static_cast<int32_t>(static_cast<uint64_t>(n)));
      }
    }
    return std::make_shared<const ConvLayer>(spec);
  });
  return make_conv({views_of(part, binding), shared});
}

std::string text_of(std::span<const int64_t> sizes) {
  std::string text;
  for (const int64_t n : sizes) text += (text.empty() ? "" : "x") + std::to_string(n);
  return text;
}

// All that the time of a layer depends on, but for the machine: names in timings.
std::string describe(const PartialConv& part, const LayerRecord& layer, Binding& binding) {
  const auto first = [](const auto& values, size_t count) {
    return text_of(std::span<const int64_t>(values.data(), count));
  };
  const PartialWeights& w = part.weight;
  const std::array window{w.kernel_h, w.kernel_w};
  std::string text = first(part.x.sizes, 4) + " " + text_of(window) + " " + first(part.y.sizes, 4) + ", at " +
                     first(part.x.strides, 3) + " " + first(part.y.strides, 3) + ", strides " +
                     text_of(part.strides) + ", dilations " + text_of(part.dilations) + ", groups " +
                     std::to_string(part.groups) + ", bytes to " + std::to_string(high_of(part)) +
                     (binding.grid(layer.y) != nullptr ? ", codes" : ", floats") +
                     (part.low ? ", of 16 bits" : "");
  if (part.residual) text += ", residual";
  if (layer.epilogue.slope != kNoValue) text += ", slope";
  if (!layer.epilogue.activation.empty()) text += ", " + layer.epilogue.activation;
  if (binding.kernels.gemm_forms.front()->grouped) {  // whose speed depends on what the weights are
    const uint32_t sum = binding.plan.arrays.checksum(binding.plan.constant(part.constant));
    std::array<char, 9> digits;
    std::snprintf(digits.data(), digits.size(), "%08x", static_cast<unsigned>(sum));
    text += std::string(", weights ") + digits.data() + part.label;
  }
  return text + ", threads " + std::to_string(binding.threads());
}

}  // namespace

PackedWeights packed_weights(const Bytes& bytes) {
  return {bytes.bytes.data(), bytes.bytes.size(), bytes.owner};
}

std::vector<int64_t> weight_sums(const PartialConv& part, Binding& binding) {
  const ConstantRecord& constant = binding.plan.constant(part.constant);
  const Bytes sums = binding.plan.arrays.packed(
      constant, "sums" + part.label,
      [&](const Bytes& bytes) {
        const Weights weights(part, bytes);
        const auto each = static_cast<size_t>(part.weight.kernel_h * part.weight.kernel_w * part.weight.in);
        std::vector<uint8_t> made(static_cast<size_t>(part.weight.out) * sizeof(int32_t));
        for (size_t c = 0; c < static_cast<size_t>(part.weight.out); ++c) {
          uint32_t sum = 0;
          for (const int8_t w : weights.all().subspan(c * each, each))
            sum += static_cast<uint32_t>(int32_t{w});
          std::memcpy(&made[c * sizeof sum], &sum, sizeof sum);
        }
        return made;
      },
      Type::i32);
  const auto found = sums.as<int32_t>();
  demand(static_cast<int64_t>(found.size()) == part.weight.out, "one sum for each output channel");
  return {found.begin(), found.end()};
}

void add_conv(PartialConv part, const LayerRecord& layer, Binding& binding) {
  const Kernels& kernels = binding.kernels;
  const size_t direct = suited(kernels.gemm_forms, part);
  const auto described = [&] { return describe(part, layer, binding); };
  const std::span names(kernels.conv_names);
  if (tiles_possible(part)) {
    const bool pays = tiles_pay(part, *kernels.gemm_forms[direct], binding);
    const size_t chosen = binding.choose_form(described, names, pays ? 0 : direct + 1);
    if (chosen > 0)
      return binding.add_form(direct_step(*kernels.gemm_forms[chosen - 1], part, layer, binding));
    if (tiles_fit(part, binding)) return binding.add_form(winograd_step(part, layer, binding));
  }
  const size_t chosen = binding.choose_form(described, names.subspan(1), direct);
  binding.add_form(direct_step(*kernels.gemm_forms[chosen], part, layer, binding));
}

}  // namespace intact::engine
