// Numbers of blocks of weights in panels: scales and minima, in one level or in two.
#pragma once

#include <optional>

#include "kernels/block_gemm/block_gemm.h"
#include "runtime/memory.h"
#include "steps/common/origin.h"
#include "steps/common/views.h"

namespace intact {

// One for each block; or integers of blocks, each multiplied by the number of its super-block.
struct BlockValues {
  View reals;  // f32 or f16 [panels, blocks or supers, 16]
  std::optional<View> fine;  // i8 [panels, blocks, 16]

  // What a step that reads them declares.
  template <class Reads>
  void declare(const Reads& reads) const {
    reads(reals);
    if (fine) reads(*fine);
  }
};

// Gives kernels the numbers of panels; products of two levels are worked out in scratch, for a few panels
// at a time, where a kernel does not do that itself.
class BlockValuesReader {
 public:
  // Throws std::invalid_argument unless each of the blocks of so many panels has a number.
  BlockValuesReader(const BlockGemmOps& ops, const BlockValues& values, int64_t panels, int64_t blocks,
                    const char* what)
      : ops_(ops),
        numbers_(values.reals),
        is_half_(values.reals.type == Type::f16),
        blocks_(blocks),
        reals_(blocks) {
    demand(panels > 0 && blocks > 0, what);
    const auto size_of = [&](int64_t each) { return static_cast<size_t>(panels * each) * kBlockPanel; };
    if (values.fine) {
      demand_vector(*values.fine, Type::i8, size_of(blocks), what);
      reals_ = values.reals.rank == 1 ? values.reals.sizes[0] / (panels * kPanel) : 0;
      demand(reals_ > 0 && blocks % reals_ == 0, "whole super-blocks");
      fine_.emplace(*values.fine);
    }
    demand_vector(values.reals, is_half_ ? Type::f16 : Type::f32, size_of(reals_), what);
  }

  bool has_levels() const { return fine_.has_value(); }

  // Numbers of panels from `panel` on, as they are.
  BlockReals read(const Memory& memory, int64_t panel) const {
    BlockReals found = reals(memory, panel * reals_);
    if (!fine_) return found;
    found.fine = fine_->at<const int8_t>(memory) + panel * blocks_ * kPanel;
    found.each = static_cast<size_t>(blocks_ / reals_);
    return found;
  }

  // Numbers in one level of `panels` panels, of blocks [from, from + count) of one panel or of all blocks of
  // several. `to` takes the products of two levels, [panels][count][16].
  BlockReals read(const Memory& memory, int64_t panel, int64_t panels, int64_t from, int64_t count,
                  float* to) const {
    if (!fine_) return reals(memory, panel * blocks_ + from);
    for (int64_t p = 0; p < panels; ++p) {
      ops_.multiply_levels(read(memory, panel + p), static_cast<size_t>(from), static_cast<size_t>(count),
                           to + p * count * kPanel);
    }
    BlockReals products;
    products.values = to;
    return products;
  }

 private:
  static constexpr auto kPanel = static_cast<int64_t>(kBlockPanel);

  BlockReals reals(const Memory& memory, int64_t at) const {
    BlockReals found;
    found.is_half = is_half_;
    found.values = numbers_.at<const uint8_t>(memory) + at * kPanel * (is_half_ ? 2 : 4);
    return found;
  }

  const BlockGemmOps& ops_;
  Origin numbers_;
  std::optional<Origin> fine_;
  bool is_half_;
  int64_t blocks_, reals_;  // of a panel
};

}  // namespace intact
