// Constant weights of float32 as kernels read them.
#pragma once

#include "engine/binding.h"
#include "steps/common/float_cut.h"

namespace intact::engine {

// Matrices float32 [groups][k][columns] as panels of a kernel.
std::vector<uint8_t> pack_matrices(const FloatGemmOps& ops, const float* matrices, int64_t groups, int64_t k,
                                   int64_t columns);
// Filters float32 [out, taps, in / groups] (`taps`: down times across): panels of each group, or where each
// channel is by itself [taps][channels].
std::vector<uint8_t> pack_filters(const FloatGemmOps& ops, const float* weight, int64_t out, int64_t taps,
                                  int64_t in, int64_t groups);
PackedFloats packed_floats(const Bytes& bytes);

}  // namespace intact::engine
