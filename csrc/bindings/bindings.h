// What the files of the Python module share. Only csrc/bindings/ knows nanobind.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "kernels/registry.h"

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

void bind_engine(nb::module_& m);
void bind_program(nb::module_& m);
void bind_choices(nb::module_& m);
void bind_windows(nb::module_& m);

}  // namespace intact
