// A function of one code, by a table of 256 bytes (N45).
#pragma once

#include <memory>

#include "base/byte_grid.h"
#include "kernels/pointwise/pointwise.h"
#include "runtime/step.h"

namespace intact {

struct TableSpec {
  View x, table, y;  // table: u8 [256]
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_table(const PointwiseOps& ops, const TableSpec& spec);

}  // namespace intact
