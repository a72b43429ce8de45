// The Python module intact.kernels._native. float16 and bfloat16 arrive as their bits in uint16, with the
// dtype's name beside them.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "base/cpu.h"
#include "base/fp_env.h"
#include "bindings/bindings.h"
#include "calibration/histogram.h"
#include "calibration/reduce.h"
#include "calibration/squared_error.h"
#include "tensors/quantization.h"

namespace intact {
namespace {

using Counts = Dense<int64_t>;
using DoublesOut = Dense<double>;
using LayoutTuple = std::tuple<size_t, size_t, size_t, size_t>;

struct RealType {
  const char* name;
  Real value;
  size_t bytes;
};
constexpr RealType kRealTypes[] = {{"float32", Real::f32, 4},
                                   {"float16", Real::f16, 2},
                                   {"bfloat16", Real::bf16, 2},
                                   {"float64", Real::f64, 8}};

// `convert` names the conversion kernel; float32 does not use it.
template <class Array>
Real real_of(const Array& array, const std::string& dtype) {
  for (const RealType& t : kRealTypes) {
    if (dtype != t.name) continue;
    require(array.itemsize() == t.bytes, "the array does not have the dtype named");
    return t.value;
  }
  throw nb::value_error("not a real dtype");
}

Source source(const AnyIn& x, const std::string& dtype, const std::string& convert) {
  return {x.data(), real_of(x, dtype), &kernel<ConvertOps>(convert)};
}

Sink sink(const AnyOut& y, const std::string& dtype, const std::string& convert) {
  return {y.data(), real_of(y, dtype), &kernel<ConvertOps>(convert)};
}

Layout layout_of(const LayoutTuple& l, size_t size) {
  const Layout layout = {std::get<0>(l), std::get<1>(l), std::get<2>(l), std::get<3>(l)};
  require(size > 0 && layout.size() == size, "the layout does not have the size of x");
  return layout;
}

Tensors tensors(const LayoutTuple& l, size_t size, const float* scale, const FloatsIn& low,
                const FloatsIn& high, int threads) {
  const Layout layout = layout_of(l, size);
  require(low.size() == layout.granules() && high.size() == low.size(), "one bound per granule");
  return {layout, {scale, low.data(), high.data(), false}, threads};
}

void bind_fake_quantize(nb::module_& m) {
  m.def(
      "fake_quantize",
      [](const std::string& name, const std::string& convert, const std::string& dtype, LayoutTuple l,
         AnyIn x, FloatsIn scale, FloatsIn low, FloatsIn high, AnyOut y, int threads) {
        const auto& ops = kernel<FakeQuantizeOps>(name);
        const Tensors t = tensors(l, x.size(), scale.data(), low, high, threads);
        require(scale.size() == low.size() && y.size() == x.size(), "sizes differ");
        const Source from = source(x, dtype, convert);
        const Sink to = sink(y, dtype, convert);
        nb::gil_scoped_release release;
        fake_quantize(ops, t, from, to);
      },
      "kernel"_a, "convert"_a, "dtype"_a, "layout"_a, "x"_a.noconvert(), "scale"_a.noconvert(),
      "low"_a.noconvert(), "high"_a.noconvert(), "y"_a.noconvert(), "threads"_a);
  m.def(
      "fake_quantize_grad",
      [](const std::string& name, const std::string& convert, const std::string& grad_dtype,
         const std::string& dtype, LayoutTuple l, AnyIn grad, AnyIn x, FloatsIn low, FloatsIn high, AnyOut y,
         int threads) {
        const auto& ops = kernel<FakeQuantizeGradOps>(name);
        const Tensors t = tensors(l, x.size(), nullptr, low, high, threads);
        require(grad.size() == x.size() && y.size() == x.size(), "sizes differ");
        const Source grad_from = source(grad, grad_dtype, convert), from = source(x, dtype, convert);
        const Sink to = sink(y, grad_dtype, convert);
        nb::gil_scoped_release release;
        fake_quantize_grad(ops, t, grad_from, from, to);
      },
      "kernel"_a, "convert"_a, "grad_dtype"_a, "dtype"_a, "layout"_a, "grad"_a.noconvert(), "x"_a.noconvert(),
      "low"_a.noconvert(), "high"_a.noconvert(), "y"_a.noconvert(), "threads"_a);
  m.def(
      "learned_range_grad",
      [](const std::string& name, const std::string& convert, const std::vector<std::string>& dtypes,
         LayoutTuple l, AnyIn grad, AnyIn x, AnyIn y, FloatsIn low, FloatsIn high, AnyOut to_x,
         DoublesOut sums, int threads) {
        const auto& ops = kernel<FakeQuantizeGradOps>(name);
        const Tensors t = tensors(l, x.size(), nullptr, low, high, threads);
        require(grad.size() == x.size() && y.size() == x.size() && to_x.size() == x.size(), "sizes differ");
        require(dtypes.size() == 3 && sums.size() == 3 * low.size(), "three dtypes, three sums a granule");
        const Source grad_from = source(grad, dtypes[0], convert), from = source(x, dtypes[1], convert);
        const Source made = source(y, dtypes[2], convert);
        const Sink to = sink(to_x, dtypes[0], convert);
        nb::gil_scoped_release release;
        learned_range_grad(ops, t, grad_from, from, made, to, sums.data());
      },
      "kernel"_a, "convert"_a, "dtypes"_a, "layout"_a, "grad"_a.noconvert(), "x"_a.noconvert(),
      "y"_a.noconvert(), "low"_a.noconvert(), "high"_a.noconvert(), "to_x"_a.noconvert(),
      "sums"_a.noconvert(), "threads"_a);
}

void bind_quantize(nb::module_& m) {
  m.def(
      "quantize",
      [](const std::string& name, const std::string& convert, const std::string& dtype, LayoutTuple l,
         AnyIn x, FloatsIn scale, FloatsIn low, FloatsIn high, int qmin, bool is_signed, Dense<uint8_t> q,
         int threads) {
        const auto& ops = kernel<QuantizeOps>(name);
        const Tensors t = tensors(l, x.size(), scale.data(), low, high, threads);
        require(scale.size() == low.size() && q.size() == x.size(), "sizes differ");
        const Source from = source(x, dtype, convert);
        nb::gil_scoped_release release;
        quantize(ops, t, from, Codes{qmin, is_signed}, q.data());
      },
      "kernel"_a, "convert"_a, "dtype"_a, "layout"_a, "x"_a.noconvert(), "scale"_a.noconvert(),
      "low"_a.noconvert(), "high"_a.noconvert(), "qmin"_a, "is_signed"_a, "q"_a.noconvert(), "threads"_a);
  m.def(
      "dequantize",
      [](const std::string& name, LayoutTuple l, Dense<const uint8_t> q, FloatsIn scale, FloatsIn low,
         int qmin, bool is_signed, FloatsOut y, int threads) {
        const auto& ops = kernel<QuantizeOps>(name);
        const Tensors t = tensors(l, q.size(), scale.data(), low, low, threads);
        require(scale.size() == low.size() && q.size() == y.size(), "sizes differ");
        nb::gil_scoped_release release;
        dequantize(ops, t, q.data(), Codes{qmin, is_signed}, y.data());
      },
      "kernel"_a, "layout"_a, "q"_a.noconvert(), "scale"_a.noconvert(), "low"_a.noconvert(), "qmin"_a,
      "is_signed"_a, "y"_a.noconvert(), "threads"_a);
}

void bind_statistics(nb::module_& m) {
  m.def(
      "absmax",
      [](const std::string& name, const std::string& convert, const std::string& dtype, LayoutTuple l,
         AnyIn x, FloatsOut amax, int threads) {
        const auto& ops = kernel<ReduceOps>(name);
        const Layout layout = layout_of(l, x.size());
        require(amax.size() == layout.granules(), "one result per granule");
        const Source from = source(x, dtype, convert);
        nb::gil_scoped_release release;
        absmax(ops, layout, from, threads, amax.data());
      },
      "kernel"_a, "convert"_a, "dtype"_a, "layout"_a, "x"_a.noconvert(), "amax"_a.noconvert(), "threads"_a);
  m.def(
      "minmax",
      [](const std::string& name, const std::string& convert, const std::string& dtype, LayoutTuple l,
         AnyIn x, FloatsOut min, FloatsOut max, int threads) {
        const auto& ops = kernel<ReduceOps>(name);
        const Layout layout = layout_of(l, x.size());
        require(min.size() == layout.granules() && max.size() == min.size(), "one result per granule");
        const Source from = source(x, dtype, convert);
        nb::gil_scoped_release release;
        minmax(ops, layout, from, threads, min.data(), max.data());
      },
      "kernel"_a, "convert"_a, "dtype"_a, "layout"_a, "x"_a.noconvert(), "min"_a.noconvert(),
      "max"_a.noconvert(), "threads"_a);
}

void bind_histogram(nb::module_& m) {
  m.def(
      "count_pow2",
      [](const std::string& name, const std::string& convert, const std::string& dtype, AnyIn x, int exponent,
         Counts negative, Counts positive, int threads) {
        const auto& ops = kernel<HistogramOps>(name);
        const size_t bins = negative.size();
        require(bins > 0 && bins <= kMaxBins && positive.size() == bins, "1 to 2^20 bins, twice");
        const Source from = source(x, dtype, convert);
        ValueRange found;
        {
          nb::gil_scoped_release release;
          found = count_pow2(ops, from, x.size(), exponent, static_cast<uint32_t>(bins), threads,
                             negative.data(), positive.data());
        }
        ScopedFpEnv env;  // widening a denormal float must not flush it
        return std::make_tuple(static_cast<double>(found.min), static_cast<double>(found.max),
                               found.nonfinite);
      },
      "kernel"_a, "convert"_a, "dtype"_a, "x"_a.noconvert(), "exponent"_a, "negative"_a.noconvert(),
      "positive"_a.noconvert(), "threads"_a);
  m.def(
      "count_fixed",
      [](const std::string& name, const std::string& convert, const std::string& dtype, AnyIn x, float width,
         Counts counts, int threads) {
        const auto& ops = kernel<HistogramOps>(name);
        const size_t bins = counts.size();
        require(bins > 0 && bins <= kMaxBins && width > 0, "1 to 2^20 bins of positive width");
        const Source from = source(x, dtype, convert);
        nb::gil_scoped_release release;
        count_fixed(ops, from, x.size(), FixedBins{width, static_cast<uint32_t>(bins)}, threads,
                    counts.data());
      },
      "kernel"_a, "convert"_a, "dtype"_a, "x"_a.noconvert(), "width"_a, "counts"_a.noconvert(), "threads"_a);
}

using DoublesIn = Dense<const double>;

BeyondSums beyond_sums(const DoublesIn& number, const DoublesIn& value) {
  require(number.size() > 2 && value.size() == number.size(), "two sums for every bin and one behind");
  return {number.data(), value.data(), number.size() - 1};
}

void bind_squared_error(nb::module_& m) {
  m.def(
      "grid_gains",
      [](DoublesIn number, DoublesIn value, DoublesIn halfway, DoublesIn steps, DoublesIn squares,
         DoublesIn scale, DoublesOut out) {
        const BeyondSums sums = beyond_sums(number, value);
        const GridSteps grid = {halfway.data(), steps.data(), squares.data(), halfway.size()};
        require(steps.size() == grid.size && squares.size() == grid.size, "sizes differ");
        require(out.size() == scale.size(), "one result per candidate");
        nb::gil_scoped_release release;
        grid_gains(sums, grid, scale.data(), scale.size(), out.data());
      },
      "number"_a.noconvert(), "value"_a.noconvert(), "halfway"_a.noconvert(), "steps"_a.noconvert(),
      "squares"_a.noconvert(), "scale"_a.noconvert(), "out"_a.noconvert());
  m.def(
      "affine_gains",
      [](DoublesIn number, DoublesIn value, int qmin, int qmax, DoublesIn scale,
         Dense<const int32_t> zero_point, DoublesOut out) {
        const BeyondSums sums = beyond_sums(number, value);
        require(sums.bins % 2 == 0, "as many bins below 0 as above");
        require(qmin < qmax && qmin >= -(1 << 16) && qmax <= 1 << 16, "codes of at most 16 bits");
        require(zero_point.size() == scale.size() && out.size() == scale.size(), "one result per candidate");
        nb::gil_scoped_release release;
        affine_gains(sums, qmin, qmax, scale.data(), zero_point.data(), scale.size(), out.data());
      },
      "number"_a.noconvert(), "value"_a.noconvert(), "qmin"_a, "qmax"_a, "scale"_a.noconvert(),
      "zero_point"_a.noconvert(), "out"_a.noconvert());
}

// What the names of a set of flags are.
nb::list names_of(uint64_t flags) {
  nb::list names;
  for (const Feature& f : kFeatures) {
    if (flags & f.flag) names.append(f.name);
  }
  return names;
}

void bind_registry(nb::module_& m) {
  m.def("cpu_features", [] {
    nb::dict found;
    for (const Feature& f : kFeatures) found[f.name] = (cpu_features() & f.flag) != 0;
    return found;
  });
  m.def(
      "acquire",
      [](const std::vector<std::string>& names) {
        uint64_t flags = isa::none;
        for (const Feature& f : kFeatures) {
          if (std::find(names.begin(), names.end(), f.name) != names.end()) flags |= f.flag;
        }
        return acquire(flags);
      },
      "features"_a);
  m.def("kernels", [] {
    nb::list rows;
    size_t count = 0;
    const KernelInfo* all = all_kernels(&count);
    for (size_t i = 0; i < count; ++i) {
      const bool runs = (all[i].needs & cpu_features()) == all[i].needs;
      rows.append(nb::make_tuple(all[i].family, all[i].name, names_of(all[i].needs), runs));
    }
    return rows;
  });
}

NB_MODULE(_native, m) {
  // An engine that a script's globals hold is alive when the interpreter ends: that is no leak.
  nb::set_leak_warnings(false);
  bind_registry(m);
  bind_fake_quantize(m);
  bind_quantize(m);
  bind_statistics(m);
  bind_histogram(m);
  bind_squared_error(m);
  bind_choices(m);
  bind_program(m);
  bind_engine(m);
  bind_windows(m);
}

}  // namespace
}  // namespace intact
