// Products with weights in blocks.
#include <array>
#include <optional>

#include "base/half.h"
#include "checks.h"

namespace intact {
namespace {

// The sides of a product, laid out as a kernel wants them.
struct BlockSides {
  size_t rows, k, columns, piece, x_every, w_every, units, pieces, x_blocks, w_blocks, panels, width;
  std::vector<int8_t> x;
  Bytes codes, zeros, table;
  Floats values, floats, x_scales, bias;
  std::vector<int32_t> x_zeros;
  bool has_zeros, has_minima, has_x_zeros, has_table;
  int bits;
  int32_t zero;

  // Numbers of blocks, perhaps in two levels.
  struct Numbers {
    Floats floats;
    std::vector<uint16_t> halves;
    std::vector<int8_t> fine;
    bool is_half;
    size_t each;

    Numbers(size_t panels, size_t blocks) : is_half(pick(0, 1) == 0), each(1) {
      const bool has_levels = pick(0, 1) == 0;
      while (has_levels && (blocks % each != 0 || pick(0, 1) == 0)) each = each % blocks + 1;
      floats = some_floats(panels * (blocks / each) * kBlockPanel, false);
      for (const float number : floats) halves.push_back(float_to_half(number));
      if (has_levels) fine.resize(panels * blocks * kBlockPanel);
      for (int8_t& number : fine) number = static_cast<int8_t>(pick(-128, 127));
    }

    BlockReals reals() const {
      BlockReals found;
      found.values = is_half ? static_cast<const void*>(halves.data()) : floats.data();
      found.is_half = is_half;
      if (!fine.empty()) found.fine = fine.data();
      found.each = each;
      return found;
    }

    // As a step gives them to a kernel; `products` holds those of two levels.
    BlockReals reals(const BlockGemmOps& ops, size_t rows, size_t panels, size_t blocks,
                     Floats& products) const {
      BlockReals found = reals();
      if (fine.empty() || rows <= ops.few_rows) return found;
      products.resize(panels * blocks * kBlockPanel);
      for (size_t panel = 0; panel < panels; ++panel) {
        const size_t first = panel * (blocks / each) * kBlockPanel;
        found.values = is_half ? static_cast<const void*>(halves.data() + first) : floats.data() + first;
        found.fine = fine.data() + panel * blocks * kBlockPanel;
        const size_t half = blocks / 2;  // parts begin within super-blocks, too
        float* const to = products.data() + panel * blocks * kBlockPanel;
        ops.multiply_levels(found, 0, half, to);
        ops.multiply_levels(found, half, blocks - half, to + half * kBlockPanel);
      }
      found = {};
      found.values = products.data();
      return found;
    }
  };
  std::optional<Numbers> scales, minima;

