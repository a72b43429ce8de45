// Steps that run as one. The numbers, every bit of them, stay as they are.
//
// attention         matmul, softmax, matmul: the scores and what becomes of them stay in the cache
// float_attention   the same of float_matmul, softmax, float_matmul
// norm_and_codes    layer_norm, quantize (or a product by a constant of each channel that makes codes)
#pragma once

#include "engine/plan.h"

namespace intact::engine {

// Replaces steps of a plan whose readers and makers are known, which are out of date then.
void fuse(Plan& plan);

}  // namespace intact::engine
