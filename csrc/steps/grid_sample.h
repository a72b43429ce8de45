// Values of images at the places of a grid (N59): numerics.grid_sample.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "runtime/step.h"
#include "steps/common/named_kinds.h"

namespace intact {

enum class GridMode : uint8_t { linear, nearest };
enum class GridPadding : uint8_t { zeros, border, reflection };
constexpr const char* kGridPaddingNames[] = {"zeros", "border", "reflection"};
constexpr std::optional<GridPadding> grid_padding_of(std::string_view name) {
  return find_kind<GridPadding>(kGridPaddingNames, name);
}

struct GridSampleSpec {
  View x, grid, y;  // f32: (n, c, h, w), (n, rows, columns, 2), (n, c, rows, columns), in any order in memory
  GridMode mode;
  GridPadding padding;
  bool align_corners;
};

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_grid_sample(const GridSampleSpec& spec);

}  // namespace intact