  BlockSides() : rows(static_cast<size_t>(pick(1, 37))), k(static_cast<size_t>(pick(1, 150))) {
    const auto some = [](int low, int high) { return static_cast<size_t>(pick(low, high)); };
    columns = some(1, 40);
    bits = std::array{4, 5, 6, 8}[some(0, 3)];
    has_table = bits == 4 && pick(0, 1) == 0;
    if (has_table) table = some_bytes(kBlockTableSize);
    if (has_table) values = some_floats(kBlockTableSize, false);
    const int wide_bits = has_table ? 8 : bits;
    if (bits == 5 || bits == 6) k = some(1, 5) * block_units(bits) * kBlockUnit;
    units = (k + kBlockUnit - 1) / kBlockUnit;
    const size_t whole = pick(0, 1) == 0 ? 1 : block_units(bits);  // units
    piece = some(1, static_cast<int>(units / whole)) * whole;
    pieces = (units + piece - 1) / piece;
    x_every = pick(0, 1) == 0 ? 1 : some(1, static_cast<int>(pieces));
    w_every = x_every > 1 ? 1 : some(1, static_cast<int>(pieces));
    x_blocks = (pieces + x_every - 1) / x_every;
    w_blocks = (pieces + w_every - 1) / w_every;
    panels = (columns + kBlockPanel - 1) / kBlockPanel;
    width = std::array{4, 8, 16}[some(0, 2)];
    has_zeros = pick(0, 1) == 0;
    has_minima = pick(0, 1) == 0;
    has_x_zeros = pick(0, 1) == 0;
    floats = some_floats(rows * k, false);
    x.resize(rows * k);
    for (int8_t& code : x) code = static_cast<int8_t>(pick(-128, 127));
    codes = some_bytes(panels * units * static_cast<size_t>(bits) * 16);
    zeros = some_bytes(panels * w_blocks * kBlockPanel, (1 << wide_bits) - 1);
    scales.emplace(panels, w_blocks);
    if (has_minima) minima.emplace(panels, w_blocks);
    const std::array<int, 3> points{0, 1 << (wide_bits - 1), pick(0, (1 << wide_bits) - 1)};
    zero = points[some(0, 2)];
    bias = some_floats(panels * kBlockPanel, false);
    x_scales = some_floats(rows * x_blocks, false);
    x_zeros.resize(rows * x_blocks);
    for (int32_t& zero : x_zeros) zero = has_x_zeros ? pick(-128, 127) : 0;
  }

  void run(const BlockGemmOps& ops, float* y) const {
    const size_t group = ops.group, groups = (rows + group - 1) / group, row_bytes = units * kBlockUnit;
    std::vector<int8_t> laid(groups * group * row_bytes);
    std::vector<int32_t> negatives(groups * group * pieces), shifts(groups * group * x_blocks);
    Floats ranges(groups * group * x_blocks);
    for (size_t first = 0; first < rows; first += group) {
      std::vector<const uint8_t*> from(group);
      for (size_t row = first; row < std::min(rows, first + group); ++row)
        from[row - first] = reinterpret_cast<const uint8_t*>(x.data()) + row * k;
      ops.lay({from.data(), has_x_zeros, k, units, pieces, piece, laid.data() + first * row_bytes,
               negatives.data() + first * pieces});
      for (size_t row = first; row < std::min(rows, first + group); ++row) {
        const size_t turn = row - first;
        for (size_t b = 0; b < x_blocks; ++b) {
          ranges[first * x_blocks + b * group + turn] = x_scales[row * x_blocks + b];
          shifts[first * x_blocks + b * group + turn] = x_zeros[row * x_blocks + b];
        }
        for (size_t i = 0; i < k; ++i)
          negatives[first * pieces + i / kBlockUnit / piece * group + turn] +=
              x_zeros[row * x_blocks + i / kBlockUnit / piece / x_every];
      }
    }
    const std::vector<int32_t> sums = sums_of_codes();
    std::vector<uint8_t> scratch(ops.scratch * units + 64);
    BlockGemm g{};
    g.x = laid.data();
    g.rows = rows;
    g.negatives = negatives.data();
    g.x_scales = ranges.data();
    g.x_zeros = has_x_zeros ? shifts.data() : nullptr;
    g.x_blocks = x_blocks;
    g.codes = codes.data();
    g.table = table.data();
    Floats scale_products, minimum_products;
    g.scales = scales->reals(ops, rows, panels, w_blocks, scale_products);
    g.zeros = has_zeros ? zeros.data() : nullptr;
    g.zero = zero;
    if (minima) g.minima = minima->reals(ops, rows, panels, w_blocks, minimum_products);
    g.sums = has_x_zeros ? sums.data() : nullptr;
    g.w_blocks = w_blocks;
    g.bias = has_minima ? bias.data() : nullptr;
    g.k = k;
    g.units = units;
    g.pieces = pieces;
    g.piece = piece;
    g.x_every = x_every;
    g.w_every = w_every;
    g.y = y;
    g.y_pitch = columns;
    g.columns = columns;
    g.scratch = scratch.data();
    Bytes wide;
    if ((bits == 5 || bits == 6) && (rows > ops.few_rows || piece % block_units(bits) != 0)) {
      wide.resize(panels * units * 128);
      (bits == 5 ? ops.expand5 : ops.expand6)(codes.data(), panels * units, wide.data());
      g.codes = wide.data();
      return ops.multiply8(g);
    }
    if (has_table && rows <= ops.few_rows) return ops.multiply_table(g);
    if (has_table) {
      wide.resize(panels * units * 128);
      ops.expand_table(codes.data(), panels * units, table.data(), wide.data());
      g.codes = wide.data();
      return ops.multiply8(g);
    }
    (bits == 4 ? ops.multiply4 : bits == 5 ? ops.multiply5 : bits == 6 ? ops.multiply6 : ops.multiply8)(g);
  }

