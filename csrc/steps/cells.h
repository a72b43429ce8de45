// What one row of a cell does between its products: numerics.recurrence, one operation after the other.
#pragma once

#include <cstddef>

#include "kernels/float_steps/float_steps.h"

namespace intact {

class CellFunctions {
 public:
  explicit CellFunctions(const FloatOps& ops)
      : ops_(ops),
        sigmoid_(find_function(ops, "sigmoid")->function),
        tanh_(find_function(ops, "tanh")->function),
        relu_(find_function(ops, "relu")->function) {}

  // gates: input, output, forget, candidate, n of each. c = f c + i g, h = o tanh(c).
  void lstm(float* gates, float* h, float* c, size_t n) const {
    float *const i = gates, *const o = gates + n, *const f = gates + 2 * n, *const g = gates + 3 * n;
    sigmoid_(gates, gates, 3 * n);
    tanh_(g, g, n);
    multiply(f, c, f, n);
    multiply(i, g, i, n);
    add(f, i, c, n);
    tanh_(c, g, n);
    multiply(o, g, h, n);
  }

  // gates: update, reset. reset = r h, what the candidate's product reads.
  void reset_before(float* gates, const float* h, float* reset, size_t n) const {
    sigmoid_(gates, gates, 2 * n);
    multiply(gates + n, h, reset, n);
  }

  // gates: update, reset, candidate's sum over states; `start` is what inputs gave the candidate.
  void reset_after(float* gates, const float* start, size_t n) const {
    float* const g = gates + 2 * n;
    sigmoid_(gates, gates, 2 * n);
    multiply(gates + n, g, g, n);
    add(start, g, g, n);
  }

  // h = (1 - z) tanh(g) + z h.
  void gru(float* gates, float* h, size_t n) const {
    float *const z = gates, *const kept = gates + n, *const g = gates + 2 * n;
    tanh_(g, g, n);
    multiply(z, h, kept, n);
    constexpr float kOne = 1.0f;
    ops_.binary[static_cast<size_t>(BinaryKind::sub)](&kOne, 0, z, 1, n, z);
    multiply(z, g, g, n);
    add(g, kept, h, n);
  }

  void tanh(const float* sums, float* h, size_t n) const { tanh_(sums, h, n); }
  void relu(const float* sums, float* h, size_t n) const { relu_(sums, h, n); }

 private:
  void add(const float* a, const float* b, float* y, size_t n) const {
    ops_.binary[static_cast<size_t>(BinaryKind::add)](a, 1, b, 1, n, y);
  }
  void multiply(const float* a, const float* b, float* y, size_t n) const {
    ops_.binary[static_cast<size_t>(BinaryKind::mul)](a, 1, b, 1, n, y);
  }

  const FloatOps& ops_;
  RealFunction sigmoid_, tanh_, relu_;
};

}  // namespace intact
