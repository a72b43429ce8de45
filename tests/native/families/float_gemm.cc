// Products of floats.
#include "checks.h"

namespace intact {

// Products of windows, convolutions of each channel by itself, and filters; sums begin anew, or go on.
bool check(const FloatGemmOps& ops) {
  const size_t rows = static_cast<size_t>(pick(0, 30)), columns = static_cast<size_t>(pick(1, 150));
  const size_t runs = static_cast<size_t>(pick(1, 3)), length = static_cast<size_t>(pick(0, 9));
  const size_t k = runs * length, room = 3 * 40;
  const bool across = pick(0, 1) == 0, more = pick(0, 2) == 0, wild = pick(0, 3) == 0;
  const bool begins = pick(0, 1) == 0;
  const Floats a = some_floats(rows * std::max(room, columns) + room, wild),
               b = some_floats(k * columns, wild);
  const Floats start = some_floats(columns, wild), w = some_floats(runs * columns, wild);
  const ptrdiff_t offsets[] = {3, 0, 41}, step = pick(1, 4);
  std::vector<const float*> from(rows), pixels(rows);
  for (size_t r = 0; r < rows; ++r) from[r] = a.data() + r * room;
  const auto multiply = [&](const auto& o, float* y) {
    Floats packed((columns + o.panel - 1) / o.panel * o.panel * k);
    o.pack(b.data(), across ? static_cast<ptrdiff_t>(columns) : 1, across ? 1 : static_cast<ptrdiff_t>(k), k,
           columns, packed.data());
    std::vector<float*> to(rows);
    for (size_t r = 0; r < rows; ++r) to[r] = y + r * (columns + 1);
    o.multiply({from.data(), offsets, runs, length, step, packed.data(), k * o.panel,
                begins ? start.data() : nullptr, more, to.data(), rows, columns});
  };
  const auto depthwise = [&](const auto& o, float* y) {
    std::vector<float*> to(rows);
    for (size_t r = 0; r < rows; ++r) to[r] = y + r * (columns + 1);
    o.depthwise({pixels.data(), offsets, runs, w.data(), start.data(), to.data(), rows, columns});
  };
  const auto filter = [&](const auto& o, float* y) {
    if (rows > 0) o.filter({a.data(), offsets, runs, w.data(), columns, start[0], y, rows * columns});
  };
  const Floats y = some_floats(rows * (columns + 1) + 9, false), x = some_floats(rows + columns + 50, wild);
  for (size_t r = 0; r < rows; ++r) pixels[r] = x.data() + r;
  return differs(ops, float_gemm_ref, y, multiply) || differs(ops, float_gemm_ref, y, depthwise) ||
         differs(ops, float_gemm_ref, y, filter);
}

}  // namespace intact
