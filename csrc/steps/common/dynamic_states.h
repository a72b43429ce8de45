// States times codes of 8 bits: the states of all rows get one range in each step (N74).
#pragma once

#include <algorithm>
#include <optional>

#include "kernels/block_gemm/block_gemm.h"
#include "kernels/dynamic_quantize/dynamic_quantize.h"
#include "steps/block_linear.h"
#include "steps/common/block_rows.h"
#include "steps/common/lines.h"
#include "steps/common/whole_range.h"

namespace intact {

struct DynamicStates {
  const BlockGemmOps* products;
  const DynamicQuantizeOps* quantize;
  const ReduceOps* reduce;
  // Packed (steps/block_linear.h), for each direction its panels, every output as one block.
  View weight;  // u8 [bytes]
  View scales;  // f32 [directions, panels, 16]
  std::optional<View> zeros;  // u8, likewise
  View sums;  // i32, likewise
};

class DynamicStateProduct {
 public:
  DynamicStateProduct(const DynamicStates& s, size_t directions, size_t hidden, size_t columns)
      : s_(s),
        cut_(static_cast<int64_t>(hidden), static_cast<int64_t>(hidden), static_cast<int64_t>(hidden)),
        hidden_(hidden),
        columns_(columns),
        panels_((columns + kBlockPanel - 1) / kBlockPanel) {
    const size_t all = directions * panels_, values = all * kBlockPanel;
    demand_vector(s.weight, Type::u8, all * static_cast<size_t>(cut_.units) * 128, "packed codes");
    demand_vector(s.scales, Type::f32, values, "a scale for each gate of a state");
    demand_vector(s.sums, Type::i32, values, "a sum for each gate of a state");
    if (s.zeros) demand_vector(*s.zeros, Type::u8, values, "a zero point for each gate of a state");
  }

  size_t scratch(size_t rows) const { return room_at(nullptr, rows).bytes; }

  // sums[r] += fl32(the product of state a[r] with the weights of direction d), r below `rows`.
  void add(const Memory& memory, size_t d, const float* const* a, float* const* sums, size_t rows,
           uint8_t* scratch) const {
    const Room room = room_at(scratch, rows);
    lay(a, rows, room);
    const size_t at = d * panels_;
    BlockGemm g{};
    g.x = room.codes;
    g.rows = rows;
    g.negatives = room.negatives;
    g.x_scales = room.x_scales;
    g.x_zeros = room.x_zeros;
    g.x_blocks = g.w_blocks = g.pieces = g.x_every = g.w_every = 1;
    g.codes = s_.weight.at<const uint8_t>(memory) + at * static_cast<size_t>(cut_.units) * 128;
    g.scales = {s_.scales.at<const float>(memory) + at * kBlockPanel, false};
    g.zero = 128;
    if (s_.zeros) g.zeros = s_.zeros->at<const uint8_t>(memory) + at * kBlockPanel;
    g.sums = s_.sums.at<const int32_t>(memory) + at * kBlockPanel;
    g.k = hidden_;
    g.units = g.piece = static_cast<size_t>(cut_.units);
    g.y = room.y;
    g.y_pitch = g.columns = columns_;
    g.scratch = room.kernel;
    s_.products->multiply8(g);
    for (size_t r = 0; r < rows; ++r) {
      const float* const product = room.y + r * columns_;
      for (size_t j = 0; j < columns_; ++j) sums[r][j] += product[j];
    }
  }

 private:
  struct Room {
    uint8_t* rows;  // of a group
    int8_t* codes;
    int32_t *negatives, *x_zeros;
    float *x_scales, *y;
    uint8_t* kernel;
    size_t bytes;
  };

  size_t padded(size_t rows) const {
    return (rows + s_.products->group - 1) / s_.products->group * s_.products->group;
  }

  Room room_at(uint8_t* scratch, size_t rows) const {
    const size_t all = padded(rows), row = static_cast<size_t>(cut_.row_bytes());
    size_t bytes = 0;
    const auto take = [&](size_t size) {
      uint8_t* const at = scratch == nullptr ? nullptr : scratch + bytes;
      bytes += align64(size);
      return at;
    };
    Room room{};
    room.rows = take(s_.products->group * row);
    room.codes = reinterpret_cast<int8_t*>(take(all * row));
    room.negatives = reinterpret_cast<int32_t*>(take(all * 4));
    room.x_zeros = reinterpret_cast<int32_t*>(take(all * 4));
    room.x_scales = reinterpret_cast<float*>(take(all * 4));
    room.y = reinterpret_cast<float*>(take(all * columns_ * 4));
    room.kernel = take(s_.products->scratch * static_cast<size_t>(cut_.units));
    room.bytes = bytes;
    return room;
  }

  void lay(const float* const* a, size_t rows, const Room& room) const {
    WholeRange range;
    for (size_t r = 0; r < rows; ++r) range.add(*s_.reduce, a[r], hidden_);
    const float scale = range.scale(true);
    const uint8_t zero = uint8_zero(range.low, scale);
    const int32_t shift = zero - 128;
    const auto turns = s_.products->group, row_bytes = static_cast<size_t>(cut_.row_bytes());
    for (size_t first = 0; first < rows; first += turns) {
      const uint8_t* states[kBlockMostGroup] = {};
      for (size_t i = 0; i < std::min(turns, rows - first); ++i) {
        uint8_t* const codes = room.rows + i * row_bytes;
        s_.quantize->uint8_by(a[first + i], hidden_, scale, zero, codes);
        states[i] = codes;
      }
      int32_t* const negatives = room.negatives + first;
      s_.products->lay(lay_of(cut_, states, true, room.codes + first * row_bytes, negatives));
      for (size_t i = 0; i < turns; ++i) {
        room.x_scales[first + i] = scale;
        room.x_zeros[first + i] = shift;
        negatives[i] += shift * static_cast<int32_t>(hidden_);
      }
    }
  }

  DynamicStates s_;
  BlockCut cut_;
  size_t hidden_, columns_, panels_;
};

}  // namespace intact
