// Constant weights in blocks, packed in panels as kernels read them (steps/block_linear.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "engine/binding.h"
#include "engine/failure.h"
#include "engine/kinds/block_constants.h"
#include "steps/block_float_linear.h"
#include "steps/block_linear.h"

namespace intact::engine {

inline Bytes panels_of(Binding& binding, const BlockConstants& w) {
  return binding.packed(w.weight, w.panels, [&](const Bytes& b) {
    return pack_block_codes(b.bytes, binding.shape(w.weight)[0], w.inputs, static_cast<int>(w.bits));
  });
}

// A dense view of one axis.
inline View packed_vector(Binding& binding, const Bytes& bytes, Type type) {
  return binding.keep(bytes, type, {static_cast<int64_t>(bytes.bytes.size() / bytes_of(type))});
}

template <class T>
std::vector<uint8_t> bytes_of_values(const std::vector<T>& values) {
  const auto* const first = reinterpret_cast<const uint8_t*>(values.data());
  return {first, first + values.size() * sizeof(T)};
}

// Values of a table as codes of 8 bits, of which 128 means 0.
inline std::vector<uint8_t> codes_of_values(const std::string& where, std::span<const float> values) {
  std::vector<uint8_t> codes;
  for (const float value : values) {
    if (!(-128.0f <= value && value <= 127.0f) || value != std::trunc(value))
      fail_file(where, std::to_string(value), "whole numbers from -128 to 127 for a product of codes");
    codes.push_back(static_cast<uint8_t>(static_cast<int>(value) + 128));
  }
  return codes;
}

inline std::string hexadecimal(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    for (const int digit : {byte >> 4, byte & 15}) text += "0123456789abcdef"[digit];
  }
  return text;
}

// Packed once for all sizes and all steps that name the same constants.
class PackedBlocks {
 public:
  PackedBlocks(Binding& binding, const BlockConstants& w)
      : n_(binding.shape(w.weight)[0]),
        form_(w.form),
        bits_(packed_bits(static_cast<int>(w.bits), w.inputs)),
        table_(w.table),
        bytes_(panels_of(binding, w)),
        zero_(1 << (w.bits - 1)) {
    scales_ = levels(binding, w.scales, w.sub_scales, "block_scales", "block_sub_scales");
    if (w.zero_points != kNoValue) pack_zeros(binding, w.zero_points);
    if (w.minima != kNoValue) {
      minima_ = levels(binding, w.minima, w.sub_minima, "block_minima", "block_sub_minima");
    }
  }

  // Those of the step that is bound, alive for as long as its program.
  static const PackedBlocks& of(Binding& binding, const BlockConstants& w) {
    const auto packed = binding.part<PackedBlocks>(
        "blocks", [&] { return std::make_shared<const PackedBlocks>(binding, w); });
    binding.own(packed);
    return *packed;
  }

  // Sums of the codes of each piece.
  View sums(Binding& binding, int weight, const BlockCut& cut) const {
    const std::optional<Bytes> table = code_table(binding);
    const auto sum = [&](const Bytes&) {
      const uint8_t* const codes = table ? table->bytes.data() : nullptr;
      return bytes_of_values(sum_block_codes(bytes_.bytes, n_, bits_, cut, codes));
    };
    std::string form = "block_sums_" + form_ + "_" + std::to_string(cut.piece);
    if (table) form += "_" + hexadecimal(table->bytes);  // other steps may have another table for these codes
    return packed_vector(binding, binding.packed(weight, form, sum, Type::i32), Type::i32);
  }

  // The weights of a product of codes; what it reads and writes is open.
  BlockLinearSpec spec(Binding& binding, int bias) const {
    BlockLinearSpec found{};
    found.bits = bits_;
    found.weight = view(binding, bytes_, Type::u8);
    if (const std::optional<Bytes> table = code_table(binding))
      found.table = packed_vector(binding, *table, Type::u8);
    found.scales = values(binding, scales_);
    if (zeros_) found.zeros = view(binding, *zeros_, Type::u8);
    found.zero = found.table ? 128 : zero_;
    if (minima_) found.minima = values(binding, *minima_);
    if (bias != kNoValue)
      found.bias = packed_vector(binding, pack<float>(binding, bias, "block_bias", Type::f32), Type::f32);
    return found;
  }

