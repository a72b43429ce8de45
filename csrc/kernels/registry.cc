#include "kernels/registry.h"

#include <cstring>

namespace intact {
namespace {

template <class Ops>
constexpr const char* kFamily = nullptr;
template <>
constexpr const char* kFamily<ReduceOps> = "reduce";
template <>
constexpr const char* kFamily<FakeQuantizeOps> = "fake_quantize";
template <>
constexpr const char* kFamily<FakeQuantizeGradOps> = "fake_quantize_grad";
template <>
constexpr const char* kFamily<QuantizeOps> = "quantize";
template <>
constexpr const char* kFamily<GemmOps> = "gemm";
template <>
constexpr const char* kFamily<HistogramOps> = "histogram";
template <>
constexpr const char* kFamily<ConvertOps> = "convert";
template <>
constexpr const char* kFamily<DepthwiseOps> = "depthwise";
template <>
constexpr const char* kFamily<MatMulOps> = "matmul";
template <>
constexpr const char* kFamily<PointwiseOps> = "pointwise";
template <>
constexpr const char* kFamily<PoolOps> = "pool";
template <>
constexpr const char* kFamily<FloatOps> = "float_steps";
template <>
constexpr const char* kFamily<TransposeOps> = "transpose";
template <>
constexpr const char* kFamily<WinogradOps> = "winograd";

template <class Ops>
KernelInfo entry(const char* name, uint64_t needs, const Ops& ops) {
  return {kFamily<Ops>, name, needs, &ops};
}

const KernelInfo kKernels[] = {
#define INTACT_KERNEL(name, needs) entry(#name, needs, name),
#include "kernels/convert/kernels.inc"
#include "kernels/depthwise/kernels.inc"
#include "kernels/fake_quantize/kernels.inc"
#include "kernels/fake_quantize_grad/kernels.inc"
#include "kernels/float_steps/kernels.inc"
#include "kernels/gemm/kernels.inc"
#include "kernels/histogram/kernels.inc"
#include "kernels/matmul/kernels.inc"
#include "kernels/pointwise/kernels.inc"
#include "kernels/pool/kernels.inc"
#include "kernels/quantize/kernels.inc"
#include "kernels/reduce/kernels.inc"
#include "kernels/transpose/kernels.inc"
#include "kernels/winograd/kernels.inc"
#undef INTACT_KERNEL
};

}  // namespace

const KernelInfo* all_kernels(size_t* count) {
  *count = sizeof kKernels / sizeof kKernels[0];
  return kKernels;
}

const char* name_of(const void* ops) {
  for (const KernelInfo& k : kKernels) {
    if (k.ops == ops) return k.name;
  }
  return "";
}

template <class Ops>
const Ops* find_kernel(const char* name) {
  for (const KernelInfo& k : kKernels) {
    const bool runs = (k.needs & cpu_features()) == k.needs;
    const bool wanted = std::strcmp(k.family, kFamily<Ops>) == 0 && std::strcmp(k.name, name) == 0;
    if (wanted && runs && acquire(k.needs)) return static_cast<const Ops*>(k.ops);
  }
  return nullptr;
}

template const ConvertOps* find_kernel<ConvertOps>(const char*);
template const DepthwiseOps* find_kernel<DepthwiseOps>(const char*);
template const FakeQuantizeGradOps* find_kernel<FakeQuantizeGradOps>(const char*);
template const FakeQuantizeOps* find_kernel<FakeQuantizeOps>(const char*);
template const GemmOps* find_kernel<GemmOps>(const char*);
template const HistogramOps* find_kernel<HistogramOps>(const char*);
template const MatMulOps* find_kernel<MatMulOps>(const char*);
template const PointwiseOps* find_kernel<PointwiseOps>(const char*);
template const PoolOps* find_kernel<PoolOps>(const char*);
template const QuantizeOps* find_kernel<QuantizeOps>(const char*);
template const FloatOps* find_kernel<FloatOps>(const char*);
template const ReduceOps* find_kernel<ReduceOps>(const char*);
template const TransposeOps* find_kernel<TransposeOps>(const char*);
template const WinogradOps* find_kernel<WinogradOps>(const char*);

}  // namespace intact
