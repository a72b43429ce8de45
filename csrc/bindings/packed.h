// Packed weights as Python holds them: arrays of bytes for codes, of float32 for floats.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "steps/common/float_cut.h"
#include "steps/conv.h"

namespace intact {

using WeightArray = nb::ndarray<const int8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using PackedBytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using PackedVector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Keeps a Python object alive from wherever a step is destroyed.
inline std::shared_ptr<const void> keep(nb::object object) {
  return {new nb::object(std::move(object)), [](const void* p) {
            const nb::gil_scoped_acquire gil;
            delete static_cast<const nb::object*>(p);
          }};
}

inline nb::ndarray<nb::numpy, uint8_t> array_of(std::vector<uint8_t> bytes) {
  auto* const bytes_on_heap = new std::vector<uint8_t>(std::move(bytes));
  const nb::capsule owner(bytes_on_heap,
                          [](void* p) noexcept { delete static_cast<std::vector<uint8_t>*>(p); });
  return {bytes_on_heap->data(), {bytes_on_heap->size()}, owner};
}

inline PackedFloats packed_of(const PackedVector& packed) {
  return {packed.data(), packed.size(), keep(nb::cast(packed))};
}

inline PackedWeights weights_of(const PackedBytes& packed) {
  return {packed.data(), packed.size(), keep(nb::cast(packed))};
}

}  // namespace intact
