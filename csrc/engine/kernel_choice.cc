#include "engine/kernel_choice.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/cpu.h"
#include "engine/failure.h"

namespace intact::engine {
namespace {

struct Level {
  const char* name;
  uint64_t flags;
};
constexpr uint64_t kAvx2 = isa::avx2 | isa::f16c | isa::fma;
constexpr uint64_t kAvx512 = kAvx2 | isa::avxvnni | isa::avx512 | isa::vnni;
constexpr Level kLevels[] = {{"none", isa::none},
                             {"avx2", kAvx2},
                             {"avxvnni", kAvx2 | isa::avxvnni},
                             {"avx512", kAvx512},
                             {"amx", kAvx512 | isa::amx},
                             {"neon", isa::neon | isa::dotprod}};

uint64_t permitted(const char* max_isa) {
  if (max_isa == nullptr) max_isa = std::getenv("INTACT_MAX_ISA");
  if (max_isa == nullptr || *max_isa == '\0') return ~uint64_t{0};
  for (const Level& level : kLevels) {
    if (std::string_view(level.name) == max_isa) return level.flags;
  }
  fail(INTACT_BAD_ARGUMENT, "max_isa", max_isa, "one of none, avx2, avxvnni, avx512, amx, neon");
}

std::vector<std::string> forced_names() {
  std::vector<std::string> found;
  const char* const given = std::getenv("INTACT_FORCE_KERNEL");
  std::string name;
  for (const char* c = given == nullptr ? "" : given;; ++c) {
    if (*c == ',' || *c == '\0') {
      if (!name.empty()) found.push_back(name);
      name.clear();
      if (*c == '\0') return found;
    } else if (*c != ' ') {
      name.push_back(*c);
    }
  }
}

// The kernels that this machine runs within what is permitted, family by family, best first.
class Choice {
 public:
  explicit Choice(const char* max_isa) : forced_(forced_names()) {
    const uint64_t allowed = permitted(max_isa) & cpu_features();
    size_t count = 0;
    const KernelInfo* const all = all_kernels(&count);
    for (size_t i = 0; i < count; ++i) {
      if ((all[i].needs & allowed) == all[i].needs) runnable_.push_back(all[i]);
    }
    for (const std::string& name : forced_) {
      const bool known = std::any_of(runnable_.begin(), runnable_.end(),
                                     [&](const KernelInfo& k) { return name == k.name; });
      if (!known) fail(INTACT_BAD_ARGUMENT, "INTACT_FORCE_KERNEL", name, "a kernel that this machine has");
    }
  }

  template <class Ops>
  const Ops* best() const {
    return static_cast<const Ops*>(best_of(Ops::kFamily));
  }

  // The kernels of a family that could run, best first: one where it was forced, or plain C++.
  template <class Ops>
  std::vector<const Ops*> alternatives(bool forced = true) const {
    const Ops* const chosen = best<Ops>();
    std::vector<const Ops*> found;
    for (const KernelInfo& k : of(Ops::kFamily)) {
      if (forced && is_forced(k) && k.ops == chosen) return {chosen};
      if (k.needs != isa::none && acquire(k.needs)) found.push_back(static_cast<const Ops*>(k.ops));
    }
    if (found.empty()) found.push_back(chosen);
    return found;
  }

 private:
  const void* best_of(const char* family) const {
    for (const bool forced : {true, false}) {
      for (const KernelInfo& k : runnable_) {
        const bool fits = std::string_view(family) == k.family && is_forced(k) == forced;
        if (fits && acquire(k.needs)) return k.ops;
      }
    }
    fail(INTACT_INTERNAL, family, "no kernel", "one that runs everywhere");
  }
  bool is_forced(const KernelInfo& k) const {
    return std::find(forced_.begin(), forced_.end(), k.name) != forced_.end();
  }
  std::vector<KernelInfo> of(std::string_view family) const {
    std::vector<KernelInfo> found;
    for (const KernelInfo& k : runnable_) {
      if (family == k.family) found.push_back(k);
    }
    return found;
  }

  std::vector<std::string> forced_;
  std::vector<KernelInfo> runnable_;
};

}  // namespace

Kernels::Kernels(const char* max_isa) {
  const Choice choice(max_isa);
  block_gemm = block_gemm_of_few = choice.best<BlockGemmOps>();
  for (const BlockGemmOps* one : choice.alternatives<BlockGemmOps>()) {
    if (one->least_rows < block_gemm_of_few->least_rows) block_gemm_of_few = one;
  }
  convert = choice.best<ConvertOps>();
  depthwise = choice.best<DepthwiseOps>();
  dynamic_depthwise = choice.best<DynamicDepthwiseOps>();
  dynamic_quantize = choice.best<DynamicQuantizeOps>();
  elementwise = choice.best<ElementwiseOps>();
  fake_quantize = choice.best<FakeQuantizeOps>();
  float_gemm = choice.best<FloatGemmOps>();
  float_steps = choice.best<FloatOps>();
  matmul = choice.best<MatMulOps>();
  pointwise = choice.best<PointwiseOps>();
  pool = choice.best<PoolOps>();
  quantize = choice.best<QuantizeOps>();
  reduce = choice.best<ReduceOps>();
  transpose = choice.best<TransposeOps>();
  winograd = choice.best<WinogradOps>();
  const GemmOps* const gemm = choice.best<GemmOps>();
  // Those that group weights are packed slowly, and slower than all others.
  gemm_forms.push_back(gemm);
  for (const GemmOps* one : choice.alternatives<GemmOps>()) {
    if (one != gemm && !one->grouped) gemm_forms.push_back(one);
  }
  conv_names.push_back(intact::name_of(winograd));
  for (const GemmOps* one : gemm_forms) conv_names.push_back(intact::name_of(one));
  const bool alone = gemm_forms.size() == 1;
  std::vector<const GemmOps*> vectors{gemm};
  if (alone) {
    for (const GemmOps* one : choice.alternatives<GemmOps>(false)) {
      if (!one->grouped) vectors.push_back(one);
    }
  } else {
    vectors = gemm_forms;
  }
  std::copy_if(vectors.begin(), vectors.end(), std::back_inserter(chosen_forms),
               [](const GemmOps* one) { return one->tiles == nullptr; });
}

}  // namespace intact::engine
