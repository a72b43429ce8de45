// What the files of the Python module share. Only csrc/bindings/ knows nanobind.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <memory>
#include <string>

#include "base/byte_grid.h"
#include "kernels/registry.h"
#include "runtime/step.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace intact {

// Arrays are dense and in the right dtype already (the Python face sees to it, hence noconvert
// everywhere); outputs are given, never made here.
template <class... Kind>
using Dense = nb::ndarray<Kind..., nb::c_contig, nb::device::cpu>;
using AnyIn = Dense<nb::ro>;
using AnyOut = Dense<>;
using FloatsIn = Dense<const float>;
using FloatsOut = Dense<float>;

inline void require(bool holds, const char* what) {
  if (!holds) throw nb::value_error(what);
}

// The kernel of a family by the name that intact.kernels.registry chose.
template <class Ops>
const Ops& kernel(const std::string& name) {
  const Ops* found = find_kernel<Ops>(name.c_str());
  require(found != nullptr, "no such kernel in this family on this machine");
  return *found;
}

// A step as Python holds it: makers return it, Program.add takes it.
struct NativeStep {
  std::shared_ptr<const Step> step;
};
inline NativeStep native(std::unique_ptr<Step> step) { return {std::move(step)}; }

using GridTuple = std::array<int32_t, 3>;  // zero, low, high
inline ByteGrid grid_of(const GridTuple& g) { return {g[0], g[1], g[2]}; }

void bind_engine(nb::module_& m);
void bind_epilogue(nb::module_& m);
void bind_program(nb::module_& m);
void bind_real_views(nb::module_& m);
void bind_gemm(nb::module_& m);
void bind_float_gemm(nb::module_& m);
void bind_choices(nb::module_& m);
void bind_windows(nb::module_& m);

// Each native step has a binding of its name in bindings/steps/.
#define INTACT_STEP(name) void bind_step_##name(nb::module_& m);
#include "steps/steps.inc"
#undef INTACT_STEP

}  // namespace intact
