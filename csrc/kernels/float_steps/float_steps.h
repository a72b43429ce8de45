// Functions, sums and norms of float32. The modules of intact.numerics.floats are normative. Every operation
// is rounded by itself, and sums have 16 lanes with every register width, so that all kernels give the same
// bits (of a NaN only that it is one). Rows are dense, n >= 0, without alignment; y may be an input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/byte_grid.h"
#include "base/cpu.h"

namespace intact {

// y[i] = f(x[i]).
using RealFunction = void (*)(const float* x, float* y, size_t n);

// Values of a function become bytes: to_byte(fl32(fl32(fl32(f(x) * factor) + offset) / scale)); a NaN
// becomes `low`.
struct CurveCodes {
  float factor = 1, offset = 0, scale = 1;
  ByteGrid grid{0, 0, 255};
};
// The bytes of f(x[i]); q may be x's memory.
using CurveFunction = void (*)(const float* x, size_t n, const CurveCodes& codes, uint8_t* q);

// Properties of a function f with f(x) = x + f(-x), which tends to 0 at minus infinity and to x at infinity,
// and rises for x >= 0. All but `end` are bounds of magnitudes.
struct SmoothFunction {
  double (*exact)(double x);
  double fifth;  // of the fifth derivative, if there is no end
  double error;  // of the error of the RealFunction, relative to max(1, |value|)
  double steepest;  // of the slope
  double shallow;  // of the slope below -2
  double end;  // f is 0 below -end and a quadratic on [-end, 0]; 0: f has no such end
};
extern const SmoothFunction smooth_gelu, smooth_gelu_tanh, smooth_silu, smooth_hard_swish;

struct NamedFunction {
  const char* name;  // as in numerics; nullptr ends the table
  RealFunction function;
  CurveFunction codes;
  const SmoothFunction* smooth;  // nullptr if f has no such properties
};

enum class BinaryKind : uint8_t { add, sub, mul, div, max, min, slope };
constexpr size_t kBinaryKinds = 7;

constexpr size_t kScorePitch = 64;

struct FloatOps {
  static constexpr const char* kFamily = "float_steps";
  const NamedFunction* functions;
  // y[i] = x[i] clamped to [low, high]; a NaN stays.
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
  // One row, in place, but for the last product: softmax(x * gain [+ mask]) is x times the number that
  // softmax_powers returns. It takes what softmax_peak returns, and late_gain(). Two passes, so that a caller
  // with several rows begins one while another ends.
  float (*softmax_peak)(float* x, size_t n, float gain, const float* mask);
  float (*softmax_powers)(float* x, size_t n, float gain, float peak);
  // The codes [rows][n] of softmax(x). Rows of x are `pitch` apart, a multiple of kScorePitch, and are
  // overwritten, also behind n.
  void (*softmax_codes)(float* x, size_t rows, size_t pitch, size_t n, float scale, const ByteGrid& grid,
                        uint8_t* q);
  // One row, in place: layer_norm(x [+ residual]) * weight + bias; each may be nullptr.
  void (*layer_norm)(float* x, size_t n, const float* residual, const float* weight, const float* bias,
                     float epsilon);
  // Both on `rows` rows at once, in place, with all products. Element k of row i is x[k * rows + i], as in
  // the mask and the residual. n > 0.
  void (*softmax_columns)(float* x, size_t n, size_t rows, float gain, const float* mask);
  void (*layer_norm_columns)(float* x, size_t n, size_t rows, const float* residual, const float* weight,
                             const float* bias, float epsilon);
  // numerics.recurrence: the next states from the sums of the gates (input, output, forget, candidate; n of
  // each).
  void (*lstm)(const float* gates, size_t n, float* c, float* h);
  // reset = sigmoid(gate) * state: the operand of the candidate's product, or the addend of its start.
  void (*reset)(const float* gate, const float* state, size_t n, float* reset);
  // h = (1 - z) tanh(candidate) + z h with z = sigmoid(update); [start +] the candidate.
  void (*gru)(const float* update, const float* candidate, const float* start, size_t n, float* h);
};

// What softmax_powers multiplies by. Rounded products with a positive number keep the order of x, so that
// softmax_peak needs not store them; with a mask it does.
inline float late_gain(float gain, const float* mask) {
  return mask == nullptr && gain > 0.0f && gain <= std::numeric_limits<float>::max() ? gain : 1.0f;
}

inline float softmax(const FloatOps& ops, float* x, size_t n, float gain, const float* mask) {
  const float peak = ops.softmax_peak(x, n, gain, mask);
  return ops.softmax_powers(x, n, late_gain(gain, mask), peak);
}

// The function called `name`, or nullptr.
const NamedFunction* find_function(const FloatOps& ops, const char* name);

#define INTACT_KERNEL(name, needs) extern const FloatOps name;
#include "kernels/float_steps/kernels.inc"
#undef INTACT_KERNEL

}  // namespace intact
