// Constant weights in blocks, packed in panels as kernels read them (steps/block_linear.h).
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "engine/binding.h"
#include "engine/kinds/block_constants.h"
#include "steps/block_float_linear.h"
#include "steps/block_linear.h"

namespace intact::engine {

inline Bytes panels_of(Binding& binding, const BlockConstants& w) {
  return binding.packed(w.weight, w.panels, [&](const Bytes& b) {
    return pack_few_codes(b.bytes, binding.shape(w.weight)[0], w.inputs, static_cast<int>(w.bits));
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

// Codes in panels, and the table that they may be places in.
struct PackedCodes {
  PackedCodes(Binding& binding, const BlockConstants& w, const Bytes& bytes)
      : bits(packed_bits(static_cast<int>(w.bits), w.inputs)),
        codes(packed_vector(binding, bytes, Type::u8)) {
    const size_t places = bytes_of_places(binding.shape(w.weight)[0], w.inputs);
    if (bytes.bytes.size() != places + kTableBytes) return;
    bits = 4;
    values = bytes.bytes.data() + places;
    table = codes;
    table->offset += places;
    table->sizes[0] = kBlockTableSize;
    codes.sizes[0] = static_cast<int64_t>(places);
  }

  int bits;
  View codes;
  std::optional<View> table;
  const uint8_t* values = nullptr;  // of the table
};

// Packed once for all sizes and all steps that name the same constants.
struct PackedBlocks {
  PackedBlocks(Binding& binding, const BlockConstants& w)
      : n_(binding.shape(w.weight)[0]),
        form_(w.form),
        bytes_(panels_of(binding, w)),
        packed_(binding, w, bytes_) {
    scales = levels(binding, w.scales, w.sub_scales, "block_scales", "block_sub_scales");
    zero = 1 << (w.bits - 1);
    if (w.zero_points != kNoValue) pack_zeros(binding, w.zero_points);
    if (w.minima != kNoValue) {
      minima = levels(binding, w.minima, w.sub_minima, "block_minima", "block_sub_minima");
    }
  }

  // Sums of the codes of each piece.
  View sums(Binding& binding, int weight, const BlockCut& cut) const {
    const auto sum = [&](const Bytes&) {
      return bytes_of_values(sum_block_codes(bytes_.bytes, n_, packed_.bits, cut, packed_.values));
    };
    const std::string form = "block_sums_" + form_ + "_" + std::to_string(cut.piece);
    return packed_vector(binding, binding.packed(weight, form, sum, Type::i32), Type::i32);
  }

  // A constant with numbers for each output.
  template <class T>
  View values(Binding& binding, int value, const std::string& form, Type type) const {
    const auto pack = [&](const Bytes& b) { return bytes_of_values(pack_block_values(b.as<T>(), n_)); };
    return packed_vector(binding, binding.packed(value, form, pack, type), type);
  }

  // The weights of a product of codes; what it reads and writes is open.
  BlockLinearSpec spec(Binding& binding, int bias) const {
    BlockLinearSpec found{};
    found.bits = packed_.bits;
    found.weight = packed_.codes;
    found.table = packed_.table;
    found.scales = scales;
    found.zeros = zeros;
    found.zero = zero;
    found.minima = minima;
    if (bias != kNoValue) found.bias = values<float>(binding, bias, "block_bias", Type::f32);
    return found;
  }

  // Those of a product of floats.
  BlockFloatWeights float_weights(Binding& binding, int bias) const {
    BlockFloatWeights found{packed_.bits, packed_.codes, packed_.table, scales, zeros, zero, minima, {}};
    if (bias != kNoValue) found.start = binding.constant(bias);
    return found;
  }

  BlockValues scales;
  std::optional<View> zeros;  // none: all are `zero`
  int32_t zero;
  std::optional<BlockValues> minima;

 private:
  BlockValues levels(Binding& binding, int value, int fine, const char* form, const char* fine_form) const {
    BlockValues found{reals(binding, value, form), {}};
    if (fine != kNoValue) found.fine = values<int8_t>(binding, fine, fine_form, Type::i8);
    return found;
  }

  // Numbers of blocks as float16 where that is exact: half of what a row of a product reads beside the codes.
  View reals(Binding& binding, int value, const char* form) const {
    const auto pack = [&](const Bytes& b) {
      return halve_block_values(pack_block_values(b.as<float>(), n_));
    };
    const Bytes bytes = binding.packed(value, form, pack);
    const auto blocks = static_cast<size_t>(binding.shape(value)[1]);
    const size_t numbers = (static_cast<size_t>(n_) + kBlockPanel - 1) / kBlockPanel * kBlockPanel * blocks;
    return packed_vector(binding, bytes, bytes.bytes.size() == 2 * numbers ? Type::f16 : Type::f32);
  }

  // One byte where all are equal.
  void pack_zeros(Binding& binding, int value) {
    const auto pack = [&](const Bytes& b) {
      const auto points = b.as<uint8_t>();
      const bool is_one =
          std::all_of(points.begin(), points.end(), [&](uint8_t p) { return p == points[0]; });
      return is_one ? std::vector<uint8_t>{points[0]} : bytes_of_values(pack_block_values(points, n_));
    };
    const Bytes bytes = binding.packed(value, "block_zero_points", pack);
    if (bytes.bytes.size() == 1) {
      zero = bytes.bytes[0];
    } else {
      zeros = packed_vector(binding, bytes, Type::u8);
    }
  }

  int64_t n_;
  const std::string& form_;
  Bytes bytes_;
  PackedCodes packed_;
};

}  // namespace intact::engine