  void run_floats(const BlockGemmOps& ops, float* y) const {
    std::vector<const float*> a(rows);
    std::vector<float*> to(rows);
    for (size_t row = 0; row < rows; ++row) {
      a[row] = floats.data() + row * k;
      to[row] = y + row * columns;
    }
    BlockFloatRows g{};
    g.a = a.data();
    g.rows = rows;
    g.k = k;
    g.units = units;
    g.codes = codes.data();
    g.table = has_table ? values.data() : nullptr;
    g.scales = scales->reals();
    g.zeros = has_zeros && !has_table ? zeros.data() : nullptr;
    g.zero = zero;
    g.w_blocks = w_blocks;
    g.piece = piece * w_every;
    g.start = has_minima ? bias.data() : nullptr;
    g.y = to.data();
    g.columns = columns;
    bits == 4 ? ops.float_rows4(g) : ops.float_rows8(g);
  }

  // All weights as floats, for products of another width.
  void run_widen(const BlockGemmOps& ops, float* y) const {
    BlockFloats w{};
    w.codes = codes.data();
    w.table = has_table ? values.data() : nullptr;
    w.zeros = has_zeros && !has_table ? zeros.data() : nullptr;
    w.zero = zero;
    w.piece = piece * w_every;
    w.units = units;
    w.to = y;
    w.width = width;
    w.pitch = units * kBlockUnit * width;
    Floats scale_products, minimum_products;
    w.scales = scales->reals(ops, ~size_t{0}, 1, w_blocks, scale_products);
    if (minima) w.minima = minima->reals(ops, ~size_t{0}, 1, w_blocks, minimum_products);
    bits == 4 ? ops.widen4(w) : ops.widen8(w);
  }

  // Of real elements alone: those behind the last one are multiplied by 0, whatever they are.
  std::vector<int32_t> sums_of_codes() const {
    std::vector<int32_t> sums(panels * pieces * kBlockPanel);
    for (size_t panel = 0; panel < panels; ++panel) {
      for (size_t i = 0; i < k; ++i) {
        const size_t unit = i / kBlockUnit;
        for (size_t lane = 0; lane < kBlockPanel; ++lane) {
          const uint8_t* const from = codes.data() + panel * units * static_cast<size_t>(bits) * 16;
          const uint8_t code = block_code(from, bits, i, lane);
          sums[(panel * pieces + unit / piece) * kBlockPanel + lane] += has_table ? table[code] : code;
        }
      }
    }
    return sums;
  }
};

}  // namespace

bool check(const BlockGemmOps& ops) {
  const BlockSides sides;
  return differs(ops, block_gemm_ref, Floats(sides.rows * sides.columns + 9, 7),
                 [&](const auto& o, float* y) { sides.run(o, y); }) ||
         (sides.bits % 4 == 0 && differs(ops, block_gemm_ref, Floats(sides.rows * sides.columns + 9, 7),
                                         [&](const auto& o, float* y) { sides.run_floats(o, y); })) ||
         (sides.bits % 4 == 0 && differs(ops, block_gemm_ref, Floats(sides.units * 128 + 9, 7),
                                         [&](const auto& o, float* y) { sides.run_widen(o, y); }));
}

}  // namespace intact
