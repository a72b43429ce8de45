#include "engine/kinds/float_filters.h"

#include <cstring>

namespace intact::engine {
namespace {

std::vector<uint8_t> bytes_of_floats(const std::vector<float>& floats) {
  std::vector<uint8_t> found(floats.size() * sizeof(float));
  std::memcpy(found.data(), floats.data(), found.size());
  return found;
}

}  // namespace

std::vector<uint8_t> pack_matrices(const FloatGemmOps& ops, const float* matrices, int64_t groups, int64_t k,
                                   int64_t columns) {
  const auto depth = static_cast<size_t>(k), width = static_cast<size_t>(columns);
  const size_t each = (width + ops.panel - 1) / ops.panel * ops.panel * depth;
  std::vector<float> packed(static_cast<size_t>(groups) * each);
  for (size_t g = 0; g < static_cast<size_t>(groups); ++g) {
    ops.pack(matrices + g * depth * width, static_cast<ptrdiff_t>(width), 1, depth, width,
             packed.data() + g * each);
  }
  return bytes_of_floats(packed);
}

std::vector<uint8_t> pack_filters(const FloatGemmOps& ops, const float* weight, int64_t out, int64_t taps,
                                  int64_t in, int64_t groups) {
  const auto outputs = static_cast<size_t>(out), depth = static_cast<size_t>(taps * in);
  const bool by_channel = groups == out && out > 1 && in == 1;
  const size_t each = by_channel ? outputs : outputs / static_cast<size_t>(groups);
  std::vector<float> turned(outputs * depth);  // [groups][depth][each]
  for (size_t o = 0; o < outputs; ++o) {
    float* const to = turned.data() + o / each * depth * each + o % each;
    for (size_t d = 0; d < depth; ++d) to[d * each] = weight[o * depth + d];
  }
  if (by_channel) return bytes_of_floats(turned);
  return pack_matrices(ops, turned.data(), groups, taps * in, static_cast<int64_t>(each));
}

PackedFloats packed_floats(const Bytes& bytes) {
  return {reinterpret_cast<const float*>(bytes.bytes.data()), bytes.bytes.size() / sizeof(float),
          bytes.owner};
}

}  // namespace intact::engine
