// The constants of an epilogue in the form that kernels read, panel by panel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "steps/common/epilogue.h"

namespace intact {

// The constants of all panels, each padded to its width.
struct PanelConstants {
  std::vector<int32_t> correction;
  std::vector<int32_t> high;  // corrections of high bytes' sums; empty: codes are bytes
  std::vector<float> multiplier, bias, gains, shifts, factors, offsets, slopes;

  // Appends the constants of one panel. `shifted`: added to the corrections; may be empty.
  void append(const EpilogueSpec& e, int32_t channel, int32_t channels, int32_t width,
              const std::vector<int32_t>& shifted) {
    append(correction, e.correction, channel, channels, width, shifted);
    for (int32_t c = 0; c < width; ++c) {
      const auto from = static_cast<size_t>(channel + c);
      const bool exists = c < channels;
      multiplier.push_back(exists ? e.multiplier[from] : 0.0f);
      bias.push_back(exists ? e.bias[from] : 0.0f);
      if (!e.gains.empty()) gains.push_back(exists ? e.gains[from] : 0.0f);
      if (!e.shifts.empty()) shifts.push_back(exists ? e.shifts[from] : 0.0f);
      if (!e.factors.empty()) factors.push_back(exists ? e.factors[from] : 0.0f);
      if (!e.offsets.empty()) offsets.push_back(exists ? e.offsets[from] : 0.0f);
      if (!e.slopes.empty()) slopes.push_back(exists ? e.slopes[from] : 0.0f);
    }
  }

  // Appends the corrections of one panel.
  static void append(std::vector<int32_t>& all, const std::vector<int32_t>& own, int32_t channel,
                     int32_t channels, int32_t width, const std::vector<int32_t>& shifted) {
    for (int32_t c = 0; c < width; ++c) {
      const auto more = shifted.empty() ? 0u : static_cast<uint32_t>(shifted[static_cast<size_t>(c)]);
      const auto from = static_cast<size_t>(channel + c);
      all.push_back(c < channels ? static_cast<int32_t>(static_cast<uint32_t>(own[from]) + more) : 0);
    }
  }

  // The values of the panel that begins at `at`; nullptr if there are none.
  static const float* part_of(const std::vector<float>& values, size_t at) {
    return values.empty() ? nullptr : values.data() + at;
  }
};

}  // namespace intact
