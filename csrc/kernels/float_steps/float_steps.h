// Functions, sums and norms of float32: numerics.functions and numerics.normalization, normative. Every
// operation is rounded by itself, and sums run over 16 lanes whatever the register holds, so that all kernels
// give the same bits (of a NaN: that it is one). Dense, n >= 0, no alignment needed; y may be an input.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/byte_grid.h"
#include "base/cpu.h"

namespace intact {

// y[i] = f(x[i]).
using RealFunction = void (*)(const float* x, float* y, size_t n);

// From a function's values to bytes: to_byte(fl32(fl32(fl32(f(x) * factor) + offset) / scale)), a NaN low.
struct CurveCodes {
  float factor = 1, offset = 0, scale = 1;
  ByteGrid grid{0, 0, 255};
};
// The bytes of f(x[i]); q may be x's memory.
using CurveFunction = void (*)(const float* x, size_t n, const CurveCodes& codes, uint8_t* q);

// What is known of a function f that is 0 at minus infinity and x at infinity, with f(x) = x + f(-x), and
// that rises from 0 on. All but `exact` and `end` bound magnitudes.
struct SmoothFunction {
  double (*exact)(double x);
  double fifth;  // of the fifth derivative, where there is no end
  double error;  // of the RealFunction's error, as a share of max(1, |value|)
  double steepest;  // of the slope
  double shallow;  // of the slope below -2
  double end;  // f is 0 below -end, a quadratic from there to 0; 0: it dies out slowly
};
extern const SmoothFunction smooth_gelu, smooth_gelu_tanh, smooth_silu, smooth_hard_swish;

struct NamedFunction {
  const char* name;  // of numerics; nullptr ends the table
  RealFunction function;
  CurveFunction codes;
  const SmoothFunction* smooth;  // nullptr: another kind
};

enum class BinaryKind : uint8_t { add, sub, mul, div, max, min, slope };
constexpr size_t kBinaryKinds = 7;

constexpr size_t kScorePitch = 64;

struct FloatOps {
  static constexpr const char* kFamily = "float_steps";
  const NamedFunction* functions;
  // y[i] = x[i] between low and high; a NaN stays one.
  void (*clip)(const float* x, size_t n, float low, float high, float* y);
  // y = a op b; a or b of one element when its step (0 or 1) is 0.
  void (*binary[kBinaryKinds])(const float* a, size_t a_step, const float* b, size_t b_step, size_t n,
                               float* y);
  // q = to_byte(fl32(fl32(x * b[i]) / scale)) of x = fl32((a[i] - zero) * a_scale), a NaN low.
  void (*mul_codes)(const uint8_t* a, int32_t zero, float a_scale, const float* b, size_t n, float scale,
                    const ByteGrid& grid, uint8_t* q);
  // x = fl32((byte - zero) * scale): N12.
  void (*dequantize)(const uint8_t* q, size_t n, int32_t zero, float scale, float* x);
  // byte = clamp(rne(fl32(fl32(x * factor) / scale)) + zero, low, high), a NaN low: N11.
  void (*quantize)(const float* x, size_t n, float factor, float scale, const ByteGrid& grid, uint8_t* q);
  // Over 16 lanes: numerics.lane_sum.
  float (*sum)(const float* x, size_t n);
  // One row, in place, all but its last product: softmax(x * gain [+ mask]) is x * what is returned.
  float (*softmax)(float* x, size_t n, float gain, const float* mask);
  // Rows `pitch` apart, a multiple of kScorePitch: the bytes [rows][n] that quantize() makes of softmax(x).
  // x is overwritten, also behind n.
  void (*softmax_codes)(float* x, size_t rows, size_t pitch, size_t n, float scale, const ByteGrid& grid,
                        uint8_t* q);
  // One row, in place: layer_norm(x [+ residual]) * weight + bias; each may be nullptr.
  void (*layer_norm)(float* x, size_t n, const float* residual, const float* weight, const float* bias,
                     float epsilon);
  // Both of `rows` rows at once, in place, with every product: element k of row i lies at x[k * rows + i],
  // and so do those of the mask and the residual. n > 0.
  void (*softmax_columns)(float* x, size_t n, size_t rows, float gain, const float* mask);
  void (*layer_norm_columns)(float* x, size_t n, size_t rows, const float* residual, const float* weight,
                             const float* bias, float epsilon);
  // numerics.recurrence, from sums to the next states. gates: input, output, forget, candidate, n of each.
  void (*lstm)(const float* gates, size_t n, float* c, float* h);
  // reset = sigmoid(gate) * state: what the candidate's product reads, or what is added to its start.
  void (*reset)(const float* gate, const float* state, size_t n, float* reset);
  // h = (1 - z) tanh(candidate) + z h with z = sigmoid(update); [start +] the candidate.
  void (*gru)(const float* update, const float* candidate, const float* start, size_t n, float* h);
};

// The function called `name`, or nullptr.
const NamedFunction* find_function(const FloatOps& ops, const char* name);

#define INTACT_KERNEL(name, needs) extern const FloatOps name;
#include "kernels/float_steps/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
