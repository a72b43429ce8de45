#include "engine/kinds/epilogue.h"

namespace intact::engine {
namespace {

constexpr float kNoOffset = -0.0f;  // added to any number it changes nothing

// The numbers of a constant, one for each channel; they may be one for all, or those of a part, repeated.
template <class T>
std::vector<T> each(Binding& binding, int constant, const EpilogueParts& parts) {
  std::vector<T> found;
  if (constant == kNoValue) return found;
  const std::span<const T> values = binding.array<T>(constant);
  found.reserve(static_cast<size_t>(parts.channels));
  const auto own = static_cast<size_t>(parts.channels / parts.repeats);
  for (int64_t r = 0; r < parts.repeats; ++r) {
    for (size_t c = 0; c < own; ++c) found.push_back(values[values.size() == 1 ? 0 : c]);
  }
  return found;
}

void set_function(EpilogueSpec& spec, const Kernels& kernels, const std::string& name) {
  spec.ops = kernels.float_steps;
  if (name.empty()) return;
  const NamedFunction* const named = find_function(*spec.ops, name.c_str());
  demand(named != nullptr, "no such function of floats");
  spec.function = named->function;
  spec.curve = named->codes;
  spec.smooth = named->smooth;
}

std::vector<int32_t> corrections(const EpilogueRecord& record, Binding& binding, const EpilogueParts& parts) {
  std::vector<int64_t> sums = parts.correction;
  sums.resize(static_cast<size_t>(parts.channels), 0);
  const std::vector<int32_t> added = each<int32_t>(binding, record.integer_bias, parts);
  for (size_t c = 0; c < added.size(); ++c) sums[c] += added[c];
  std::vector<int32_t> found;
  for (const int64_t sum : sums)
    found.push_back(static_cast<int32_t>(static_cast<uint64_t>(sum)));  // wraps around
  return found;
}

}  // namespace

EpilogueRecord::EpilogueRecord(Fields& step) : EpilogueRecord(step.record("ending"), step) {}

EpilogueRecord::EpilogueRecord(Fields fields, Fields& step)
    : multiplier(fields.constant("multiplier", Type::f32, 1)),
      bias(fields.constant("bias", Type::f32, 1, true)),
      integer_bias(fields.constant("integer_bias", Type::i32, 1, true)),
      residual(fields.reads("residual", true)),
      residual_multiplier(fields.real("residual_multiplier")),
      activation(fields.text("activation")),
      low(fields.real_or_none("low")),
      high(fields.real_or_none("high")),
      factors(fields.constant("factors", Type::f32, 1, true)),
      slope(fields.constant("slope", Type::f32, 1, true)),
      offsets(fields.constant("offsets", Type::f32, 1, true)),
      gain(fields.constant("gain", Type::f32, 1, true)),
      shift(fields.constant("shift", Type::f32, 1, true)),
      quotient(fields.real("quotient")),
      divided(fields.truth("divided")) {
  step.absorb(fields);
}

bool EpilogueRecord::divides() const {
  return divided || quotient != 1 || gain != kNoValue || residual != kNoValue || slope != kNoValue;
}

void EpilogueRecord::check(const Checker& checker, int64_t channels) const {
  for (const int constant : {multiplier, bias, integer_bias, slope, gain, shift, factors, offsets}) {
    if (constant == kNoValue) continue;
    const int64_t size = checker.sizes(constant)[0];
    checker.that(size == 1 || size == channels, "one number, or one for each channel");
  }
  if (residual != kNoValue) checker.codes(residual);
  checker.that(!activation.empty() || (factors == kNoValue && offsets == kNoValue),
               "an activation before factors");
  checker.that(activation.empty() || slope == kNoValue, "an activation or a slope, not both");
  checker.that(gain != kNoValue || shift == kNoValue, "a gain before a shift");
  checker.that(quotient == 1 || gain == kNoValue, "a gain or a quotient, not both");
  checker.that(quotient != 0, "a quotient other than 0");
}

EpilogueSpec bind_epilogue(const EpilogueRecord& record, int y, Binding& binding,
                           const EpilogueParts& parts) {
  const Codes* const codes = binding.grid(y);
  const bool clamps = record.activation.empty();  // a function's output has the whole grid, or all floats
  EpilogueSpec spec;
  spec.floats = codes == nullptr;
  const auto low = clamps ? record.low : std::nullopt, high = clamps ? record.high : std::nullopt;
  const ByteGrid grid = codes == nullptr ? ByteGrid{0, 0, 255} : codes->grid(low, high);
  spec.zero_point = grid.zero;
  spec.low = grid.low;
  spec.high = grid.high;
  if (codes == nullptr && low) spec.real_low = static_cast<float>(*low);
  if (codes == nullptr && high) spec.real_high = static_cast<float>(*high);
  spec.correction = corrections(record, binding, parts);
  spec.multiplier = each<float>(binding, record.multiplier, parts);
  spec.bias = each<float>(binding, record.bias, parts);
  spec.bias.resize(static_cast<size_t>(parts.channels), 0.0f);
  spec.residual = parts.residual;
  spec.residual_multiplier = static_cast<float>(record.residual_multiplier);
  spec.residual_zero_point = record.residual == kNoValue ? 0 : binding.codes(record.residual).zero();
  set_function(spec, binding.kernels, record.activation);
  spec.scale = codes == nullptr ? 1.0f : codes->scale32();
  spec.divides = record.divides() && codes != nullptr && record.activation.empty();
  spec.quotient = static_cast<float>(record.quotient);
  spec.factors = each<float>(binding, record.factors, parts);
  spec.offsets = each<float>(binding, record.offsets, parts);
  spec.slopes = each<float>(binding, record.slope, parts);
  spec.gains = each<float>(binding, record.gain, parts);
  spec.shifts = each<float>(binding, record.shift, parts);
  // Behind gains stands a number that changes nothing where the plan has none.
  if (!spec.gains.empty()) spec.shifts.resize(static_cast<size_t>(parts.channels), kNoOffset);
  return spec;
}

}  // namespace intact::engine
