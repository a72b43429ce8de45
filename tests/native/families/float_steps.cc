// Functions of floats, in rows and in columns.
#include "checks.h"

namespace intact {
namespace {

bool check_rows(const FloatOps& ops, size_t n) {
  const Floats x = some_floats(n, pick(0, 3) == 0), mask = some_floats(n, false);
  const bool masked = pick(0, 1) == 0;
  const auto copy = [&](float* y) { std::copy(x.begin(), x.end(), y); };
  const Floats y(n + 9, 7);
  return differs(ops, float_steps_ref, y, [&](const auto& o, float* to) { to[n] = o.sum(x.data(), n); }) ||
         differs(ops, float_steps_ref, y,
                 [&](const auto& o, float* to) {
                   copy(to);
                   const float gain = softmax(o, to, n, 0.37f, masked ? mask.data() : nullptr);
                   for (size_t i = 0; i < n; ++i)
                     to[i] = to[i] * gain;  // where one is no number, all are none
                 }) ||
         differs(ops, float_steps_ref, y, [&](const auto& o, float* to) {
           copy(to);
           o.layer_norm(to, n, mask.data(), x.data(), mask.data(), 1e-5f);
         });
}

// Short rows side by side: of a block every kernel makes what the plain one makes of each row.
bool check_columns(const FloatOps& ops, size_t rows) {
  const auto n = static_cast<size_t>(pick(1, 40));
  const Floats x = some_floats(n * rows, pick(0, 3) == 0), other = some_floats(n * rows + n, false);
  const float* const second = pick(0, 1) == 0 ? other.data() : nullptr;
  // Compares `columns` on the block with `row`, which returns a factor, on its rows.
  const auto differ = [&](const auto& columns, const auto& row) {
    Floats got = x, want = x, values(n), beside(n);
    columns(got.data());
    for (size_t i = 0; i < rows; ++i) {
      for (size_t k = 0; k < n; ++k) {
        values[k] = x[k * rows + i];
        if (second != nullptr) beside[k] = second[k * rows + i];
      }
      const float factor = row(values.data(), second == nullptr ? nullptr : beside.data());
      for (size_t k = 0; k < n; ++k) want[k * rows + i] = values[k] * factor;
    }
    return !same(got, want);
  };
  const float* const weight = other.data();
  return differ(
             [&](float* block) { ops.softmax_columns(block, n, rows, 0.37f, second); },
             [&](float* row, const float* mask) { return softmax(float_steps_ref, row, n, 0.37f, mask); }) ||
         differ([&](float* block) { ops.layer_norm_columns(block, n, rows, second, weight, weight, 1e-5f); },
                [&](float* row, const float* residual) {
                  float_steps_ref.layer_norm(row, n, residual, weight, weight, 1e-5f);
                  return 1.0f;
                });
}

// Rows of states, in place.
bool check_cells(const FloatOps& ops, size_t n) {
  const Floats gates = some_floats(4 * n, false), state = some_floats(2 * n, false);
  const auto changes = [&](const auto& body) {
    return differs(ops, float_steps_ref, Floats(2 * n + 9, 7), [&](const auto& o, float* y) {
      std::copy(state.begin(), state.end(), y);
      body(o, y);
    });
  };
  const float* const start = pick(0, 1) == 0 ? state.data() : nullptr;
  return changes([&](const auto& o, float* y) { o.lstm(gates.data(), n, y, y + n); }) ||
         changes([&](const auto& o, float* y) { o.reset(gates.data(), state.data(), n, y); }) ||
         changes([&](const auto& o, float* y) { o.gru(gates.data(), gates.data() + n, start, n, y); });
}

bool check_codes(const FloatOps& ops, size_t n) {
  const Floats x = some_floats(n, true);
  const Bytes q = some_bytes(n);
  const ByteGrid grid = some_grid();
  const size_t pitch = (n + kScorePitch) / kScorePitch * kScorePitch;
  Floats scores = some_floats(2 * pitch, false);
  return differs(ops, float_steps_ref, Bytes(n + 9, 7),
                 [&](const auto& o, uint8_t* y) { o.quantize(x.data(), n, 1.5f, 0.25f, grid, y); }) ||
         differs(ops, float_steps_ref, Bytes(n + 9, 7),
                 [&](const auto& o, uint8_t* y) {
                   o.mul_codes(q.data(), 100, 0.3f, x.data(), n, 0.25f, grid, y);
                 }) ||
         differs(ops, float_steps_ref, Floats(n + 9, 7),
                 [&](const auto& o, float* y) { o.dequantize(q.data(), n, 100, 0.3f, y); }) ||
         differs(ops, float_steps_ref, Bytes(2 * n + 9, 7), [&](const auto& o, uint8_t* y) {
           Floats rows = scores;
           o.softmax_codes(rows.data(), 2, pitch, n, 1.0f / 256, {0, 0, 255}, y);
         });
}

}  // namespace

bool check(const FloatOps& ops) {
  const size_t n = some_size();
  const Floats a = some_floats(n, true), b = some_floats(n, true), y(n + 9, 7);
  for (size_t i = 0; ops.functions[i].name != nullptr; ++i) {
    const auto map = [&](const auto& o, float* to) { o.functions[i].function(a.data(), to, n); };
    if (differs(ops, float_steps_ref, y, map)) return true;
  }
  const CurveCodes codes{-1.25f, 0.5f, 0.125f, some_grid()};
  for (size_t i = 0; ops.functions[i].name != nullptr; ++i) {
    const auto curve = [&](const auto& o, uint8_t* to) { o.functions[i].codes(a.data(), n, codes, to); };
    if (differs(ops, float_steps_ref, Bytes(n + 9, 7), curve)) return true;
  }
  for (size_t kind = 0; kind < kBinaryKinds; ++kind) {
    const auto a_step = static_cast<size_t>(pick(0, 1)), b_step = static_cast<size_t>(pick(0, 1));
    const auto combine = [&](const auto& o, float* to) {
      o.binary[kind](a.data(), a_step, b.data(), b_step, n, to);
    };
    if (differs(ops, float_steps_ref, y, combine)) return true;
  }
  const auto clip = [&](const auto& o, float* to) { o.clip(a.data(), n, -1.5f, 30.0f, to); };
  return differs(ops, float_steps_ref, y, clip) || check_rows(ops, n) || check_cells(ops, n) ||
         check_codes(ops, n) || check_columns(ops, n);
}

}  // namespace intact
