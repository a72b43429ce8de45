// Element-wise steps on codes. Views may broadcast (stride 0) and lie in any order of axes; y may be one of
// the inputs itself.
#pragma once

#include <memory>

#include "kernels/pointwise/pointwise.h"
#include "runtime/step.h"

namespace intact {

struct AddSpec {
  View a, b, y;
  Operand from_a, from_b;
  float scale;  // of y
  ByteGrid grid;
};

struct RescaleSpec {
  View x, y;
  Operand from;
  ByteGrid grid;
};

struct LookupSpec {
  View x, table, y;  // table: u8 [256]
};

// All throw std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_add(const PointwiseOps& ops, const AddSpec& spec);
std::unique_ptr<Step> make_rescale(const PointwiseOps& ops, const RescaleSpec& spec);
std::unique_ptr<Step> make_lookup(const PointwiseOps& ops, const LookupSpec& spec);

}  // namespace intact
