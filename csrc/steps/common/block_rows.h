// Codes of rows as products with weights in blocks read them (kernels/block_gemm/block_gemm.h).
#pragma once

#include "kernels/block_gemm/block_gemm.h"
#include "steps/block_linear.h"

namespace intact {

// A group of rows, of which those that are not there are nullptr.
inline BlockLay lay_of(const BlockCut& cut, const uint8_t* const* rows, bool is_unsigned, int8_t* codes,
                       int32_t* negatives) {
  return {rows,
          is_unsigned,
          static_cast<size_t>(cut.k),
          static_cast<size_t>(cut.units),
          static_cast<size_t>(cut.pieces),
          static_cast<size_t>(cut.piece),
          codes,
          negatives};
}

}  // namespace intact
