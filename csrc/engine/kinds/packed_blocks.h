// Constant weights in blocks, packed in panels as kernels read them (steps/block_linear.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/binding.h"
#include "engine/kinds/block_constants.h"
#include "steps/block_linear.h"

namespace intact::engine {

// Refuses blocks that kernels do not multiply.
inline void check_cut(const Checker& checker, int64_t inputs, int64_t x_block, int64_t block) {
  try {
    BlockCut(inputs, x_block, block);
  } catch (const std::invalid_argument&) {
    checker.that(false,
                 "blocks of one side that are parts of the other's, of 8 elements or multiples, "
                 "with sums that fit int32");
  }
}

// Equal bytes of other layers may be codes of other bits.
inline std::string name_of_blocks(const BlockConstants& w) {
  return std::to_string(w.inputs) + "x" + std::to_string(w.bits);
}

// What the codes of a weight in panels are called.
inline std::string name_of_panels(const BlockConstants& w) { return "block_codes_" + name_of_blocks(w); }

inline Bytes panels_of(Binding& binding, const BlockConstants& w) {
  return binding.packed(w.weight, name_of_panels(w), [&](const Bytes& b) {
    return pack_block_codes(b.bytes, binding.shape(w.weight)[0], w.inputs, static_cast<int>(w.bits));
  });
}

// A dense view of one axis.
inline View line_of(Binding& binding, const Bytes& bytes, Type type) {
  return binding.keep(bytes, type, {static_cast<int64_t>(bytes.bytes.size() / bytes_of(type))});
}

// Packed once for all sizes and all steps that name the same constants.
struct PackedBlocks {
  PackedBlocks(Binding& binding, const BlockConstants& w)
      : bits(packed_bits(static_cast<int>(w.bits))),
        n_(binding.shape(w.weight)[0]),
        form_(name_of_blocks(w)),
        bytes_(panels_of(binding, w)) {
    codes = line_of(binding, bytes_, Type::u8);
    scales = values<float>(binding, w.scales, "block_scales", Type::f32);
    if (w.zero_points != kNoValue) {
      zeros = values<uint8_t>(binding, w.zero_points, "block_zero_points", Type::u8);
    } else if (bits != w.bits) {
      // Half of the range of codes that have fewer bits than their panels.
      const std::vector<uint8_t> middles(static_cast<size_t>(scales.sizes[0]),
                                         static_cast<uint8_t>(1 << (w.bits - 1)));
      zeros = binding.hold(middles, Type::u8, {scales.sizes[0]});
    }
    if (w.minima != kNoValue) minima = values<float>(binding, w.minima, "block_minima", Type::f32);
  }

  // Sums of the codes of each piece.
  View sums(Binding& binding, int weight, const BlockCut& cut) const {
    const auto sum = [&](const Bytes&) {
      return bytes_of_values(sum_block_codes(bytes_.bytes, n_, bits, cut));
    };
    const std::string form = "block_sums_" + form_ + "_" + std::to_string(cut.piece);
    return line_of(binding, binding.packed(weight, form, sum, Type::i32), Type::i32);
  }

  // A constant with numbers for each output.
  template <class T>
  View values(Binding& binding, int value, const char* form, Type type) const {
    const auto pack = [&](const Bytes& b) { return bytes_of_values(pack_block_values(b.as<T>(), n_)); };
    return line_of(binding, binding.packed(value, form, pack, type), type);
  }

  int bits;  // 4 or 8
  View codes, scales;
  std::optional<View> zeros, minima;

 private:
  template <class T>
  static std::vector<uint8_t> bytes_of_values(const std::vector<T>& values) {
    const auto* const first = reinterpret_cast<const uint8_t*>(values.data());
    return {first, first + values.size() * sizeof(T)};
  }

  int64_t n_;
  std::string form_;
  Bytes bytes_;
};

}  // namespace intact::engine