  // Those of a product of floats.
  BlockFloatWeights float_weights(Binding& binding, int bias) const {
    BlockFloatWeights found{
        bits_, view(binding, bytes_, Type::u8), {}, values(binding, scales_), {}, zero_, {}, {}};
    if (table_ != kNoValue) found.table = binding.constant(table_);
    if (zeros_) found.zeros = view(binding, *zeros_, Type::u8);
    if (minima_) found.minima = values(binding, *minima_);
    if (bias != kNoValue) found.start = binding.constant(bias);
    return found;
  }

 private:
  // Numbers of blocks, in one level or in two.
  struct Levels {
    Bytes reals;
    Type type = Type::f32;
    std::optional<Bytes> fine;
  };

  // For a product of codes: nothing where these are what they are.
  std::optional<Bytes> code_table(Binding& binding) const {
    if (table_ == kNoValue) return std::nullopt;
    const std::string where = "constant '" + binding.plan.name(table_) + "'";
    return binding.packed(table_, "block_table",
                          [&](const Bytes& b) { return codes_of_values(where, b.as<float>()); });
  }

  static View view(Binding& binding, const Bytes& bytes, Type type) {
    return packed_vector(binding, {bytes.bytes, nullptr}, type);  // `of` keeps them
  }
  static BlockValues values(Binding& binding, const Levels& levels) {
    BlockValues found{view(binding, levels.reals, levels.type), {}};
    if (levels.fine) found.fine = view(binding, *levels.fine, Type::i8);
    return found;
  }

  // A constant with numbers for each output.
  template <class T>
  Bytes pack(Binding& binding, int value, const char* form, Type type) const {
    const auto pack = [&](const Bytes& b) { return bytes_of_values(pack_block_values(b.as<T>(), n_)); };
    return binding.packed(value, form, pack, type);
  }

  // Float16 where that is exact: half of what a row of a product reads beside the codes.
  Levels levels(Binding& binding, int value, int fine, const char* form, const char* fine_form) const {
    const auto pack_reals = [&](const Bytes& b) {
      return halve_block_values(pack_block_values(b.as<float>(), n_));
    };
    Levels found{binding.packed(value, form, pack_reals), Type::f32, {}};
    const auto blocks = static_cast<size_t>(binding.shape(value)[1]);
    const size_t numbers = (static_cast<size_t>(n_) + kBlockPanel - 1) / kBlockPanel * kBlockPanel * blocks;
    if (found.reals.bytes.size() == 2 * numbers) found.type = Type::f16;
    if (fine != kNoValue) found.fine = pack<int8_t>(binding, fine, fine_form, Type::i8);
    return found;
  }

  // One byte where all are equal.
  void pack_zeros(Binding& binding, int value) {
    const auto pack = [&](const Bytes& b) {
      const auto points = b.as<uint8_t>();
      const bool is_one =
          std::all_of(points.begin(), points.end(), [&](uint8_t p) { return p == points[0]; });
      return is_one ? std::vector<uint8_t>{points[0]} : bytes_of_values(pack_block_values(points, n_));
    };
    Bytes bytes = binding.packed(value, "block_zero_points", pack);
    if (bytes.bytes.size() == 1) {
      zero_ = bytes.bytes[0];
    } else {
      zeros_ = std::move(bytes);
    }
  }

  const int64_t n_;
  const std::string& form_;
  const int bits_, table_;
  const Bytes bytes_;
  Levels scales_;
  std::optional<Bytes> zeros_;  // none: all are `zero_`
  int32_t zero_;
  std::optional<Levels> minima_;
};

}  // namespace intact::engine
