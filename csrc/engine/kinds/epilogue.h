// How a sum of products becomes an output (N22 to N25): the record `ending` of a step, and what kernels take.
#pragma once

#include <optional>
#include <vector>

#include "engine/binding.h"
#include "engine/checker.h"
#include "engine/fields.h"
#include "steps/common/epilogue.h"

namespace intact::engine {

struct EpilogueRecord {
  // Reads the field `ending` of a step.
  explicit EpilogueRecord(Fields& step);
  // Refuses an epilogue that does not fit a layer of so many channels.
  void check(const Checker& checker, int64_t channels) const;
  // Whether codes are a real output divided by its scale (N22), and not one product and one sum.
  bool divides() const;

  // Constants, float32 [channels] or [1], int32 likewise; kNoValue: none. `residual` is a tensor of codes.
  int multiplier, bias, integer_bias, residual;
  double residual_multiplier;
  std::string activation;
  std::optional<double> low, high;
  int factors, slope, offsets, gain, shift;
  double quotient;
  bool divided;

 private:
  explicit EpilogueRecord(Fields fields, Fields& step);
};

// What happens to the sums of a layer that makes y.
struct EpilogueParts {
  int64_t channels = 1;  // of the output
  int64_t repeats = 1;  // so often the layer's own channels follow one another in them
  std::vector<int64_t> correction;  // what zero points add to each channel's sum; empty: nothing
  std::optional<View> residual;  // the image of the residual that goes with this part of y
};
EpilogueSpec bind_epilogue(const EpilogueRecord& record, int y, Binding& binding, const EpilogueParts& parts);

}  // namespace intact::engine
