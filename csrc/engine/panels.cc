#include "engine/panels.h"

#include "engine/failure.h"
#include "kernels/block_gemm/block_gemm.h"
#include "steps/block_linear.h"

namespace intact::engine {

std::string Panels::form() const {
  return "block_codes_" + std::to_string(inputs) + "x" + std::to_string(bits);
}

void Panels::check(const std::string& where, Type type, const Shape& shape) const {
  const bool sound = type == Type::u8 && shape.rank == 2 && 2 <= bits && bits <= 8 && 0 < inputs &&
                     inputs <= kMostBlockElements && 0 < shape[0] && shape[0] <= kMostBlockElements &&
                     shape[1] == (inputs * bits + 7) / 8;
  if (!sound) fail_file(where, "panels of another shape", "those of such a constant");
}

std::vector<uint8_t> Panels::unpack(const std::string& where, std::span<const uint8_t> packed,
                                    int64_t outputs) const {
  const auto rows = static_cast<size_t>(outputs), depth = static_cast<size_t>(inputs),
             each = static_cast<size_t>(bits), row_bytes = (depth * each + 7) / 8;
  const int in_panels = packed_bits(static_cast<int>(bits), inputs);
  const size_t panel_bytes = block_panel_bytes(inputs, in_panels);
  const size_t wanted = (rows + kBlockPanel - 1) / kBlockPanel * panel_bytes;
  if (packed.size() != wanted)
    fail_file(where, std::to_string(packed.size()) + " bytes of panels", std::to_string(wanted));
  std::vector<uint8_t> stream(rows * row_bytes);
  for (size_t i = 0; i < rows; ++i) {
    const uint8_t* const panel = packed.data() + i / kBlockPanel * panel_bytes;
    uint8_t* const to = stream.data() + i * row_bytes;
    for (size_t k = 0; k < depth; ++k) {
      const unsigned code = block_code(panel, in_panels, k, i % kBlockPanel) & ((1u << each) - 1);
      const size_t byte = k * each / 8;
      const unsigned both = code << (k * each % 8);
      to[byte] = static_cast<uint8_t>(to[byte] | both);
      if (both > 255) to[byte + 1] = static_cast<uint8_t>(both >> 8);
    }
  }
  return stream;
}

}  // namespace intact::engine
