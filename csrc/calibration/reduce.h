// Statistics of whole tensors. May throw std::bad_alloc and nothing else.
#pragma once

#include "base/grid.h"
#include "kernels/reduce/reduce.h"
#include "tensors/real.h"

namespace intact {

// One result per granule: numerics.absmax and numerics.minmax. Zeros come out as +0.
void absmax(const ReduceOps& ops, const Layout& layout, const Source& x, int threads, float* amax);
void minmax(const ReduceOps& ops, const Layout& layout, const Source& x, int threads, float* min, float* max);

}  // namespace intact
