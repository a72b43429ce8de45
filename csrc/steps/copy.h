// Elements as they are, into another place or order: transpose, slice, pad, concat, reshape, resize.
#pragma once

#include <memory>
#include <vector>

#include "kernels/transpose/transpose.h"
#include "runtime/step.h"

namespace intact {

// Both views of one type and one shape; they do not overlap.
struct CopySpec {
  View x, y;
};

// y[i, j, ...] = x[indices[0][i], indices[1][j], ...]: an index for every position along every axis of y.
struct GatherSpec {
  View x, y;
  std::vector<std::vector<int64_t>> indices;
};

// Every byte of y.
struct FillSpec {
  View y;
  uint8_t value;
};

// The halo of an image: every byte of it `value`.
struct HaloSpec {
  View image;
  uint8_t value;
};

// All throw std::invalid_argument for what is unsafe to run (base/check.h).
std::unique_ptr<Step> make_copy(const TransposeOps& transpose, const CopySpec& spec);
std::unique_ptr<Step> make_gather(const GatherSpec& spec);
std::unique_ptr<Step> make_fill(const FillSpec& spec);
std::unique_ptr<Step> make_halo(const HaloSpec& spec);

}  // namespace intact
