// Makers of the steps that compute in floats, and of the product of two tensors of codes.
#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "steps/attention.h"
#include "steps/matmul.h"
#include "steps/norms.h"
#include "steps/float_steps.h"
#include "steps/reduce.h"

namespace intact {
namespace {

using GridTuple = std::array<int32_t, 3>;  // zero, low, high

ByteGrid grid_of(const GridTuple& g) { return {g[0], g[1], g[2]}; }

BinaryKind kind_of(const std::string& name) {
  constexpr const char* kNames[kBinaryKinds] = {"add", "sub", "mul", "div", "max", "min", "slope"};
  for (size_t i = 0; i < kBinaryKinds; ++i) {
    if (name == kNames[i]) return static_cast<BinaryKind>(i);
  }
  throw nb::value_error("no such function of two floats");
}

std::vector<std::string> functions(const std::string& floats) {
  std::vector<std::string> names;
  for (const NamedFunction* f = kernel<FloatOps>(floats).functions; f->name; ++f) names.emplace_back(f->name);
  return names;
}

// The bounds of the fifth derivative, the error and the slopes, and the end, by name.
std::map<std::string, std::array<double, 5>> smooth_functions(const std::string& floats) {
  std::map<std::string, std::array<double, 5>> found;
  for (const NamedFunction* f = kernel<FloatOps>(floats).functions; f->name; ++f) {
    if (const SmoothFunction* s = f->smooth) {
      found[f->name] = {s->fifth, s->error, s->steepest, s->shallow, s->end};
    }
  }
  return found;
}

}  // namespace

void bind_float_steps(nb::module_& m) {
  nb::class_<RealIn>(m, "RealIn")
      .def(nb::new_([](const View& view, int32_t zero, float scale) { return RealIn{view, zero, scale}; }),
           "view"_a, "zero"_a, "scale"_a);
  nb::class_<RealOut>(m, "RealOut")
      .def(nb::new_([](const View& view, float scale, GridTuple grid) {
             return RealOut{view, scale, grid_of(grid)};
           }),
           "view"_a, "scale"_a, "grid"_a);
  m.def("real_functions", &functions, "float_steps"_a);
  m.def("smooth_functions", &smooth_functions, "float_steps"_a);
  m.def(
      "step_function",
      [](const std::string& floats, const std::string& transpose, const RealIn& x, const RealOut& y,
         std::string function) {
        return native(make_function(kernel<FloatOps>(floats), kernel<TransposeOps>(transpose),
                                    {x, y, std::move(function)}));
      },
      "float_steps"_a, "transpose"_a, "x"_a, "y"_a, "function"_a);
  m.def(
      "step_clip",
      [](const std::string& floats, const std::string& transpose, const RealIn& x, const RealOut& y,
         float low, float high) {
        return native(
            make_clip(kernel<FloatOps>(floats), kernel<TransposeOps>(transpose), {x, y, low, high}));
      },
      "float_steps"_a, "transpose"_a, "x"_a, "y"_a, "low"_a, "high"_a);
  m.def(
      "step_fake_quantize",
      [](const std::string& floats, const std::string& transpose, const std::string& fake_quantize,
         const RealIn& x, const RealOut& y, float scale, float low, float high) {
        return native(make_fake_quantize(kernel<FloatOps>(floats), kernel<TransposeOps>(transpose),
                                         kernel<FakeQuantizeOps>(fake_quantize), {x, y, scale, low, high}));
      },
      "float_steps"_a, "transpose"_a, "fake_quantize"_a, "x"_a, "y"_a, "scale"_a, "low"_a, "high"_a);
  m.def(
      "step_binary",
      [](const std::string& floats, const std::string& transpose, const RealIn& a, const RealIn& b,
         const RealOut& y, const std::string& function) {
        return native(make_binary(kernel<FloatOps>(floats), kernel<TransposeOps>(transpose),
                                  {a, b, y, kind_of(function)}));
      },
      "float_steps"_a, "transpose"_a, "a"_a, "b"_a, "y"_a, "function"_a);
  m.def(
      "step_softmax",
      [](const std::string& floats, const std::string& transpose, const RealIn& x, const RealOut& y,
         float gain, const std::optional<RealIn>& mask) {
        return native(
            make_softmax(kernel<FloatOps>(floats), kernel<TransposeOps>(transpose), {x, mask, y, gain}));
      },
      "float_steps"_a, "transpose"_a, "x"_a, "y"_a, "gain"_a, "mask"_a.none());
  m.def(
      "step_reduce",
      [](const std::string& floats, const std::string& reduce, const std::string& transpose, const RealIn& x,
         const RealOut& y, const std::string& function) {
        return native(make_reduce(kernel<FloatOps>(floats), kernel<ReduceOps>(reduce),
                                  kernel<TransposeOps>(transpose), {x, y, function}));
      },
      "float_steps"_a, "reduce"_a, "transpose"_a, "x"_a, "y"_a, "function"_a);
  m.def(
      "step_layer_norm",
      [](const std::string& floats, const std::string& transpose, const RealIn& x, const RealOut& y,
         float epsilon, const std::optional<RealIn>& residual, const std::optional<View>& weight,
         const std::optional<View>& bias, const std::optional<RealOut>& codes,
         const std::optional<View>& factors) {
        return native(make_layer_norm(kernel<FloatOps>(floats), kernel<TransposeOps>(transpose),
                                      {x, residual, weight, bias, y, codes, factors, epsilon}));
      },
      "float_steps"_a, "transpose"_a, "x"_a, "y"_a, "epsilon"_a, "residual"_a.none(), "weight"_a.none(),
      "bias"_a.none(), "codes"_a.none(), "factors"_a.none());
  nb::class_<MatMulSpec>(m, "MatMulSpec")
      .def(nb::new_([](const View& a, const View& b, const View& y, std::array<int32_t, 2> zeros,
                       const EpilogueSpec& epilogue) {
             return MatMulSpec{a, b, y, {zeros[0], zeros[1]}, epilogue};
           }),
           "a"_a, "b"_a, "y"_a, "zeros"_a, "epilogue"_a);
  m.def(
      "step_attention",
      [](const std::string& matmul, const std::string& floats, const MatMulSpec& scores, float scale,
         float gain, const std::optional<RealIn>& mask, float probability_scale, GridTuple probabilities,
         const MatMulSpec& product) {
        return native(
            make_attention(kernel<MatMulOps>(matmul), kernel<FloatOps>(floats),
                           {scores, scale, gain, mask, probability_scale, grid_of(probabilities), product}));
      },
      "matmul"_a, "float_steps"_a, "scores"_a, "scale"_a, "gain"_a, "mask"_a.none(), "probability_scale"_a,
      "probabilities"_a, "product"_a);
  m.def(
      "step_matmul",
      [](const std::string& matmul, const MatMulSpec& product) {
        return native(make_matmul(kernel<MatMulOps>(matmul), product));
      },
      "matmul"_a, "product"_a);
}

}  // namespace intact
