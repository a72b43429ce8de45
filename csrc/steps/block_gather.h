// Rows of a table of codes in blocks, as floats: numerics.dequantize_blocks (N67), normative.
#pragma once

#include <memory>
#include <optional>

#include "runtime/step.h"

namespace intact {

// Numbers of the blocks of each row, dense: one for each, or integers of blocks, each multiplied by the
// number of its super-block.
struct BlockRowValues {
  View reals;  // f32 [rows, blocks or supers]
  std::optional<View> fine;  // i8 [rows, blocks]
};

// Row i of y is fl32(fl32((q - z) * s) + m) of the table's row that index i names, counted row by row.
// Negative indices count from the end. One that is out of range fails the run.
struct BlockGatherSpec {
  View index;  // i32 or i64 [a, b], neighbours side by side
  View y;  // f32 [a * b, k], likewise
  View codes;  // u8 [rows, bytes], dense: codes one after the other, the lowest bit first
  bool is_packed;  // codes are u8 [bytes] in panels instead (pack_block_codes)
  std::optional<View> table;  // f32 [16]: values of codes of 4 bits, without zeros
  BlockRowValues scales;
  std::optional<View> zeros;  // u8 [rows, blocks], dense; none: half of the codes' range
  std::optional<BlockRowValues> minima;  // none: nothing is added
  int bits;  // 2 to 8
  int64_t block;  // elements that share a scale; the last block may have fewer
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_block_gather(const BlockGatherSpec& spec);

}  // namespace intact
