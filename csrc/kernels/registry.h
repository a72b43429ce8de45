// Every kernel of the build, family by family, best first. Python chooses by index (INTACT_MAX_ISA,
// INTACT_FORCE_KERNEL); the choice is made once, never in a loop.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/convert/convert.h"
#include "kernels/depthwise/depthwise.h"
#include "kernels/fake_quantize/fake_quantize.h"
#include "kernels/fake_quantize_grad/fake_quantize_grad.h"
#include "kernels/gemm/gemm.h"
#include "kernels/histogram/histogram.h"
#include "kernels/matmul/matmul.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/pool/pool.h"
#include "kernels/quantize/quantize.h"
#include "kernels/float_steps/float_steps.h"
#include "kernels/reduce/reduce.h"
#include "kernels/transpose/transpose.h"
#include "kernels/winograd/winograd.h"

namespace intact {

struct KernelInfo {
  const char* family;
  const char* name;
  uint64_t needs;  // isa:: flags; 0 runs everywhere
  const void* ops;
};

// All kernels; `*count` receives their number. Kernels of a family are neighbours.
const KernelInfo* all_kernels(size_t* count);

// The ops of the kernel called `name`, or nullptr when this build or this machine has no such kernel, or the
// operating system does not let it run.
template <class Ops>
const Ops* find_kernel(const char* name);

// The name of the kernel that these are the ops of.
const char* name_of(const void* ops);

}  // namespace intact
