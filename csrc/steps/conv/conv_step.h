// A convolution by vector kernels: panels of weights, divided into items, and tiles of rows. For
// steps/conv.cc and chosen_linear.cc alone.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/tuning.h"
#include "kernels/registry.h"
#include "steps/conv.h"
#include "steps/conv/sum_source.h"

namespace intact::conv_panels {

using namespace tuning::conv_panels;

constexpr int kLine = 64;  // bytes

// One panel: its steps as offsets, and its part of the constants, padded to its width.
struct BoundPanel {
  GemmSteps steps;
  int32_t channel, channels, group;
  size_t constants;  // index of its first constant
  int64_t bytes;     // of weights, which is also the number of products per pixel
};

// The steps and panels of a layer for images of one pitch, whatever their sizes. `shares`: a row is
// multiplied by one of so many parts of the weights.
struct PanelSteps {
  PanelSteps(const ConvLayer& layer, const WindowPitch& pitch, int64_t shares);
  PanelSteps(const PanelSteps&) = delete;  // panels point into it
  PanelSteps& operator=(const PanelSteps&) = delete;

  std::vector<std::vector<int32_t>> steps;   // one list for all panels, or one per panel
  std::vector<std::vector<int32_t>> places;  // per panel, where outliers are split off
  std::vector<BoundPanel> panels;
  WindowCopies copies;
  int widest = 0;

 private:
  void bind_copies(const ConvLayer& layer, const WindowPitch& pitch, const PackedPanel& from,
                   BoundPanel& panel);
};

// The division of work into items. An item is a chunk of panels by a block of tiles; blocks are the inner
// loop.
struct Cutting {
  int rows;  // of a tile, at most
  int64_t blocks, most_pixels;
  std::vector<size_t> chunks;  // the first panel of each chunk, and the end
};

struct Range {
  int64_t first, end;
};

struct Rows {
  const uint8_t** x;
  uint8_t** y;
  const uint8_t** residual;

  Rows from(int64_t first) const { return {x + first, y + first, residual + first}; }
};

// The scratch of one thread.
struct Scratch {
  Rows rows;
  float* floats;
  int32_t *sums, *low;  // low: sums of low bytes, for codes of 16 bits
  uint8_t* copies;
};

class ConvStep : public Step {
 public:
  explicit ConvStep(const ConvSpec& spec);

  size_t items() const override { return cut_.blocks == 0 ? 0 : (cut_.chunks.size() - 1) * blocks(); }
  int64_t work(size_t item) const override;
  std::string name() const override { return name_of(layer_->kernel); }
  std::vector<Loop> loops() const override;
  size_t scratch() const override;
  void run(const Memory& memory, size_t begin, size_t end, uint8_t* scratch) const noexcept override;

 protected:
  struct Ahead {  // weights to prefetch
    const int8_t* from;
    int64_t bytes;
  };

  // `by_index`: each row is multiplied by the weights of one group, and all groups read the same channels.
  ConvStep(const ConvSpec& spec, bool by_index);
  size_t tile_bytes() const;  // of sums, and of floats
  size_t tiles_kept() const { return s_.low ? 3 : 2; }
  // Returns whether neighbouring blocks run as one. Wide panels do, so that weights are read fewer times.
  // Narrow panels do not: they are narrower than a cache line, whose parts should be written close in time.
  bool joins() const { return layer_->kernel->unit * layer_->kernel->widest >= kLine; }
  size_t blocks() const { return static_cast<size_t>(cut_.blocks); }
  int64_t tiles() const { return (pixels_ + cut_.rows - 1) / cut_.rows; }
  int64_t chunk_bytes(size_t chunk) const;
  int64_t largest_chunk() const {
    return copies_.any() ? std::max(kChunkBytes, kCopiedPanels * panels_.front().bytes) : kChunkBytes;
  }
  int64_t blocks_for(int64_t products) const;
  void cut();
  void cut_chunks(int64_t most);
  void cut_evenly(int64_t item, int64_t products);
  void run_blocks(const Memory& memory, size_t chunk, Range blocks, bool fresh, uint8_t* scratch) const;
  int64_t pixel_of(int64_t block) const { return pixels_ * block / cut_.blocks; }
  Ahead ahead_of(size_t chunk, Range blocks, size_t p, bool fresh) const;
  Scratch scratch_at(uint8_t* at) const;
  ptrdiff_t offset_of_group(const BoundPanel& p) const { return ptrdiff_t{p.group} * group_channels_; }
  Source source_of(const BoundPanel& panel, const Rows& rows, ptrdiff_t offset,
                   const WindowCopies::Rows& copy, int count) const;
  // Runs panels [first, end) on some rows. `apart`: bytes from high bytes to low ones. `ahead(p)`: weights to
  // prefetch during panel p.
  template <class AheadOf>
  void run_panels(size_t first, size_t end, const Rows& rows, int count, ptrdiff_t apart, const Scratch& own,
                  const AheadOf& ahead) const;
  void run_panel(const BoundPanel& panel, const Rows& rows, const WindowCopy& copy, int count,
                 const Ahead& ahead, const Scratch& own) const;
  void run_tiles(const BoundPanel& panel, Source& source, Source* low, GemmRows& rows) const;
  void fill_rows(const Memory& memory, int64_t first, int64_t end, const Rows& rows) const;

  const ConvViews s_;
  const std::shared_ptr<const ConvLayer> layer_;
  const int64_t shares_;  // a row is multiplied by one of this many parts of the weights
  const std::shared_ptr<const PanelSteps> window_;
  const std::vector<BoundPanel>& panels_;
  WindowCopies copies_;
  const int widest_;
  Cutting cut_{};
  int64_t pixels_ = 0;
  int32_t group_channels_ = 0;
};

template <class AheadOf>
void ConvStep::run_panels(size_t first, size_t end, const Rows& rows, int count, ptrdiff_t apart,
                          const Scratch& own, const AheadOf& ahead) const {
  int32_t group = -1;  // whose windows are copy
  WindowCopies::Rows copy, low;
  for (size_t p = first; p < end; ++p) {
    const BoundPanel& panel = panels_[p];
    if (panel.steps.words > 0 && group != panel.group) {
      group = panel.group;
      copy = copies_.copy(*layer_->kernel, rows.x, offset_of_group(panel), count, own.copies);
      if (s_.low) {
        low = copies_.copy(*layer_->kernel, rows.x, offset_of_group(panel) + apart, count,
                           own.copies + copies_.bytes());
      }
    }
    run_panel(panel, rows, {copy, low, apart}, count, ahead(p), own);
  }
}

}  // namespace intact::conv_panels
