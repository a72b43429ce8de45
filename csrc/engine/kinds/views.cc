#include "engine/kinds/views.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/failure.h"
#include "steps/copy.h"
#include "steps/rescale.h"
#include "steps/table.h"

namespace intact::engine {
namespace {

constexpr float kMultiplierLimit = 0x1p95f;  // as numerics.integers.multipliers has it

// The byte of y for each byte (N28).
std::array<uint8_t, 256> rescaled(const Codes& x, const Codes& y) {
  std::array<uint8_t, 256> table;
  for (int byte = 0; byte < 256; ++byte) {
    const float real = static_cast<float>(byte - x.offset() - x.zero_point) * x.scale32();
    const float steps = std::nearbyint(real / y.scale32());
    const double code =
        std::clamp<double>(static_cast<double>(steps) + y.zero_point, y.format_low(), y.format_high());
    table[static_cast<size_t>(byte)] =
        static_cast<uint8_t>(std::clamp(static_cast<int>(code) + y.offset(), y.byte_low(), y.byte_high()));
  }
  return table;
}

bool gives(const std::array<uint8_t, 256>& table, float multiplier, const Codes& x, const ByteGrid& grid) {
  for (int byte = 0; byte < 256; ++byte) {
    const float steps =
        std::nearbyint(static_cast<float>(byte - x.zero()) * multiplier) + static_cast<float>(grid.zero);
    const float clamped = std::clamp(steps, static_cast<float>(grid.low), static_cast<float>(grid.high));
    if (clamped != static_cast<float>(table[static_cast<size_t>(byte)])) return false;
  }
  return true;
}

}  // namespace

Axes sizes_of(const View& x) { return axes_of(x.sizes, x.rank); }
Axes strides_of(const View& x) { return axes_of(x.strides, x.rank); }

View part_of(View x, size_t offset, const Axes& sizes, const Axes& strides) {
  x.offset = offset;
  x.rank = sizes.rank;
  x.sizes = view_axes(sizes);
  x.strides = view_axes(strides);
  x.halo = kNoHalo;
  return x;
}

View slice_of(const View& x, const std::vector<int64_t>& starts, const Shape& shape,
              const std::vector<int64_t>& hops) {
  int64_t offset = static_cast<int64_t>(x.offset);
  Axes strides = strides_of(x);
  const bool there = elements(shape) != 0;
  for (int i = 0; i < x.rank; ++i) {
    const auto at = static_cast<size_t>(i);
    if (there) offset += starts[at] * strides[i];
    // Of one element it leads nowhere, and may be any number.
    if (!hops.empty()) strides[i] = shape[i] > 1 ? strides[i] * hops[at] : 0;
  }
  return part_of(x, static_cast<size_t>(offset), shape, strides);
}

View dense_under(const View& x, const Shape& shape) {
  return part_of(x, x.offset, shape, dense_strides(shape, static_cast<int64_t>(bytes_of(x.type))));
}

bool is_dense(const View& x) {
  const Shape sizes = sizes_of(x);
  return same_strides(sizes, strides_of(x), dense_strides(sizes, static_cast<int64_t>(bytes_of(x.type))));
}

View spread(const View& x, const Shape& shape) {
  Axes strides;
  const int missing = shape.rank - x.rank;
  for (int i = 0; i < shape.rank; ++i) {
    strides.push(i < missing || x.sizes[i - missing] == 1 ? 0 : x.strides[i - missing]);
  }
  return part_of(x, x.offset, shape, strides);
}

RealIn spread(RealIn x, const Shape& shape) {
  x.view = spread(x.view, shape);
  return x;
}

View turned(const View& x, std::span<const int> order) {
  Axes sizes, strides;
  for (const int axis : order) {
    sizes.push(x.sizes[static_cast<size_t>(axis)]);
    strides.push(x.strides[static_cast<size_t>(axis)]);
  }
  return part_of(x, x.offset, sizes, strides);
}

bool rows_of(const View& x, View& rows) {
  Axes sizes, strides;
  for (int i = x.rank; i-- > 0;) {  // innermost first
    const int64_t size = x.sizes[i], stride = x.strides[i];
    if (sizes.rank < 2) {
      sizes.push(size);
      strides.push(stride);
    } else if (sizes[1] == 1) {
      sizes[1] = size;
      strides[1] = stride;
    } else if (size != 1) {
      if (stride != strides[1] * sizes[1]) return false;
      sizes[1] = product(sizes[1], size);
    }
  }
  rows = part_of(x, x.offset, {sizes[1], sizes[0]}, {strides[1], strides[0]});
  return true;
}

namespace {

// As one matrix of rows side by side.
bool matrix_of(const View& x, View& rows) {
  const auto itemsize = static_cast<int64_t>(bytes_of(x.type));
  if (x.rank < 2) {
    const int64_t n = x.rank == 0 ? 1 : x.sizes[0];
    rows = part_of(x, x.offset, {1, n}, {n * itemsize, itemsize});
    return n < 2 || x.strides[0] == itemsize;
  }
  if (const Shape sizes = sizes_of(x); sizes.has(0)) {  // of nothing strides say nothing
    const int64_t columns = sizes.last(), count = product(std::span(sizes.begin(), sizes.end() - 1));
    rows = part_of(x, x.offset, {count, columns}, {columns * itemsize, itemsize});
    return true;
  }
  if (!rows_of(x, rows)) return false;
  if (rows.sizes[1] < 2) rows.strides[1] = itemsize;  // a single element leads nowhere
  return rows.strides[1] == itemsize;
}

}  // namespace

View rows_read(Binding& binding, int value) {
  const View view = binding.view(value);
  View rows;
  if (matrix_of(view, rows)) return rows;
  const View dense = binding.temporary(view.type, sizes_of(view));
  binding.add(make_copy(*binding.kernels.transpose, {view, dense}));
  matrix_of(dense, rows);
  return rows;
}

RowsWritten::RowsWritten(Binding& binding, int value) : whole_(binding.view(value)), dense_(whole_) {
  if (matrix_of(whole_, rows_)) return;
  dense_ = binding.temporary(whole_.type, sizes_of(whole_));
  matrix_of(dense_, rows_);
}

void RowsWritten::finish(Binding& binding) const {
  if (!Binding::same_memory(dense_, whole_))
    binding.add(make_copy(*binding.kernels.transpose, {dense_, whole_}));
}

void move(Binding& binding, int from, const View& x, int to, const View& y) {
  const Codes *a = binding.grid(from), *b = binding.grid(to);
  const Kernels& kernels = binding.kernels;
  const bool within = a != nullptr && b != nullptr && b->low <= a->low && a->high <= b->high;
  if (a == nullptr || b == nullptr || (a->same_numbers(*b) && within)) {
    if (!Binding::same_memory(x, y)) binding.add(make_copy(*kernels.transpose, {x, y}));
    return;
  }
  const ByteGrid grid = b->grid();
  const auto table = rescaled(*a, *b);
  const auto nearest = static_cast<float>(a->scale / b->scale);
  for (const float multiplier : {nearest, std::nextafter(nearest, 0.0f),
                                 std::nextafter(nearest, std::numeric_limits<float>::infinity())}) {
    if (!(multiplier < kMultiplierLimit) || !gives(table, multiplier, *a, grid)) continue;
    binding.add(make_rescale(*kernels.pointwise, {x, y, {a->zero(), multiplier}, grid}));
    return;
  }
  binding.add(
      make_table(*kernels.pointwise, {x, binding.hold(table.data(), table.size(), Type::u8, {256}), y}));
}

void regrid(Binding& binding, int from, int to, const View& y) { move(binding, from, y, to, y); }

void check_indices(Binding& binding, int index, const std::vector<int64_t>& sizes) {
  const bool is_fixed = std::count(binding.step().fixed.begin(), binding.step().fixed.end(), index) > 0;
  if (!binding.plan.is_constant(index) && !is_fixed) return;
  const auto check = [&](auto values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t size = sizes[i % sizes.size()], row = values[i];
      if (row >= -size && row < size) continue;
      fail(INTACT_BAD_INDEX, "'" + binding.plan.name(index) + "'", "index " + std::to_string(row),
           "rows that are there");
    }
  };
  const Plan& plan = binding.plan;
  if ((plan.is_constant(index) ? plan.constant(index).type : plan.tensor(index).type) == Type::i64) {
    check(binding.fixed<int64_t>(index));
  } else {
    check(binding.fixed<int32_t>(index));
  }
}

}  // namespace intact::engine
