// A convolution or a product with a constant matrix (an image of 1 x M pixels), and its epilogue: N19 to N25.
// The input is read through its halo; the output may be any strided image, so that a transposed convolution
// is a few of these, each writing the pixels of one phase.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>

#include "kernels/gemm/packed.h"
#include "runtime/step.h"
#include "steps/common/epilogue.h"
#include "steps/common/panel_constants.h"

namespace intact {

// Packed weights, and what keeps their bytes alive.
struct PackedWeights {
  const uint8_t* data;
  size_t bytes;
  std::shared_ptr<const void> owner;
};

// What was made last, and for which key: bindings for new sizes mostly ask for the same again. Any number of
// threads may ask at once.
template <class Key, class Value>
class LastMade {
 public:
  template <class Make>
  std::shared_ptr<const Value> get(const Key& key, const Make& make) const {
    {
      const std::lock_guard lock(mutex_);
      if (value_ != nullptr && key == key_) return value_;
    }
    std::shared_ptr<const Value> made = make();
    const std::lock_guard lock(mutex_);
    key_ = key;
    return value_ = std::move(made);
  }

 private:
  mutable std::mutex mutex_;
  mutable Key key_{};
  mutable std::shared_ptr<const Value> value_;
};

// Steps of a window as the kernels of panels (PanelSteps) or of tiles (TileSteps) read them.
namespace conv_panels {
struct PanelSteps;
}
namespace conv_tiles {
struct TileSteps;
}
// Bytes from one line of a window to the next, and from one pixel to the next: nothing else of an image
// changes where the steps lie.
using WindowPitch = std::array<int64_t, 2>;

// A layer, whatever the size of its images.
struct ConvLayerSpec {
  const GemmOps* kernel;
  PackedWeights packed;  // pack_gemm's bytes for this kernel
  EpilogueSpec epilogue;
  bool is_wide = false;  // codes have 16 bits
  int shift = 0;  // of the joined sums of 16-bit codes (join_sums in gemm.h)
  std::vector<int32_t>
      high_correction{};  // [c of y], for the sums of x; the epilogue's is for those of `low`
  int32_t zero = 0;  // the byte of x around which most of its bytes are expected
};

// The same, read and checked: packed weights, and the constants of the epilogue panel by panel. Steps of all
// sizes share one. Throws std::invalid_argument for weights that no kernel packs, or another epilogue.
struct ConvLayer : SettledEpilogue {
  explicit ConvLayer(const ConvLayerSpec& spec);

  const GemmOps* kernel;
  Packed packed;
  PanelConstants constants;
  bool is_wide;
  int shift;
  int32_t zero;
  std::shared_ptr<const void> owner;
  LastMade<std::array<int64_t, 3>, conv_panels::PanelSteps> panel_steps;  // by pitch and shares
  LastMade<WindowPitch, conv_tiles::TileSteps> tile_steps;

 private:
  ConvLayer(const ConvLayerSpec& spec, Packed read);
};

// The images and the window of a convolution.
struct ConvViews {
  View x, y;  // (n, h, w, c): x of bytes, y of bytes or float32
  std::optional<View> low;  // for codes of 16 bits, which are 256 * x + low; lies as x does
  std::optional<View> residual;  // bytes, sizes of y
  std::array<int64_t, 2> strides{1, 1}, dilations{1, 1};
  std::array<int64_t, 2> origin{0, 0};  // input pixel under the first tap of output pixel (0, 0); -1: pad 1
  int threads = 1;  // that share the work
};

struct ConvSpec : ConvViews {
  std::shared_ptr<const ConvLayer> layer;
};

// Throws std::invalid_argument unless images, weights of so many channels, and epilogue fit each other.
// `high` is the largest byte of x for which the weights were packed.
void check_conv(const ConvViews& views, const Epilogue& epilogue, int64_t in, int64_t out, int32_t high);

// Channels in a register of the narrowest kernels.
constexpr int kNarrowest = 8;

// Returns whether so many pixels, bytes of a window and output channels of a group fill the registers of a
// kernel. A tile has 16 rows and 64 bytes of depth, and takes as long where few of them are used. So
// does a vector of 16 channels where there are 8.
bool fills(const GemmOps& kernel, int64_t pixels, int64_t window, int64_t channels);

// Throws std::invalid_argument for a step that is unsafe to run (base/check.h).
std::unique_ptr<Step> make_conv(const ConvSpec& spec);

}  // namespace intact
